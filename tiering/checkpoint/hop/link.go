package hop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path"

	"datamove.dev/tiering/checkpoint"
)

// link makes files of the copy that are the same as those of the checkpoint before, which the target has, names of these, and returns them. That they
// are the same say their bytes, at the source: a checksum identifies nothing. Where anything is in doubt a file is sent.
func (c *carrying) link(ctx context.Context, stage string) (linked []string, err error) {
	if c.from.root == nil || c.from.Location.String() == c.to.Location.String() {
		return nil, nil
	}
	before, there, err := c.before(ctx)
	if err != nil || before.Name == "" {
		return nil, err
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
		if !is || !has.HasCRC || has.Size != f.Size || old[f.Name].Size != f.Size || f.Size < linkLeast {
			continue
		}
		same, err := sameBytes(ctx, c.from.root, path.Join(before.Name, f.Name), path.Join(c.found.Name, f.Name))
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil || !same || c.to.linkIn(path.Join(before.Name, f.Name), path.Join(stage, f.Name)) != nil {
			continue
		}
		linked = append(linked, f.Name)
		c.sums[f.Name], c.linked[f.Name] = has.CRC, true
		c.result.Linked += f.Size
	}
	return linked, nil
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

// sameBytes compares two files.
func sameBytes(ctx context.Context, root *os.Root, a, b string) (bool, error) {
	f, err := root.Open(a)
	if err != nil {
		return false, err
	}
	defer f.Close()
	g, err := root.Open(b)
	if err != nil {
		return false, err
	}
	defer g.Close()
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	for ctx.Err() == nil {
		n, err1 := io.ReadFull(f, x)
		m, err2 := io.ReadFull(g, y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false, nil
		}
		if err1 != nil || err2 != nil {
			ended := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
			return ended(err1) && ended(err2), nil
		}
	}
	return false, ctx.Err()
}
