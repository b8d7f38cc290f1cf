package mem

import (
	"context"
	"fmt"
	"slices"

	"datamove.dev/mover"
)

// Publish implements mover.Target. The whole batch is one atomic step, so the
// children of a directory draft become visible with it.
func (p *Backend) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	outcomes := make([]mover.Outcome, len(batch))
	if err := p.enter(ctx, "publish", "", true); err != nil {
		for i := range outcomes {
			outcomes[i].Err = err
		}
		return outcomes
	}
	defer p.tree.mu.Unlock()
	var published []*draft
	for i, b := range batch {
		d, ok := mover.As[*draft](b)
		if !ok || d.place.tree != p.tree {
			outcomes[i].Err = p.fail("publish", "", fmt.Errorf("draft of another place: %w", mover.ErrUsage))
			continue
		}
		if d.out != nil { // the answer was lost
			outcomes[i] = *d.out
			continue
		}
		level, err := p.publish(d, published)
		if err != nil {
			outcomes[i].Err = p.fail("publish", d.begun.Name, err)
			continue
		}
		outcomes[i].Level = level
		if n := p.tree.findKind(d.begun.Name, d.begun.Kind); n != nil {
			outcomes[i].ETag = p.full(d.begun.Name, n).ETag
		}
		out := outcomes[i]
		d.out = &out
		published = append(published, d)
	}
	// What was put into the directories of this batch changed their times.
	for _, d := range slices.Backward(published) {
		if n := p.tree.findDir(d.begun.Name); n != nil && d.begun.Kind == mover.Dir {
			p.tree.setFacts(n.inode, d.final, p.traits.Keeps)
		}
	}
	return outcomes
}

func (p *Backend) publish(d *draft, before []*draft) (mover.Level, error) {
	if err := d.live(); err != nil {
		return 0, err
	}
	if d.final == nil {
		return 0, fmt.Errorf("draft is not finished: %w", mover.ErrUsage)
	}
	if d.in != nil && !slices.ContainsFunc(before, func(b *draft) bool { return b.drafted == d.in }) {
		return 0, fmt.Errorf("its directory draft was not published before it: %w", mover.ErrUsage)
	}
	if err := p.appear(d); err != nil {
		return 0, err
	}
	delete(p.tree.drafts, d.token)
	d.done = errPublished
	return d.level, nil
}

// appear gives the draft its name. A directory that is already there is kept
// with what it contains.
func (p *Backend) appear(d *draft) error {
	parent, base, err := p.parent(d.begun.Name)
	if err != nil {
		return err
	}
	if d.begun.Kind == mover.Dir {
		return p.makeDir(*d.final)
	}
	if err := p.tree.namesake(parent, base); err != nil {
		return err
	}
	if parent.children[base+"/"] != nil && !p.opts.ObjectStore {
		return fmt.Errorf("a directory has this name: %w", mover.ErrConflict)
	}
	n := p.tree.newNode(d.begun.Kind)
	if d.link != nil {
		n.inode = d.link
	} else {
		n.blob = d.blob
		n.entry.Size = d.blob.size
		n.entry.Target, n.entry.Rdev = d.final.Target, d.final.Rdev
	}
	if p.opts.ObjectStore {
		n.entry.Known = 0 // an object has only the facts that it was given
	}
	p.tree.setFacts(n.inode, d.final, p.traits.Keeps)
	defer p.untouched(parent)()
	p.tree.link(parent, base, n)
	return nil
}
