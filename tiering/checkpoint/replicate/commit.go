package replicate

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/engine"
	"datamove.dev/tiering/checkpoint"
)

// readers is how many files are read at a time for their checksums; each of them with all processors when it is large.
const readers = 4

// Commit writes down what a checkpoint has, with checksums, when all of it is on stable storage: from then on it is complete, whatever its framework says. What a hop has
// recorded of a copy stays, if it still holds, and gets the tags.
func (s *Site) Commit(ctx context.Context, f *Folder, name string, tags []string) (checkpoint.Commit, error) {
	found, is, err := checkpoint.Look(ctx, f, f.Profile, name)
	fail := func(err error) (checkpoint.Commit, error) {
		return checkpoint.Commit{}, &mover.Error{Op: "commit", Location: f.String(), Name: name, Err: err}
	}
	switch {
	case err != nil:
		return checkpoint.Commit{}, err
	case !is:
		return fail(fmt.Errorf("%w: there is no checkpoint", mover.ErrNotExist))
	case found.Files == 0:
		return fail(fmt.Errorf("%w: there is no file in it", mover.ErrUsage))
	}
	var c checkpoint.Commit
	if found.Complete && found.Commit != nil {
		c = *found.Commit
	} else if c, err = s.fresh(ctx, f, found); err != nil {
		return c, err
	}
	c.Tags = merged(c.Tags, tags)
	text, err := c.Encode()
	if err != nil {
		return fail(err)
	}
	return c, s.record(ctx, f, checkpoint.RecordOf(name, found.Dir), text)
}

// record writes a record.
func (s *Site) record(ctx context.Context, f *Folder, at string, text []byte) error {
	if f.root != nil {
		return writeWhole(f.root, at, text)
	}
	return s.putText(ctx, f.child(at), text)
}

// Vouch notes of a checkpoint that others have copied to a folder, and compared at a level, file by file, that it is a copy that was checked. It reads it: what it has in it now is what
// retention holds it to later. One that is not complete is mover.ErrConflict.
func (s *Site) Vouch(ctx context.Context, f *Folder, name string, level mover.Level) error {
	found, err := f.look(ctx, name)
	switch {
	case err != nil:
		return err
	case !found.Complete:
		return incomplete(f, found)
	case found.Commit != nil && found.Commit.Verified():
		return nil
	}
	c, err := s.fresh(ctx, f, found)
	if err != nil {
		return err
	}
	c.Save, c.Level = SaveOf(found), level
	if found.Commit != nil {
		c.Tags = found.Commit.Tags
	}
	text, err := c.Encode()
	if err != nil {
		return err
	}
	return s.record(ctx, f, checkpoint.RecordOf(name, found.Dir), text)
}

func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// sums reads all files of a checkpoint of a directory after readied has made each ready, as atomicfile.SyncIn does, and asks a store.
func (s *Site) sums(ctx context.Context, f *Folder, found checkpoint.Found, readied func(*os.Root, string) error) ([]checkpoint.Committing, error) {
	all := checkpoint.CommitOf(found.Tree, found.Name).Files
	place, err := s.Open(ctx, f.Location, engine.OpenOptions{StateDir: s.Request.StateDir, Logger: s.Log})
	if err != nil {
		return nil, err
	}
	defer place.Close()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for i := range all {
		g.Go(func() (err error) {
			name := all[i].Name
			if found.Dir {
				name = mover.Join(found.Name, name)
			}
			if f.root != nil {
				if err := readied(f.root, name); err != nil {
					return err
				}
			}
			all[i].CRC, err = hashOf(gctx, place, name)
			all[i].HasCRC = err == nil
			return err
		})
	}
	return all, g.Wait()
}

// fresh reads all files of a checkpoint. One that changes meanwhile is not committed.
func (s *Site) fresh(ctx context.Context, f *Folder, found checkpoint.Found) (checkpoint.Commit, error) {
	c := checkpoint.CommitOf(found.Tree, found.Name)
	c.Created = time.Now().UTC().Truncate(time.Second)
	read, err := s.sums(ctx, f, found, atomicfile.SyncIn)
	if err != nil {
		return c, err
	}
	for i := range c.Files {
		c.Files[i].CRC, c.Files[i].HasCRC = read[i].CRC, true
	}
	if f.root != nil {
		for _, e := range found.Tree.Entries {
			if e.Kind == checkpoint.Dir && mover.Within(e.Name, found.Name) {
				if err := atomicfile.SyncIn(f.root, e.Name); err != nil {
					return c, err
				}
			}
		}
	}
	now, is, err := checkpoint.Look(ctx, f, f.Profile, found.Name)
	if err == nil && (!is || now.Save != found.Save) {
		err = &mover.Error{Op: "commit", Location: f.String(), Name: found.Name, Err: fmt.Errorf("%w: somebody writes there", mover.ErrChanged)}
	}
	return c, err
}
