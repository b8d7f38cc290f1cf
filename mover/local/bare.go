package local

import (
	"fmt"
	"strings"

	"datamove.dev/mover"
)

// ofObjects are what an object has beside its bytes, in the words of --preserve.
var ofObjects = [...]struct {
	fact mover.Facts
	word string
}{{mover.FactHeaders, "headers"}, {mover.FactMetadata, "metadata"}, {mover.FactTags, "tags"}, {mover.FactClass, "class"}}

// bare counts objects that have come to a target which does not keep all that they have beside their bytes.
type bare struct {
	objects int64
	lost    mover.Facts
}

// add counts an entry as it was carried over.
func (b *bare) add(e *mover.Entry, keeps mover.Facts) {
	lost := mover.Facts(0)
	for _, a := range e.ObjectOf(mover.FactsOfObject &^ keeps) {
		lost |= a.Fact()
	}
	if lost != 0 {
		b.objects, b.lost = b.objects+1, b.lost|lost
	}
}

func (b *bare) notes() []string {
	if b.objects == 0 {
		return nil
	}
	var words []string
	for _, of := range ofObjects {
		if b.lost.Has(of.fact) {
			words = append(words, of.word)
		}
	}
	return []string{fmt.Sprintf("objects that have lost what the target does not keep (%s): %d", strings.Join(words, ", "), b.objects)}
}
