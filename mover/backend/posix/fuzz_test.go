package posix

import (
	"bytes"
	"strings"
	"testing"

	"datamove.dev/mover"
)

// FuzzDirents: what a broken or hostile file system server answers to getdents64
// gives an error or names of one segment, and nothing else.
//
//safety:6 with TestBeyondPathMax
func FuzzDirents(f *testing.F) {
	f.Add(append(append(make([]byte, 16), 24, 0, 8), "abcd\x00"...))
	f.Add(append(append(make([]byte, 16), 24, 0, 4), "..\x00\x00\x00"...))
	f.Add(append(append(make([]byte, 16), 255, 255, 8), "a/b\x00\x00"...))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l listing
		err := parse(b, func(name []byte, kind mover.Kind) error {
			if len(name) == 0 || len(name) > 255 || bytes.ContainsAny(name, "/\x00") || string(name) == ".." || kind > mover.BlockDevice {
				t.Errorf("name %q of kind %v", name, kind)
			}
			return l.add(name, kind)
		})
		if err != nil {
			return
		}
		l.sort()
		for i := 1; i < len(l.records); i++ {
			a, b := l.records[i-1], l.records[i]
			if mover.CompareNames(l.string(a), a.kind == mover.Dir, l.string(b), b.kind == mover.Dir) > 0 {
				t.Errorf("%q comes before %q", l.string(a), l.string(b))
			}
		}
	})
}

// FuzzToken: no token leads out of the root, or to a name that is not a draft's.
//
//safety:1 what walks ignore as temporary is nothing else
//safety:6 with TestHostileTokens
func FuzzToken(f *testing.F) {
	for _, s := range []string{"a/.datamove-t-1-2", "../.datamove-t-1-2", "a/.datamove-t-1-2/b", "/.datamove-t-1-2", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		seat, temp, err := new(Backend).parseToken(mover.Token(s))
		if err != nil {
			return
		}
		if mover.Join(seat, temp) != s || !mover.ValidName(s) || !strings.Contains(s, mover.TempPrefix) {
			t.Errorf("%q leads to %q in %q", s, temp, seat)
		}
	})
}
