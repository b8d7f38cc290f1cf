package s3_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// TestReplacedAtOnce: the store that tests start lists only names that were put. Its folder hears of each name,
// also of one that is there for an instant, which a listing beside it would be shown now and then.
func TestReplacedAtOnce(t *testing.T) {
	server := s3test.Start(t, false)
	if server.Dir == "" {
		t.Skip("the folder of a server that others run is not seen")
	}
	options := server.Options(t)
	place := s3test.Open(t, options)
	put := func(text string) {
		backendtest.Put(t, place, fileEntry("f", []byte(text)), []byte(text))
	}
	put("old")
	heard := must.Get(unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK))(t)
	defer unix.Close(heard)
	must.Get(unix.InotifyAddWatch(heard, filepath.Join(server.Dir, options.Prefix), unix.IN_CREATE|unix.IN_MOVE))(t)
	put("new")
	events := make([]byte, 64<<10)
	events = events[:must.Get(unix.Read(heard, events))(t)]
	for len(events) > 0 { // inotify(7): wd, mask, cookie, and the length of the name, of four bytes each
		end := unix.SizeofInotifyEvent + binary.NativeEndian.Uint32(events[12:])
		if name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:end], "\x00")); name != "f" {
			t.Errorf("there was a name %q", name)
		}
		events = events[end:]
	}
}
