package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

// humble is a source that can not set rights at the target: see mover.FactPrivileges.
type humble struct {
	mover.Source
	left atomic.Int64 // entries that a walk has stripped of something, or that were left out
}

// distrusts reports whether the source is believed nothing of rights.
func (p *pair) distrusts() bool {
	return p.source.Capabilities().Untrusted && !p.request.Preserve.Has(mover.FactPrivileges) && !p.target.Capabilities().NeedsManifest
}

// Unwrap lets optional interfaces of the source be found.
func (h *humble) Unwrap() any { return h.Source }

// Walk implements mover.Source. It yields devices, so that the planner does not take them for removed; the planner leaves them alone.
func (h *humble) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range h.Source.Walk(ctx, opts) {
			if err == nil && (strip(&e) || isDevice(e.Kind)) {
				h.left.Add(1)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Stat implements mover.Source.
func (h *humble) Stat(ctx context.Context, name string) (mover.Entry, error) {
	e, err := h.Source.Stat(ctx, name)
	strip(&e)
	return e, err
}

// Open implements mover.Source.
func (h *humble) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := h.Source.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	e = c.Entry()
	strip(&e)
	return stripped{c, e}, nil
}

// stripped is a content without rights.
type stripped struct {
	mover.Content
	entry mover.Entry
}

func (s stripped) Entry() mover.Entry { return s.entry }

// Unwrap lets a target find a content of its own kind.
func (s stripped) Unwrap() any { return s.Content }

// strip takes from an entry what gives rights, and reports whether there was something.
func strip(e *mover.Entry) (some bool) {
	const setIDs = 0o6000
	if e.Kind != mover.Dir && e.Mode&setIDs != 0 {
		e.Mode, some = e.Mode&^setIDs, true
	}
	if slices.ContainsFunc(e.Xattrs, privileged) {
		e.Xattrs, some = slices.DeleteFunc(slices.Clone(e.Xattrs), privileged), true // the list is shared
	}
	return some
}

func privileged(x mover.Xattr) bool {
	return strings.HasPrefix(x.Name, "security.") || strings.HasPrefix(x.Name, "trusted.")
}

func isDevice(k mover.Kind) bool { return k == mover.CharDevice || k == mover.BlockDevice }

// withoutDevices leaves alone what a source that is not believed calls a device, and what the target has under its name.
func withoutDevices(actions iter.Seq2[plan.Action, error]) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for a, err := range actions {
			if err == nil && isDevice(a.Source.Kind) {
				continue
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

// note says what was left out, and what brings it.
func (h *humble) note() string {
	n := h.left.Load()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s came without the rights that %s states (setuid and setgid, attributes of security.* and trusted.*, devices), because any writer of that location can state them; "+
		"--preserve=privileges, or trusted: true of its tier, brings them", units.Plural(n, "entry", "entries"), h.Source)
}
