package replicate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/tiering/checkpoint"
)

// building ends the name of a checkpoint that is being brought: a checkpoint.Folder takes it for none.
const building = ".incomplete-0"

// leaving ends the name of one that is being removed.
const leaving = ".incomplete-1"

// onDisk builds the copy under another name, and renames it with its record in it.
func (c *carrying) onDisk(ctx context.Context) error {
	stage := c.found.Name + building
	linked, err := c.link(ctx, stage)
	if err != nil {
		return err
	}
	out := apart(linked...)
	err = c.copy(ctx, engine.Request{Work: engine.Sync, Delete: true, Source: c.from.child(c.found.Name), Target: c.to.child(stage)}, "", out...)
	if err != nil {
		return c.discard(err, stage)
	}
	c.state(checkpoint.Copied)
	if err := c.same(ctx); err != nil {
		return c.discard(err, stage)
	}
	top, err := c.to.Top(ctx)
	if err != nil {
		return err
	}
	tree, err := c.to.Deep(ctx, top, stage)
	if err != nil {
		return err
	}
	record, err := c.compare(ctx, tree, stage)
	if err != nil {
		return c.discard(err, stage)
	}
	text, err := record.Encode()
	if err != nil {
		return err
	}
	if err := writeWhole(c.to.root, path.Join(stage, checkpoint.Committed), text); err != nil {
		return err
	}
	return c.publish(stage)
}

// publish gives what was built its name.
func (c *carrying) publish(stage string) error {
	switch {
	case c.keeps:
		return c.takePlace(stage)
	case !c.found.Dir:
		return c.to.root.Rename(stage, c.found.Name)
	}
	return c.to.publish(stage, c.found.Name)
}

// discard removes what a copy has built of a source that is gone, or damaged, so that no later try goes on with it. The next try replaces what it has of a source that was written again.
func (c *carrying) discard(err error, stage string) error {
	if errors.Is(err, ErrSuperseded) || errors.Is(err, mover.ErrCorrupt) {
		return errors.Join(err, c.to.root.RemoveAll(stage))
	}
	return err
}

// hash reads a file at the target that was there before this try, which had checked it.
func (c *carrying) hash(ctx context.Context, name string) (uint64, error) {
	at := c.to.child(c.there())
	if !c.found.Dir {
		at, name = c.to.Location, c.there()
	}
	place, err := c.Open(ctx, at, engine.OpenOptions{StateDir: c.Request.StateDir, Logger: c.Log})
	if err != nil {
		return 0, err
	}
	defer place.Close()
	return hashOf(ctx, place, name)
}

// hashOf is the checksum of a file, as the store has it, or read.
func hashOf(ctx context.Context, place mover.Backend, name string) (uint64, error) {
	e, err := place.Stat(ctx, name)
	if err != nil {
		return 0, err
	}
	if e.Known.Has(mover.FactCRC) {
		return e.CRC, nil
	}
	content, err := place.Open(ctx, e)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	sum, err := compare.Hash(ctx, content)
	if err == nil {
		err = content.Check(ctx)
	}
	return sum, err
}

// publish gives what was built its name. What has it is another save of the checkpoint, and goes.
func (f *Folder) publish(stage, name string) error {
	if err := atomicfile.SyncIn(f.root, stage); err != nil {
		return err
	}
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	rename := func(flags uint) error {
		err := unix.Renameat2(fd, stage, fd, name, flags)
		if err != nil {
			err = &os.LinkError{Op: "rename", Old: stage, New: name, Err: err}
		}
		return err
	}
	err = rename(unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system that can not say so; a directory is not renamed onto one that has something in it
		err = rename(0)
	}
	exchanged := false
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTEMPTY) {
		if err = rename(unix.RENAME_EXCHANGE); errors.Is(err, unix.EINVAL) {
			err = f.swap(stage, name)
		}
		exchanged = true
	}
	if err == nil {
		err = dir.Sync()
	}
	if err == nil && exchanged {
		err = f.root.RemoveAll(stage)
	}
	return err
}

// swap is an exchange where the file system has none: for a moment nothing has the name.
func (f *Folder) swap(stage, name string) error {
	old := name + leaving
	if err := f.root.RemoveAll(old); err != nil {
		return err
	}
	if err := f.root.Rename(name, old); err != nil {
		return err
	}
	if err := f.root.Rename(stage, name); err != nil {
		return errors.Join(err, f.root.Rename(old, name))
	}
	return f.root.RemoveAll(old)
}

// writeWhole makes a file visible when it is whole and on stable storage, in the place of one that is there.
func writeWhole(root *os.Root, name string, text []byte) error {
	return atomicfile.WriteIn(root, name, text, atomicfile.Options{Mode: 0o644, Draft: fmt.Sprintf("%scommit-%d-0", mover.TempPrefix, os.Getpid())})
}

// uncache has a file be read from where it is stored, and not from this machine's memory of it.
func uncache(root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
