package fsclient

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Closed is a file or a directory that not every user may read.
type Closed struct {
	Name      string // below what is mounted; "." is that itself
	Mode      uint32 // its permissions
	UID, GID  uint32
	Directory bool
}

type closing struct {
	Attachment attachment
	Groups     []uint32
	Most       int
}

// Closed returns the first of some entries of what is mounted for a pod that a user of some groups, without a name there, may not read; nil where
// there is none.
func (f *Files) Closed(ctx context.Context, a Attachment, groups []uint32, most int) (c *Closed, err error) {
	a.Group = nil
	return c, f.call(ctx, a.Spec.Name, "closed", closing{attachment(a), groups, most}, &c)
}

// closed looks at entries in the order of their names, from the top.
func closed(ctx context.Context, q closing) (*Closed, error) {
	return shown(ctx, q.Attachment, func(fd int) (found *Closed, err error) {
		root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d/.", fd))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
			if q.Most--; err != nil || q.Most < 0 || ctx.Err() != nil {
				return fs.SkipAll // what can not be looked at now tells nothing of it
			}
			info, err := e.Info()
			if err != nil {
				return fs.SkipAll
			}
			c, readable := judge(name, info, q.Groups)
			if readable {
				return nil
			}
			found = c
			return fs.SkipAll
		})
		return found, err
	})
}

// judge reports whether a user of some groups that owns nothing may read something.
func judge(name string, info fs.FileInfo, groups []uint32) (*Closed, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() && !info.Mode().IsRegular() {
		return nil, true
	}
	c := &Closed{Name: name, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid, Directory: info.IsDir()}
	for _, group := range groups {
		if group == c.GID {
			return c, c.lets(3)
		}
	}
	return c, c.lets(0)
}

// lets reports whether a class of users can read it; shift selects the permission bits of the class: 6 its owner, 3 its group, 0 all others.
func (c *Closed) lets(shift uint) bool {
	need := uint32(0o4)
	if c.Directory {
		need = 0o5
	}
	return c.Mode>>shift&need == need
}

// Readers are its owner and its group, where they may read it.
func (c *Closed) Readers() (owner, group bool) { return c.lets(6), c.lets(3) }
