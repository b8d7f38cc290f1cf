package burst

import (
	"fmt"
	"reflect"
	"slices"

	"datamove.dev/mover"
)

// Amend says whether a declaration may take the place of another one, of a burst that is there: mover.ErrConflict names what may not change. Its location, its team and what has to come home stay; what is sent,
// how long it lasts and what it may cost may change.
func (b *Burst) Amend(was *Burst) error {
	refuse := func(field string) error {
		return fmt.Errorf("%w: burst %s is there, and %s of it can not be another one: take it down first, or declare one of another name", mover.ErrConflict, b.Metadata.Name, field)
	}
	now, then := b.Spec, was.Spec
	switch {
	case b.Metadata.Name != was.Metadata.Name:
		return refuse("metadata.name")
	case now.Team != then.Team:
		return refuse("spec.team")
	case b.Prefix() != was.Prefix():
		return refuse("spec.cloud.prefix")
	case !reflect.DeepEqual(now.Cloud, then.Cloud):
		return refuse("spec.cloud")
	}
	for _, d := range then.Data {
		if i := slices.IndexFunc(now.Data, func(n Data) bool { return n.To == d.To }); i < 0 || now.Data[i].From != d.From {
			return refuse("what is at " + string(d.To))
		}
	}
	for _, h := range was.Homeward() {
		if !slices.ContainsFunc(b.Homeward(), func(n Result) bool { return n.Path == h.Path && n.Home == h.Home }) {
			return refuse("where " + string(h.Path) + " comes home")
		}
	}
	return nil
}
