package trash

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// What a clearing has open, and in memory, however a tree was made.
const (
	deepest   = 64  // levels, each of which is a descriptor
	namesOnce = 256 // of each
)

// Clear removes everything below an open directory. It ends with ctx, and the next one goes on; an entry
// that stays is told, and the others go.
func Clear(ctx context.Context, dir int, r Rate) error {
	return newClearing(ctx, r).top(dir)
}

// clearing removes trees.
type clearing struct {
	ctx    context.Context
	pace   pace
	way    []level // open directories, from the top on
	roof   int     // of these, the first one that something is moved up to
	mark   string  // of the names of what is raised
	raised int     // directories that lay too deep, and were moved up
	gone   int64   // entries
	faults faults  // of what stays
}

// level is an open directory.
type level struct {
	fd  int
	dev uint64
}

func newClearing(ctx context.Context, r Rate) *clearing {
	return &clearing{ctx: ctx, pace: newPace(r), mark: ".deep-" + rand.Text()[:10] + "-"}
}

// top removes everything below dir, and returns what went wrong with it.
func (c *clearing) top(dir int) error {
	c.faults = faults{}
	for tries := 0; tries < attempts; tries++ {
		fd, err := openBeneath(dir, ".")
		if err != nil {
			return failed("open", dir, "", err)
		}
		before := c.raised
		seen, err := c.enter(fd, nil)
		if err != nil || seen == 0 || c.faults.n > 0 {
			c.faults.add(err)
			return c.faults.err()
		}
		if c.raised > before {
			tries = 0
		}
	}
	return failed("clear", dir, "", unix.ENOTEMPTY)
}

// enter removes what is in an open directory, which it closes, and returns how much it saw. The error is for what ends
// all of it.
func (c *clearing) enter(fd int, st *unix.Stat_t) (seen int, err error) {
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	if st == nil {
		st = &unix.Stat_t{}
		if err := unix.Fstat(fd, st); err != nil {
			return 0, failed("look at", fd, "", err)
		}
	}
	thaw(fd, st)
	makeMutable(fd, st)
	c.way = append(c.way, level{fd, st.Dev})
	defer func() { c.way = c.way[:len(c.way)-1] }()
	for {
		names, err := f.Readdirnames(namesOnce)
		for _, name := range names {
			if err := c.remove(name); err != nil {
				return seen, err
			}
		}
		seen += len(names)
		if err == io.EOF {
			return seen, nil
		}
		if err != nil {
			c.faults.add(failed("list", fd, "", err))
			return seen, nil
		}
	}
}

// remove removes one entry of the last directory on the way. One that stays is told; the error is for what ends all of it.
func (c *clearing) remove(name string) error {
	d := c.way[len(c.way)-1]
	var last error
	for tries := 0; tries < attempts; tries++ {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		bytes := c.pace.weigh(d.fd, name)
		if last = unlink(d.fd, name); last == nil || last == unix.ENOENT {
			c.gone++
			return c.pace.passed(c.ctx, bytes)
		}
		switch last {
		case unix.ENOTEMPTY, unix.EEXIST:
			raised, faults := c.raised, c.faults.n
			away, err := c.descend(d, name)
			switch {
			case err == unix.EACCES:
				loosen(d.fd, name)
			case away || err != nil || c.faults.n > faults:
				return err
			case c.raised > raised:
				tries = 0
			}
		case unix.EPERM, unix.EACCES, unix.EROFS:
			loosen(d.fd, name)
			tries += attempts / 2 // once more
		default:
			tries = attempts
		}
	}
	c.faults.add(failed("remove", d.fd, name, last))
	return nil
}

// descend removes what is in a directory of d. One that lies too deep is away then: moved to where it does not. So is
// a subvolume, in which there is nowhere else to move to.
func (c *clearing) descend(d level, name string) (away bool, err error) {
	fd, err := openBeneath(d.fd, name)
	switch err {
	case nil:
	case unix.EACCES:
		return false, err
	case unix.EXDEV:
		c.faults.add(failed("remove", d.fd, name, unix.EBUSY))
		return false, nil
	default: // it is something else by now
		return false, nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return false, failed("look at", d.fd, name, err)
	}
	subvolume := st.Dev != d.dev
	if subvolume && len(c.way) > c.roof+1 || len(c.way) == deepest {
		thaw(fd, &st)
		err := c.raise(d, name, subvolume)
		if err == nil || len(c.way) == deepest {
			_ = unix.Close(fd)
			c.faults.add(failed("move up", d.fd, name, err))
			return true, nil
		}
	}
	_, err = c.enter(fd, &st)
	return false, err
}

// raise moves a directory up as far as it can be moved: a subvolume anywhere, others within their own. There
// it is found when all else is removed.
func (c *clearing) raise(d level, name string, subvolume bool) error {
	i := c.roof
	for !subvolume && c.way[i].dev != d.dev {
		i++ // d is the last of them
	}
	to := c.way[i]
	if to == d {
		return unix.EXDEV
	}
	for range attempts {
		c.raised++
		switch err := rename(d.fd, name, to.fd, c.mark+strconv.Itoa(c.raised)); err {
		case unix.EEXIST:
		case unix.EXDEV:
			if !free(to.fd) {
				return err
			}
		case unix.EPERM, unix.EACCES, unix.EROFS:
			loosen(d.fd, name)
		default:
			return err
		}
	}
	return unix.EAGAIN
}

// unlink removes a file or an empty directory.
func unlink(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return err
	}
	if dirErr := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); dirErr != unix.ENOTDIR {
		return dirErr
	}
	return err
}

// rename moves an entry to where nothing of that name is.
func rename(dir int, name string, to int, newName string) error {
	err := unix.Renameat2(dir, name, to, newName, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL { // NFS has no such flag; no other process makes such a name
		err = unix.Renameat(dir, name, to, newName)
	}
	return err
}
