package spool

import (
	"os"
	"testing"

	"datamove.dev/test/must"
)

// A spool is nowhere to be seen, from its first moment on.
func TestNameless(t *testing.T) {
	dir := t.TempDir()
	file := must.Get(AnonymousFile(dir))(t)
	defer file.Close()
	if _, err := file.WriteAt([]byte("kept"), 5); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := file.ReadAt(got, 5); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := AnonymousFile(dir + "/gone"); !os.IsNotExist(err) {
		t.Errorf("a directory that is not there: %v", err)
	}
}
