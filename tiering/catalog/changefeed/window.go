package changefeed

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Window gathers names until the feed takes them: what happens to one of them many times meanwhile is one name. Its memory is bounded. The zero value is ready.
type Window struct {
	Wait  time.Duration // from the first name until they are given away, so that more come together; 0 means 1 s, less than none does not wait
	Names int           // most at a time; 0 means 200,000
	Bytes int           // of them; 0 means 32 MiB

	mu     sync.Mutex
	filled chan struct{}       // has a token when there is something; guarded by mu until it is made
	names  map[string]struct{} // guarded by mu, like all below
	bytes  int
	all    bool
	why    string
	events int
	since  time.Time // when the first was added
}

// Add adds a name; with a slash at its end it is a directory that is to be read whole. The root is "/".
func (w *Window) Add(name string) {
	if name == "/" {
		w.Lose("something happened to the root")
		return
	}
	if whole := strings.TrimSuffix(name, "/"); whole == "" || !mover.ValidName(whole) || Ours(name) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	if w.all {
		return // it is seen by the scan, which has not begun
	}
	if _, known := w.names[name]; known {
		return
	}
	w.names[name] = struct{}{}
	w.bytes += len(name)
	if w.full(1) {
		w.fold()
	}
}

// Lose says that anything may have happened anywhere.
func (w *Window) Lose(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begin()
	w.lose(why)
}

func (w *Window) lose(why string) {
	if !w.all {
		w.all, w.why = true, why
	}
	w.names, w.bytes = nil, 0
}

// begin counts an event.
func (w *Window) begin() {
	if w.events++; w.events > 1 {
		return
	}
	w.since = time.Now()
	w.names = map[string]struct{}{}
	w.token()
	select {
	case w.filled <- struct{}{}:
	default:
	}
}

func (w *Window) token() chan struct{} {
	if w.filled == nil {
		w.filled = make(chan struct{}, 1)
	}
	return w.filled
}

// full reports whether it is, or a part of it.
func (w *Window) full(part int) bool {
	return len(w.names) > cmp.Or(w.Names, 200_000)/part || w.bytes > cmp.Or(w.Bytes, 32<<20)/part
}

// foldLeast is how many names of one directory are better read with it than looked at one by one.
const foldLeast = 16

// fold makes room: the directories that have the most names stand for them. When names are scattered over so many directories that this does not help, or are in the root, it
// is all of the tree.
func (w *Window) fold() {
	for w.full(2) {
		w.shrink()
		within := map[string]int{}
		for name := range w.names {
			dir, _ := mover.Parent(strings.TrimSuffix(name, "/"))
			within[dir]++
		}
		dirs := slices.SortedFunc(maps.Keys(within), func(a, b string) int {
			return cmp.Or(cmp.Compare(within[b], within[a]), strings.Compare(a, b))
		})
		dirs = dirs[:(len(dirs)+1)/2]
		if within[dirs[0]] < foldLeast && w.full(2) || dirs[0] == "" {
			w.lose("more names than are kept changed")
			return
		}
		for _, dir := range dirs {
			if within[dir] >= foldLeast && dir != "" {
				w.put(dir + "/")
			}
		}
		w.shrink()
	}
}

func (w *Window) put(name string) {
	if _, known := w.names[name]; !known {
		w.names[name] = struct{}{}
		w.bytes += len(name)
	}
}

// shrink takes away what is read with a directory that is read whole.
func (w *Window) shrink() {
	for name := range w.names {
		if w.covered(name) {
			delete(w.names, name)
			w.bytes -= len(name)
		}
	}
}

func (w *Window) covered(name string) bool {
	if !strings.HasSuffix(name, "/") {
		if _, whole := w.names[name+"/"]; whole {
			return true
		}
	}
	for dir, _ := mover.Parent(strings.TrimSuffix(name, "/")); dir != ""; dir, _ = mover.Parent(dir) {
		if _, whole := w.names[dir+"/"]; whole {
			return true
		}
	}
	return false
}

// Next waits until there is something, and gives it away.
func (w *Window) Next(ctx context.Context) (Batch, error) {
	w.mu.Lock()
	filled := w.token()
	w.mu.Unlock()
	select {
	case <-filled:
	case <-ctx.Done():
		return Batch{}, context.Cause(ctx)
	}
	wait := time.NewTimer(cmp.Or(w.Wait, time.Second))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return Batch{}, context.Cause(ctx)
	}
	return w.take(), nil
}

func (w *Window) take() Batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shrink()
	b := Batch{Names: slices.Sorted(maps.Keys(w.names)), All: w.all, Why: w.why, Events: w.events, Since: w.since}
	w.names, w.bytes, w.all, w.why, w.events, w.since = nil, 0, false, "", 0, time.Time{}
	return b
}

// Hand gives away what comes, until ctx is done or take fails.
func (w *Window) Hand(ctx context.Context, take Take) error {
	for {
		b, err := w.Next(ctx)
		if err != nil {
			return err
		}
		if err := take(ctx, b); err != nil {
			return err
		}
	}
}
