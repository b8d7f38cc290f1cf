package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// linkless refuses hard links, as vfat does.
type linkless struct{ mover.Backend }

func (p linkless) Unwrap() any { return p.Backend }

func (p linkless) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if h.Link != "" {
		return nil, fmt.Errorf("%w: a hard link to %s", mover.ErrUnsupported, h.Link)
	}
	return p.Backend.Draft(ctx, e, h)
}

// TestUnlinkedNames: a name that the target can not have as a hard link is a file of its own. It is counted in each run, and moved only while it differs.
func TestUnlinkedNames(t *testing.T) {
	both := map[string]string{"a": "content", "b": "content"}
	for _, row := range []struct {
		what   string
		before map[string]string // the content of the target
		change func(source *mem.Tree)
		p      plan.Options
		files  int64 // whose content is moved
		ops    string
	}{
		{"new", nil, nil, plan.Options{}, 2, "a create, b create"},
		{"as an earlier run has left it", both, nil, plan.Options{}, 0, "a keep, b keep"},
		{"compared by content", both, nil, plan.Options{CompareBy: plan.ByContent}, 0, "a keep, b keep"},
		{"with other facts", both, func(s *mem.Tree) {
			s.Put(mover.Entry{Name: "a", Kind: mover.File, Mode: 0o600, Known: mover.FactMode}, []byte("content")).Link("a", "b")
		}, plan.Options{CompareBy: plan.ByContent}, 0, "a update, b update"},
		{"with another content", both, func(s *mem.Tree) { s.Overwrite("a", 0, "another") }, plan.Options{}, 2, "a replace, b replace"},
		{"copied in full", both, nil, plan.Options{Full: true}, 2, "a replace, b replace"},
		{"in place of another kind", map[string]string{"b/x": "a directory"}, nil, plan.Options{}, 2, "a create, b create"},
	} {
		t.Run(row.what, func(t *testing.T) {
			source, target := mem.NewTree().Files(map[string]string{"a": "content"}).Link("a", "b"), mem.NewTree()
			from, to := mem.New(source, mem.Options{}), linkless{mem.New(target, mem.Options{})}
			for name, content := range row.before {
				e, err := from.Stat(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				e.Name = name
				target.Put(e, []byte(content))
			}
			if row.change != nil {
				row.change(source)
			}
			var n transfer.Counters
			row.p.Keeps = true
			res, err := syncTo(t.Context(), from, to, transfer.Options{Plan: row.p, Counters: &n})
			if f := res.failed(); err != nil || f != nil {
				t.Fatal(err, f)
			}
			var ops []string
			for _, r := range res.all {
				if r.Op != plan.Remove && r.Entry.Kind == mover.File {
					ops = append(ops, fmt.Sprintf("%s %v", r.Entry.Name, r.Op))
				}
			}
			if got := strings.Join(ops, ", "); got != row.ops {
				t.Errorf("it does %s; want %s", got, row.ops)
			}
			if moved := n.Files.Load() - n.Looks.Load(); moved != row.files || n.LinksLost.Load() != 1 {
				t.Errorf("%d files are moved, and %d hard links lost; want %d, and 1", moved, n.LinksLost.Load(), row.files)
			}
			for _, name := range []string{"a", "b"} {
				was, _ := source.Content(name)
				if got, there := target.Content(name); !there || got != was {
					t.Errorf("%s has %q, want %q", name, got, was)
				}
			}
		})
	}
}

// TestUnlinkedNameIsTooLong: a name that the target can not have at all is no file of its own.
func TestUnlinkedNameIsTooLong(t *testing.T) {
	long := strings.Repeat("n", 256)
	source, target := mem.NewTree().Files(map[string]string{"a": "content"}).Link("a", long), mem.NewTree()
	var n transfer.Counters
	res, err := syncTo(t.Context(), mem.New(source, mem.Options{}), shortNames{mem.New(target, mem.Options{})}, transfer.Options{Counters: &n})
	if f := res.failed(); err != nil || len(f) != 1 || n.LinksLost.Load() != 0 {
		t.Errorf("%v, failures %q, %d hard links lost", err, f, n.LinksLost.Load())
	}
}
