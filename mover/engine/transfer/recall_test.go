package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// archive is a source whose files are all in an archive. It brings back what it was asked
// for after a minute, unless it loses the request.
type archive struct {
	*mem.Backend
	loses  int             // the first requests
	denied map[string]bool // nobody can ask for these

	mu       sync.Mutex
	requests []int                // how many files each had
	coming   map[string]time.Time // when it is there
}

func (a *archive) Recall(_ context.Context, entries []mover.Entry) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		if a.denied[e.Name] {
			return mover.ErrPermission
		}
	}
	a.requests = append(a.requests, len(entries))
	if a.loses--; a.loses >= 0 {
		return nil
	}
	for _, e := range entries {
		a.coming[e.Name] = time.Now().Add(time.Minute)
	}
	return nil
}

func (a *archive) away(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, asked := a.coming[name]
	return !asked || time.Now().Before(at)
}

func (a *archive) Away(_ context.Context, e mover.Entry) (bool, error) { return a.away(e.Name), nil }

func (a *archive) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := a.Backend.Open(ctx, e)
	return archived{c, a}, err
}

type archived struct {
	mover.Content
	in *archive
}

func (c archived) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if c.in.away(c.Entry().Name) {
		return nil, mover.ErrReleased
	}
	return c.Content.Range(ctx, off, n)
}

func (a *archive) run(ctx context.Context, target *mem.Tree) (*results, error) {
	a.coming = map[string]time.Time{}
	to, res := mem.New(target, mem.Options{}), &results{}
	defer to.Close()
	actions := plan.Diff(a.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), plan.Options{})
	return res, transfer.Run(ctx, a, to, actions, transfer.Options{By: by, Observer: res, Jobs: 4})
}

func archivedFiles(n int) *mem.Tree {
	files := map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<16)}
	for i := range n {
		files[fmt.Sprintf("f%04d", i)] = fmt.Sprint(i)
	}
	return mem.NewTree().Files(files)
}

// TestRequestsThatAreLost: a copytool fails, or a server forgets what it was asked for, and
// nobody says so: it is asked for again, and meanwhile not all the time.
func TestRequestsThatAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, target := archivedFiles(600), mem.NewTree()
		a := &archive{Backend: mem.New(source, mem.Options{}), loses: 4}
		res, err := a.run(t.Context(), target)
		if err != nil || res.failed() != nil {
			t.Fatal(err, res.failed())
		}
		same(t, source, target, mem.Options{})
		asked := 0
		for _, n := range a.requests {
			asked += n
		}
		if asked < 602 || asked > 3*601 {
			t.Errorf("601 files were asked for in requests of %v", a.requests)
		}
	})
}

// TestOneKeepsBackNoOther: of those that are asked for together, one that can not be had
// fails by itself.
func TestOneKeepsBackNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, target := archivedFiles(300), mem.NewTree()
		a := &archive{Backend: mem.New(source, mem.Options{}), denied: map[string]bool{"f0007": true, "large": true}}
		res := must.Get(a.run(t.Context(), target))(t)
		failed := 0
		for _, r := range res.all {
			if r.Err == nil {
				continue
			}
			if failed++; !a.denied[r.Entry.Name] || !errors.Is(r.Err, mover.ErrPermission) {
				t.Errorf("%s: %v", r.Entry.Name, r.Err)
			}
		}
		if failed != 2 {
			t.Errorf("%d failed", failed)
		}
	})
}

// TestArchiveThatIsSilent: a wait without an end hears its context.
func TestArchiveThatIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &archive{Backend: mem.New(archivedFiles(10), mem.Options{}), loses: 1 << 30}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		begun := time.Now()
		if _, err := a.run(ctx, mem.NewTree()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 24*time.Hour+time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		if n := len(a.requests); n < 100 || n > 24*60/5+2 {
			t.Errorf("it was asked %d times in a day", n)
		}
	})
}
