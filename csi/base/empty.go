package base

import (
	"context"
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// What an emptying has open, and in memory, however a tree was made.
const (
	deepest   = 64   // levels, each of which is a descriptor
	namesOnce = 1024 // of one directory
)

// emptying removes everything below a directory: by descriptors, over no link, and not
// into what is mounted there.
type emptying struct {
	ctx   context.Context
	top   dir
	moved int // directories that lay too deep, and were moved to the top
}

// empty removes what is in d. It ends with ctx, and the next one goes on.
func empty(ctx context.Context, d dir) error {
	e := &emptying{ctx: ctx, top: d}
	for {
		before := e.moved
		if err := e.empty(d, 0); err != nil || e.moved == before {
			return err
		}
	}
}

// empty removes what is in d, a number of levels below the top.
func (e *emptying) empty(d dir, level int) error {
	for {
		names, err := d.some()
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			if err := e.remove(d, name, level); err != nil {
				return err
			}
		}
	}
}

// remove removes one entry of d.
func (e *emptying) remove(d dir, name string, level int) error {
	for {
		err := unix.Unlinkat(int(d), name, 0)
		if err == unix.EISDIR || err == unix.EPERM {
			err = unix.Unlinkat(int(d), name, unix.AT_REMOVEDIR)
		}
		switch err {
		case nil, unix.ENOENT:
			return nil
		case unix.ENOTEMPTY, unix.EEXIST:
			err = e.descend(d, name, level)
		}
		if err != nil || level == deepest {
			return failed("remove", d, name, err)
		}
	}
}

// descend removes what is in a directory of d. One that lies too deep is moved to the top.
func (e *emptying) descend(d dir, name string, level int) error {
	if level == deepest {
		e.moved++
		return e.raise(d, name)
	}
	at, err := d.sub(name)
	if err != nil {
		return err
	}
	defer at.close()
	return errors.Join(e.empty(at, level+1), e.ctx.Err())
}

// raise moves a directory that lies too deep to the top, to be removed from there.
func (e *emptying) raise(d dir, name string) error {
	for {
		err := unix.Renameat2(int(d), name, int(e.top), ".deep-"+strconv.Itoa(e.moved), unix.RENAME_NOREPLACE)
		if err == unix.EEXIST {
			e.moved++
			continue
		}
		return err
	}
}

// some lists some entries of d.
func (d dir) some() ([]string, error) {
	fd, err := openBeneath(d, ".", asDir, 0, sameFS)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.name())
	defer f.Close()
	names, err := f.Readdirnames(namesOnce)
	if err == io.EOF {
		err = nil
	}
	return names, err
}
