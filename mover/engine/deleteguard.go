package engine

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// allow says whether a sync may remove entries of the target. The walks have
// ended without an error when it is asked.
func (p *pair) allow(m MaxDelete, entries int64) error {
	if p.sourceEntries.Load() == 0 {
		return p.refuse("the source %s is empty: is it mounted? Nothing was removed; to empty the target use rm", p.source)
	}
	if !sameSystem(p.facts.SourceSystem, p.system) {
		return p.refuse("the source %s is on another file system than in the last run: is it mounted? "+
			"Nothing was removed; if this is meant, remove %s and run again", p.source, p.journalDir)
	}
	return p.within(m, entries)
}

// within refuses to remove more entries than the limit allows.
func (p *pair) within(m MaxDelete, entries int64) error {
	present := p.targetEntries.Load()
	limit, text := m.Entries, fmt.Sprintf("%d", m.Entries)
	if m.Percent > 0 {
		limit, text = int64(m.Percent/100*float64(present)), fmt.Sprintf("%g%% of %d", m.Percent, present)
	}
	if m.Set && entries > limit {
		rest := "; everything else is done"
		if p.request.DryRun {
			rest = ""
		}
		return p.refuse("%d of %d entries would be removed, and --max-delete allows %s%s", entries, present, text, rest)
	}
	return nil
}

func (p *pair) refuse(format string, args ...any) error {
	return &mover.Error{Op: "remove from", Location: p.target.String(), Err: mover.Errorf(mover.ErrRefused, format, args...)}
}

// systemOf says which file system a source is on, by its root.
func systemOf(root *mover.Entry) string { return fmt.Sprintf("device %d inode %d", root.Dev, root.Ino) }

// sameSystem reports whether a root may be the one that was recorded. If the file system
// that was recorded is not mounted, both numbers differ. The number of a device
// alone changes with a reboot or a mount (NFS, btrfs), that of the inode when the folder
// is made anew. An unknown number may be the same.
func sameSystem(was, is string) bool {
	wasDevice, wasInode, ok1 := strings.Cut(was, " inode ")
	isDevice, isInode, ok2 := strings.Cut(is, " inode ")
	return !ok1 || !ok2 || wasDevice == isDevice || wasInode == isInode
}
