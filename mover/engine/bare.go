package engine

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// bare counts files that have come to a target which does not keep all that they have beside their bytes.
type bare struct {
	files int64
	lost  mover.Facts
}

// rights are lost together: a file system that has no modes has no owners.
const rights = mover.FactMode | mover.FactOwner | mover.FactGroup

// add counts an entry as it was carried over.
func (b *bare) add(e *mover.Entry, target *mover.Capabilities) {
	keeps := target.Keeps
	if e.Kind == mover.Dir && target.DirsByContent { // there is no object that has it
		keeps &^= mover.FactsOfObject
	}
	lost := e.KeptFacts(mover.FactsOfObject &^ keeps)
	if !keeps.Has(mover.FactMode) && !target.NeedsManifest && e.Kind != mover.Symlink {
		lost |= e.Known & rights
	}
	if e.Known.Has(mover.FactXattrs) && !keeps.Has(mover.FactXattrs) && slices.ContainsFunc(e.Xattrs, theirs) {
		lost |= mover.FactXattrs
	}
	if lost != 0 {
		b.files, b.lost = b.files+1, b.lost|lost
	}
}

func (b *bare) notes() []string {
	if b.files == 0 {
		return nil
	}
	words := mover.ObjectWords(b.lost)
	for _, of := range []struct {
		fact mover.Facts
		word string
	}{{mover.FactMode, "modes"}, {mover.FactOwner, "owners"}, {mover.FactGroup, "groups"}} {
		if b.lost.Has(of.fact) {
			words = append(words, of.word)
		}
	}
	if b.lost.Has(mover.FactXattrs) {
		words = append(words, "xattrs")
	}
	return []string{fmt.Sprintf("files that have lost what the target does not keep (%s): %d", strings.Join(words, ", "), b.files)}
}

// theirs reports whether an attribute is none of ours, which a store keeps.
func theirs(x mover.Xattr) bool { return x.Name != mover.XattrPath && x.Name != mover.XattrCRC }
