package replicate

import (
	"context"
	"errors"
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/tiering/checkpoint"
)

// inStore copies to where nothing can be renamed: the mark and the record come last. What is whole there under this name stays, and what is damaged goes: the next try, from
// elsewhere, would take it for its own.
func (c *carrying) inStore(ctx context.Context, there checkpoint.Found) error {
	err := c.toStore(ctx, there)
	if errors.Is(err, mover.ErrCorrupt) {
		r := c.Request
		r.Logger = c.Log
		if _, rmErr := engine.RemoveAll(ctx, c.to.child(c.found.Name), r, c.Open); rmErr != nil && !errors.Is(rmErr, mover.ErrNotExist) {
			err = errors.Join(err, rmErr)
		}
	}
	return err
}

func (c *carrying) toStore(ctx context.Context, there checkpoint.Found) error {
	if there.Complete && there.Commit != nil && there.Commit.Verified() && !c.adds(*there.Commit) {
		gone, err := c.replaces(ctx, there)
		if err != nil {
			return err
		}
		if !gone {
			return c.conflict()
		}
	}
	mark := c.found.Mark
	if mark == checkpoint.Committed {
		mark = ""
	}
	linked, err := c.link(ctx, c.found.Name)
	if err != nil {
		return err
	}
	source, target := c.from.child(c.found.Name), c.to.child(c.found.Name)
	source.TrailingSlash, target.TrailingSlash = true, true
	err = c.copy(ctx, engine.Request{Work: engine.Sync, Delete: true, Source: source, Target: target}, "", apart(append(linked, mark)...)...)
	if err != nil {
		return err
	}
	c.state(checkpoint.Copied)
	if err := c.same(ctx); err != nil {
		return err
	}
	if mark != "" {
		r := engine.Request{Work: engine.Copy, Source: c.from.child(c.found.Name).Child(mark), Target: c.to.child(c.found.Name).Child(mark)}
		if err := c.copyOne(ctx, r, mark); err != nil {
			return err
		}
	}
	top, err := c.to.Top(ctx)
	if err != nil {
		return err
	}
	tree, err := c.to.Deep(ctx, top, c.found.Name)
	if err != nil {
		return err
	}
	record, err := c.compare(ctx, tree, c.found.Name)
	if err != nil {
		return err
	}
	return c.put(ctx, c.to.child(c.found.Name).Child(checkpoint.Committed), record)
}

// conflict is the error of a save that has the name of another one.
func (c *carrying) conflict() error {
	return &mover.Error{Op: "copy", Location: c.to.String(), Name: c.found.Name,
		Err: fmt.Errorf("%w: another save of it is there, and a store can not exchange it: give each save a name of its own", mover.ErrConflict)}
}

// replaces removes an older save of the name that retention would not keep: a run that was rolled back comes to the steps that it has left behind. gone says that it has.
func (c *carrying) replaces(ctx context.Context, there checkpoint.Found) (gone bool, err error) {
	if there.Saved >= c.found.Saved {
		return false, nil
	}
	keep := checkpoint.Keep{Last: checkpoint.Fewest}
	tiers, err := Judge(ctx, []*Folder{c.to}, keep)
	if err != nil {
		return false, err
	}
	if err := c.Assure(ctx, tiers, keep); err != nil {
		return false, err
	}
	for _, v := range tiers[0].Verdicts {
		if v.Name == c.found.Name && !v.Keep {
			return true, c.Remove(ctx, tiers[0], v.Name)
		}
	}
	return false, nil
}

// adds says whether the set has all files that a copy of it has, as they are there: then it is the same save, to which something was added.
func (c *carrying) adds(there checkpoint.Commit) bool {
	have := map[string]checkpoint.Committing{}
	for _, f := range checkpoint.CommitOf(c.found.Tree, c.found.Name).Files {
		have[f.Name] = f
	}
	for _, f := range there.Files {
		if is, has := have[f.Name]; !has || is.Size != f.Size || is.Modified == 0 || !checkpoint.SameTime(is.Modified, f.Modified) {
			return false
		}
	}
	return true
}

// copyOne copies one file of the set; its checksum counts as that of mark.
func (c *carrying) copyOne(ctx context.Context, r engine.Request, mark string) error {
	below, _ := mover.Parent(mark)
	if below != "" {
		below += "/"
	}
	return c.copy(ctx, r, below)
}
