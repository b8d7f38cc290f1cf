package replicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/tiering/checkpoint"
)

// ErrTaken is of a restore to where another save has the name, and can not be kept aside.
var ErrTaken = fmt.Errorf("%w: another save of it is there, and can not be kept aside", mover.ErrConflict)

// triesAside is how often what has the name is moved aside: a job may save again meanwhile.
const triesAside = 3

// restore brings one to a directory, and keeps aside what has its name there.
func (s *Site) restore(ctx context.Context, one Candidate, to *Folder) (Result, error) {
	c := s.carrying(one.Folder, one.Found, to, func(checkpoint.State) {})
	c.restores = true
	return c.run(ctx)
}

// already says whether the target has the save, although it is not known to be verified there: it is the same directory, or the bytes are those of the source's record. Where something else
// has the name in a store, it is ErrTaken: nothing can be moved aside there.
func (c *carrying) already(ctx context.Context) (bool, error) {
	if c.from.isSame(c.to) {
		c.level = mover.Unchecked
		return true, nil
	}
	if c.to.root == nil {
		top, err := c.to.Top(ctx)
		if err == nil && slices.ContainsFunc(top.Entries, func(e checkpoint.Entry) bool { return e.Name == c.found.Name }) {
			err = c.taken("a store can not rename")
		}
		return false, err
	}
	there, is, err := checkpoint.Look(ctx, c.to, c.to.Profile, c.found.Name)
	if err != nil || !is {
		return false, err
	}
	return c.adopt(ctx, there)
}

// isSame says whether two folders are one directory.
func (f *Folder) isSame(to *Folder) bool {
	if f.root == nil || to.root == nil {
		return f.String() == to.String()
	}
	a, err := f.root.Stat(".")
	if err != nil {
		return false
	}
	b, err := to.root.Stat(".")
	return err == nil && os.SameFile(a, b)
}

// adopt reads what looks like the save at the target, and makes it a verified copy where each byte is that of the source's record. Else nothing is done.
func (c *carrying) adopt(ctx context.Context, there checkpoint.Found) (bool, error) {
	record := c.found.Commit
	if record == nil || !record.Verified() || !record.Summed() || !there.Complete || there.Dir != c.found.Dir || !sameFiles(record.Files, checkpoint.CommitOf(there.Tree, there.Name).Files) {
		return false, nil
	}
	read, err := c.Site.sums(ctx, c.to, there, uncache)
	if err != nil || !sameBytes(record.Files, read) {
		return false, ctx.Err() // what can not be read is kept aside
	}
	copied := checkpoint.Commit{Files: read, Created: time.Now().UTC().Truncate(time.Second), Save: c.save, Level: mover.Read, From: c.from.String(), Tags: record.Tags}
	text, err := copied.Encode()
	if err != nil {
		return false, err
	}
	return true, c.record(ctx, c.to, checkpoint.RecordOf(there.Name, there.Dir), text)
}

// sameFiles says whether two lists are of files that look the same.
func sameFiles(a, b []checkpoint.Committing) bool {
	return sameEach(a, b, func(x, y checkpoint.Committing) bool {
		return x.Size == y.Size && checkpoint.SameTime(x.Modified, y.Modified)
	})
}

// sameBytes says whether two lists are of files with the same checksums.
func sameBytes(a, b []checkpoint.Committing) bool {
	return sameEach(a, b, func(x, y checkpoint.Committing) bool { return x.CRC == y.CRC })
}

// sameEach compares two lists of files name by name.
func sameEach(a, b []checkpoint.Committing, same func(x, y checkpoint.Committing) bool) bool {
	byName := map[string]checkpoint.Committing{}
	for _, f := range b {
		byName[f.Name] = f
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, func(f checkpoint.Committing) bool {
		other, is := byName[f.Name]
		return !is || !same(f, other)
	})
}

// takePlace gives what was built its name where nothing has it. What has it is moved aside before.
func (c *carrying) takePlace(stage string) error {
	if err := atomicfile.SyncIn(c.to.root, stage); err != nil {
		return err
	}
	dir, err := c.to.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for range triesAside {
		err = renameTo(dir, stage, dir, c.found.Name)
		if err == nil {
			c.endQuarantine()
			return dir.Sync()
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := c.moveAside(); err != nil {
			return err
		}
	}
	return err
}

// endQuarantine removes what was kept aside for long, where something new is.
func (c *carrying) endQuarantine() {
	if c.result.Aside == "" {
		return
	}
	if err := c.to.EndQuarantine(time.Now().Add(-Quarantine)); err != nil {
		c.log().Warn("what was kept aside for long can not be removed", "in", c.to.String(), "err", err)
	}
}

// moveAside keeps aside what has the name, as a prune does.
func (c *carrying) moveAside() error {
	in := asideIn(time.Now())
	err := c.to.aside(c.to.Location, in, c.found.Name, false)
	if err != nil {
		_ = c.to.root.Remove(in) // it is empty, or holds what was moved
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return c.taken(err.Error())
	}
	c.result.Aside = c.to.child(in).Child(c.found.Name).String()
	return nil
}

// follows says whether what is at the target is a verified copy of an older save.
func (c *carrying) follows(there checkpoint.Found) bool {
	return there.Complete && there.Commit != nil && there.Commit.Verified() && there.Saved < c.found.Saved
}

// taken is ErrTaken with its cause and the remedy.
func (c *carrying) taken(why string) error {
	return &mover.Error{Op: "restore", Location: c.to.String(), Name: c.found.Name, Err: fmt.Errorf("%w: %s: move it away, or restore to another directory", ErrTaken, why)}
}
