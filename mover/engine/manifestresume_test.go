package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// breakingShelf has a manifest, whose reader breaks off after so many bytes, each time.
type breakingShelf struct {
	manifestStore
	text  func() []byte
	after []int // of each opening; beyond them it is whole
	opens int
}

func (s *breakingShelf) OpenManifest(context.Context) (io.ReadCloser, error) {
	text, n := s.text(), s.opens
	s.opens++
	if n < len(s.after) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(text[:s.after[n]]), iotest.ErrReader(&mover.Error{Op: "read", Err: mover.ErrTransient}))), nil
	}
	return io.NopCloser(bytes.NewReader(text)), nil
}

// TestManifestBreaksOff: a manifest is read to its end though its store breaks off, and one that is replaced meanwhile is not mixed.
func TestManifestBreaksOff(t *testing.T) {
	text := make([]byte, 100_000)
	for i := range text {
		text[i] = byte(rand.New(rand.NewPCG(1, uint64(i))).Uint32())
	}
	for _, after := range [][]int{{}, {0}, {50_000}, {50_000, 10, 0, 70_000, 70_001}, {100_000}} {
		synctest.Test(t, func(t *testing.T) {
			s := &breakingShelf{text: func() []byte { return text }, after: after}
			r := must.Get(patient{manifestStore: s}.OpenManifest(t.Context()))(t)
			if got := must.Get(io.ReadAll(r))(t); !bytes.Equal(got, text) || s.opens != len(after)+1 {
				t.Errorf("%v: %d bytes, %d opened", after, len(got), s.opens)
			}
			must.Do(t, r.Close())
		})
	}
	synctest.Test(t, func(t *testing.T) {
		other := append([]byte{^text[0]}, text[1:]...)
		s := &breakingShelf{after: []int{50_000}}
		s.text = func() []byte {
			if s.opens == 0 {
				return text
			}
			return other
		}
		r := must.Get(patient{manifestStore: s}.OpenManifest(t.Context()))(t)
		if _, err := io.ReadAll(r); !errors.Is(err, mover.ErrChanged) {
			t.Errorf("another one: %v", err)
		}
		must.Do(t, r.Close())
	})
}
