package csi

import (
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/csi/volumestore"
)

// TestKept: the last answer about a volume stands for another one for a while, and is forgotten then.
//
//safety:8 the last answer about a volume stands for a file system that gives none for ten minutes, and no longer
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		k.put("a", volumestore.Stats{UsedBytes: 1})
		time.Sleep(keptFor / 2)
		k.put("a", volumestore.Stats{UsedBytes: 2})
		k.put("b", volumestore.Stats{})
		time.Sleep(keptFor)
		if s, ok := k.get("a"); !ok || s.UsedBytes != 2 {
			t.Errorf("%v, %t", s, ok)
		}
		time.Sleep(time.Second)
		if _, ok := k.get("a"); ok {
			t.Error("it stands for an answer for ever")
		}
		if k.put("c", volumestore.Stats{}); len(k.last) != 1 {
			t.Errorf("%d are remembered", len(k.last))
		}
		if _, ok := k.get("none"); ok {
			t.Error("nobody asked for it")
		}
	})
}
