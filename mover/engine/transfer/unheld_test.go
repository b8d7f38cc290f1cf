package transfer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// shortNames is a place that takes no long names.
type shortNames struct{ mover.Backend }

func tooLong(name string) error {
	if _, base := mover.Parent(name); len(base) > 255 {
		return mover.NoSuchName(fmt.Errorf("%w: the name is too long", mover.ErrUnsupported))
	}
	return nil
}

func (p shortNames) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if err := tooLong(e.Name); err != nil {
		return nil, err
	}
	if e.Name == "denied" {
		return nil, mover.ErrPermission
	}
	return p.Backend.Draft(ctx, e, h)
}

func (p shortNames) Mkdir(ctx context.Context, e mover.Entry) error {
	if err := tooLong(e.Name); err != nil {
		return err
	}
	return p.Backend.Mkdir(ctx, e)
}

// TestUnheldNames: what a target can not hold for its name is named each time, and keeps nothing from being removed. Any other fault does.
func TestUnheldNames(t *testing.T) {
	long := strings.Repeat("n", 256)
	for name, row := range map[string]struct {
		files  map[string]string
		failed []string
		stays  bool // what the source does not have
	}{
		"a file":                    {map[string]string{"a": "1", long: "2"}, []string{long}, false},
		"a file in a new directory": {map[string]string{"d/a": "1", "d/" + long: "2"}, []string{"d/" + long}, false},
		"a directory":               {map[string]string{"a": "1", long + "/b": "2", long + "/c/d": "3"}, []string{long, long + "/b", long + "/c", long + "/c/d"}, false},
		"a large file":              {map[string]string{long: strings.Repeat("x", 4<<20)}, []string{long}, false},
		"another fault, too":        {map[string]string{long: "1", "denied": "2"}, []string{"denied", long, "old", "older", "older/f"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			target := mem.NewTree().Files(map[string]string{"old": "0", "older/f": "1"})
			from, to := mem.New(mem.NewTree().Files(row.files), mem.Options{}), shortNames{mem.New(target, mem.Options{})}
			p := plan.Options{Delete: true}
			res := &results{}
			actions := plan.Diff(from.Walk(t.Context(), mover.WalkOptions{}), to.Walk(t.Context(), mover.WalkOptions{}), p)
			must.Do(t, transfer.Run(t.Context(), from, to, actions, transfer.Options{By: by, Observer: res, Plan: p, Jobs: 1}))
			var failed []string
			for _, r := range res.all {
				if r.Err != nil {
					failed = append(failed, r.Entry.Name)
				}
			}
			if slices.Sort(failed); !slices.Equal(failed, row.failed) {
				t.Errorf("failed are %q, want %q", failed, row.failed)
			}
			if _, err := to.Stat(t.Context(), "older/f"); (err == nil) != row.stays {
				t.Errorf("what the source does not have: %v", err)
			}
		})
	}
}
