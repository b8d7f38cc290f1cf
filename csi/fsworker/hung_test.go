package fsworker

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// silent is a file system that answers nothing until it is let.
type silent struct {
	fs.Inode
	asked, let chan struct{}
}

func (s *silent) Lookup(context.Context, string, *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	select {
	case s.asked <- struct{}{}: // from now on the kernel keeps the process that asks
	case <-s.let:
	}
	<-s.let
	return nil, syscall.ENOENT
}

// late is a context that ends, by its deadline, when over says so, once.
type late struct {
	context.Context
	over <-chan struct{}
}

func (l late) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }
func (l late) Done() <-chan struct{}       { return l.over }
func (l late) Err() error                  { return context.DeadlineExceeded } // asked when it is done

// TestUnkillable: a process that the kernel keeps in a call is counted, its lane fails at once instead of
// losing one process after the other, and works again when the file system does. Meanwhile a call by a hand of its own is
// made, and leaves no process.
//
//safety:8 with csi TestManyPublishes
func TestUnkillable(t *testing.T) {
	dir, root := t.TempDir(), &silent{asked: make(chan struct{}), let: make(chan struct{})}
	server, err := fs.Mount(dir, root, &fs.Options{})
	if err != nil {
		t.Skip("needs FUSE: ", err)
	}
	t.Cleanup(func() {
		must.Tell(t, server.Unmount())
		server.Wait()
	})
	c := crew(t)
	c.Stuck = 2
	names := 0
	stat := func(over <-chan struct{}) error {
		names++ // of two calls for one name the kernel lets one wait for the other
		return c.Call(late{t.Context(), over}, "a", "stat", filepath.Join(dir, fmt.Sprint(names)), nil)
	}
	for range 2 {
		if err := stat(root.asked); !errors.Is(err, mover.ErrTimeout) {
			t.Fatal(err)
		}
	}
	if n := c.Hanging()["a"]; n != 2 {
		t.Errorf("%d hands hang", n)
	}
	if err := stat(nil); !errors.Is(err, mover.ErrUnreachable) || !strings.Contains(err.Error(), "2 processes hang") {
		t.Errorf("%v", err)
	}
	pidOf(t, c, "b")
	var got int
	if err := c.Alone(t.Context(), "a", "double", 4, &got); err != nil || got != 8 {
		t.Errorf("alone: %d, %v", got, err)
	}
	for limit := time.Now().Add(30 * time.Second); c.working("a") > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("a process that was for one call stays")
		}
	}
	close(root.let)
	for limit := time.Now().Add(30 * time.Second); c.Hanging()["a"] > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("they are counted though they are gone")
		}
	}
	if err := stat(nil); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// working counts the hands of a lane that do not hang.
func (c *Pool) working(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lane(name)
	return len(l.hands) - len(l.stuck())
}
