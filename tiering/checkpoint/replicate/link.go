package replicate

import (
	"context"
	"errors"
	"io"
	"os"
	"path"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/tiering/checkpoint"
)

// link gives the copy those files that are the same as in the checkpoint before, which the target has: another name on a disk, and a copy that the server makes
// in a store. That they are the same say their bytes, at the source: a checksum identifies nothing. Where anything is in doubt a file is sent.
func (c *carrying) link(ctx context.Context, at string) (linked []string, err error) {
	before, same, err := c.unchanged(ctx)
	if err != nil || len(same) == 0 {
		return nil, err
	}
	if c.to.root == nil {
		if err := c.copyWithin(ctx, before, same); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			c.log().Info("files that a store has already are sent again", "name", mover.Printable(c.found.Name), "to", c.to.String(), "err", err)
			return nil, nil
		}
	}
	for _, f := range same {
		if c.to.root != nil && c.to.linkIn(path.Join(before, f.Name), path.Join(at, f.Name)) != nil {
			continue
		}
		linked = append(linked, f.Name)
		c.sums[f.Name], c.linked[f.Name] = f.CRC, true
		c.result.Linked += f.Size
	}
	return linked, nil
}

// unchanged are the files that are the same as in a checkpoint that both sides have, as the target has them.
func (c *carrying) unchanged(ctx context.Context) (set string, same []checkpoint.Committing, err error) {
	if !c.from.compares() || c.from.Location.String() == c.to.Location.String() {
		return "", nil, nil
	}
	before, there, err := c.before(ctx)
	if err != nil || before.Name == "" {
		return "", nil, err
	}
	sums := map[string]checkpoint.Committing{}
	for _, f := range there.Commit.Files {
		sums[f.Name] = f
	}
	old := map[string]checkpoint.Committing{}
	for _, f := range checkpoint.CommitOf(before.Tree, before.Name).Files {
		old[f.Name] = f
	}
	for _, f := range checkpoint.CommitOf(c.found.Tree, c.found.Name).Files {
		has, is := sums[f.Name]
		if !is || !has.HasCRC || has.Size != f.Size || old[f.Name].Size != f.Size || f.Size < linkLeast || f.Name == c.found.Mark {
			continue
		}
		equal, err := c.from.sameBytes(ctx, path.Join(before.Name, f.Name), path.Join(c.found.Name, f.Name), f.Size)
		if err != nil && ctx.Err() != nil {
			return "", nil, ctx.Err()
		}
		if err == nil && equal {
			same = append(same, has)
		}
	}
	now, is, err := checkpoint.Look(ctx, c.from, c.from.Profile, before.Name)
	if err != nil || !is || now.Print != before.Print { // what was compared may be another save than the target has
		return "", nil, err
	}
	return before.Name, same, nil
}

// copyWithin has the server of the target copy files from one checkpoint there to the other.
func (c *carrying) copyWithin(ctx context.Context, before string, same []checkpoint.Committing) error {
	names := make([]string, len(same))
	for i, f := range same {
		names[i] = f.Name
	}
	list, err := plan.NewNames(names)
	if err != nil {
		return err
	}
	r := c.Request
	r.Work, r.Source, r.Target, r.Verify, r.Logger = engine.Copy, c.to.child(before), c.to.child(c.found.Name), mover.Server, c.Log
	r.Source.TrailingSlash, r.Target.TrailingSlash = true, true
	if r.Filter, err = plan.NewFilter(nil, list); err != nil {
		return err
	}
	t, err := engine.Start(ctx, r, c.Open)
	if err != nil {
		return err
	}
	_, err = t.Wait()
	return err
}

// linkLeast is the size from which on a file is worth a comparison.
const linkLeast = 64 << 10

// before is the newest checkpoint that both sides have, as the target's record says: the same save.
func (c *carrying) before(ctx context.Context) (here, there checkpoint.Found, err error) {
	for found, err := range checkpoint.Each(ctx, c.to, c.to.Profile) {
		if err != nil {
			return here, there, err
		}
		if found.Name == c.found.Name || !found.Complete || found.Commit == nil || !found.Commit.Verified() {
			continue
		}
		here, is, err := checkpoint.Look(ctx, c.from, c.from.Profile, found.Name)
		if err != nil {
			return here, there, err
		}
		if is && SaveOf(here) == SaveOf(found) {
			return here, found, nil
		}
		return checkpoint.Found{}, there, nil // one is looked at, and no more: older ones have less in common
	}
	return here, there, nil
}

// linkIn gives a file another name, in a directory that is made.
func (f *Folder) linkIn(old, name string) error {
	if err := f.root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	if err := f.root.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return f.root.Link(old, name)
}

// comparer is a place that can say itself whether two of its files of one size have the same bytes.
type comparer interface {
	Same(ctx context.Context, a, b string, size int64) (bool, error)
}

// sameBytes compares two files of a folder, of one size.
func (f *Folder) sameBytes(ctx context.Context, a, b string, size int64) (bool, error) {
	if p, is := f.place.(comparer); is {
		return p.Same(ctx, a, b, size)
	}
	x, err := f.root.Open(a)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := f.root.Open(b)
	if err != nil {
		return false, err
	}
	defer y.Close()
	return mover.Same(stopping{ctx, x}, y)
}

// compares says whether sameBytes can be asked.
func (f *Folder) compares() bool {
	_, is := f.place.(comparer)
	return is || f.root != nil
}

// stopping is a reader that ends with its context.
type stopping struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (s stopping) Read(b []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.Reader.Read(b)
}
