package retry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var owner = mover.WriterID{Task: "t", Epoch: 1}

// atOnce tries again without a wait that counts.
var atOnce = retry.Options{First: 1, Longest: 1}

// contract runs the contract of a place around a faulty one.
func contract(t *testing.T, o faulty.Options) {
	backendtest.Run(t, func(*testing.T) func() mover.Backend {
		tree := mem.NewTree()
		return func() mover.Backend {
			return retry.New(faulty.New(mem.New(tree, mem.Options{Reflinks: true}), o), atOnce)
		}
	})
}

func TestContract(t *testing.T) { contract(t, faulty.Options{}) }

// With retries, a place that fails at a third of all calls is a place.
func TestFaultyPlace(t *testing.T) {
	for seed := range uint64(3) {
		contract(t, faulty.Options{Seed: seed, Streak: 4, Rates: map[faulty.Fault]float64{
			faulty.Transient: 0.2, faulty.Unreachable: 0.1, faulty.Short: 0.2, faulty.Torn: 0.2,
		}})
	}
}

// The answer to the first call of everything is lost, but for what a place can
// not tell from the work of another: a new draft and the lock.
func TestLostAnswers(t *testing.T) {
	contract(t, faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Nth == 0 && c.Op != faulty.Draft {
			return faulty.Lost
		}
		return faulty.None
	}})
}

func script(f faulty.Fault, op faulty.Op, times int) faulty.Options {
	return faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == op && c.Nth < times {
			return f
		}
		return faulty.None
	}}
}

func TestWaits(t *testing.T) {
	const s = time.Second
	o := retry.Options{Tries: 5, First: s, Longest: 4 * s, Within: time.Minute}
	for _, row := range []struct {
		name        string
		fault       faulty.Fault
		times       int
		least, most time.Duration // spent waiting
		err         error
	}{
		{"no failure", faulty.Transient, 0, 0, 0, nil},
		{"one failure", faulty.Transient, 1, s / 2, s, nil},
		{"waits double", faulty.Unreachable, 3, (1 + 2 + 4) * s / 2, (1 + 2 + 4) * s, nil},
		{"up to the longest", faulty.Transient, 4, (1 + 2 + 4 + 4) * s / 2, (1 + 2 + 4 + 4) * s, nil},
		{"until the tries are over", faulty.Transient, 5, (1 + 2 + 4 + 4) * s / 2, (1 + 2 + 4 + 4) * s, mover.ErrTransient},
		{"what does not pass is final", faulty.Denied, 1, 0, 0, mover.ErrPermission},
		{"a full target is final", faulty.Full, 1, 0, 0, mover.ErrFull},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				o.Notify = func(error) { told++ }
				p := retry.New(faulty.New(mem.New(nil, mem.Options{}), script(row.fault, faulty.Mkdir, row.times)), o)
				began := time.Now()
				err := p.Mkdir(t.Context(), mover.Entry{Name: "d", Kind: mover.Dir})
				if !errors.Is(err, row.err) {
					t.Errorf("mkdir: %v", err)
				}
				if waits := min(row.times, o.Tries-1); row.most > 0 && told != waits {
					t.Errorf("told of %d errors in %d waits", told, waits)
				}
				if took := time.Since(began); took < row.least || took > row.most {
					t.Errorf("took %v, want %v to %v", took, row.least, row.most)
				}
			})
		})
	}
}

// Which kinds of errors are tried again.
func TestPassing(t *testing.T) {
	passes := map[error]bool{mover.ErrTransient: true, mover.ErrUnreachable: true, mover.ErrTimeout: true}
	for _, kind := range mover.Kinds() {
		if got := retry.Passing(&mover.Error{Op: "write", Location: "p", Err: fmt.Errorf("%w: for some reason", kind)}); got != passes[kind] {
			t.Errorf("%v: %v", kind, got)
		}
	}
}

// busy is a place that names the time before which it wants no more calls.
type busy struct {
	mover.Backend
	calls int
	after time.Duration
}

func (b *busy) Sync(context.Context) error {
	if b.calls++; b.calls == 1 {
		return &mover.Error{Op: "sync", Err: mover.ErrTransient, After: b.after}
	}
	return nil
}

func TestAfterIsHonoured(t *testing.T) {
	for _, row := range []struct {
		after time.Duration
		calls int
	}{
		{40 * time.Second, 2},
		{10 * time.Minute, 1}, // later than we want to try
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &busy{after: row.after}
			began := time.Now()
			err := retry.New(b, retry.Options{}).Sync(t.Context())
			if b.calls != row.calls || (err == nil) != (row.calls == 2) {
				t.Errorf("after %v: %d calls, %v", row.after, b.calls, err)
			}
			if took := time.Since(began); row.calls == 2 && took != row.after {
				t.Errorf("waited %v, not %v", took, row.after)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := retry.New(faulty.New(mem.New(nil, mem.Options{}), script(faulty.Transient, faulty.Sync, 100)), retry.Options{})
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		began := time.Now()
		if err := p.Sync(ctx); !errors.Is(err, why) {
			t.Errorf("sync: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

// When everything fails, retries become few: the budget is shared.
func TestBudgetStretchesWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty.New(mem.New(nil, mem.Options{}), faulty.Options{Rates: map[faulty.Fault]float64{faulty.Transient: 1}})
		p := retry.New(f, retry.Options{Tries: 3, First: time.Millisecond, Longest: time.Minute})
		var first, last time.Duration
		for i := range 60 {
			began := time.Now()
			if err := p.Sync(t.Context()); err == nil {
				t.Fatal("sync did not fail")
			}
			last = time.Since(began)
			if i == 0 {
				first = last
			}
		}
		if first > 10*time.Millisecond || last < 30*time.Second {
			t.Errorf("the first call waited %v, the last %v", first, last)
		}
	})
}

func TestWalkGoesOn(t *testing.T) {
	files := map[string]string{"a": "", "b/": "", "b/c": "", "b/d/e": "", "b-": "", "f": ""}
	want := []string{"a", "b-", "b", "b/c", "b/d", "b/d/e", "f"}
	for _, f := range []faulty.Fault{faulty.Transient, faulty.Unreachable} {
		place := mem.New(mem.NewTree().Files(files), mem.Options{})
		faulty := faulty.New(place, faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if c.Nth < 2 {
				return f
			}
			return faulty.None
		}})
		if got := walk(t, retry.NewSource(faulty, atOnce)); !slices.Equal(got, want) {
			t.Errorf("%v: walk %q, want %q", f, got, want)
		}
		if n := len(faulty.Injected()); n != 2*len(want)+2 {
			t.Errorf("%v: %d faults", f, n)
		}
	}
}

// What can not be known of a directory is told once, and the walk goes on.
func TestWalkPassesOnWhatIsFinal(t *testing.T) {
	place := mem.New(mem.NewTree().Files(map[string]string{"a/b": "", "c/d": ""}), mem.Options{})
	faulty := faulty.New(place, faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.List && c.Name == "a" {
			return faulty.Denied
		}
		return faulty.None
	}})
	if got, want := walk(t, retry.NewSource(faulty, atOnce)), []string{"a", "error at a", "c", "c/d"}; !slices.Equal(got, want) {
		t.Errorf("walk %q, want %q", got, want)
	}
}

func TestWalkGivesUp(t *testing.T) {
	place := mem.New(mem.NewTree().Files(map[string]string{"a": "", "b": "", "c": ""}), mem.Options{})
	faulty := faulty.New(place, faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Name == "b" {
			return faulty.Transient
		}
		return faulty.None
	}})
	if got, want := walk(t, retry.NewSource(faulty, atOnce)), []string{"a", "error at "}; !slices.Equal(got, want) {
		t.Errorf("walk %q, want %q", got, want)
	}
}

func TestReadGoesOnWhereItBroke(t *testing.T) {
	content := string(backendtest.Pattern(100_000))
	place := mem.New(mem.NewTree().Files(map[string]string{"f": content}), mem.Options{})
	faulty := faulty.New(place, script(faulty.Short, faulty.Read, 1))
	src := retry.NewSource(faulty, atOnce)
	if got := backendtest.Read(t, src, "f"); string(got) != content {
		t.Errorf("read %d bytes, not the content", len(got))
	}
	injected := faulty.Injected()
	for i, f := range injected[1:] {
		if f.Off <= injected[i].Off {
			t.Errorf("read again from %d after %d", f.Off, injected[i].Off)
		}
	}
	if len(injected) < 10 {
		t.Errorf("faults %v", injected)
	}
}

// A feed that failed has tried already; its part is not read again from here.
func TestBrokenFeedIsNotTriedAgain(t *testing.T) {
	p := retry.New(mem.New(nil, mem.Options{}), atOnce)
	d := must.Get(p.Draft(t.Context(), mover.Entry{Name: "f", Kind: mover.File, Size: 4}, mover.Hints{By: owner}))(t)
	defer d.Close()
	feed := &counted{Feed: backendtest.NewFeed([]byte("feed")).BreakAt(2, mover.ErrTransient)}
	if _, err := d.WritePart(t.Context(), backendtest.Parts(4, 4)[0], feed); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("write: %v", err)
	}
	if feed.rewinds != 0 {
		t.Errorf("the feed was rewound %d times", feed.rewinds)
	}
}

type counted struct {
	mover.Feed
	rewinds int
}

func (c *counted) Rewind() error { c.rewinds++; return c.Feed.Rewind() }

// What a draft can do beside is found behind the wrapper, and nothing more.
func TestOptionalInterfaces(t *testing.T) {
	inner := mem.New(nil, mem.Options{})
	for _, row := range []struct {
		name   string
		place  mover.Backend
		clones bool
	}{
		{"a place whose drafts can do more", inner, true},
		{"a place whose drafts can not", plain{inner}, false},
	} {
		d := must.Get(retry.New(row.place, atOnce).Draft(t.Context(), mover.Entry{Name: "f", Kind: mover.File}, mover.Hints{By: owner}))(t)
		_, clones := mover.As[mover.Cloner](d)
		_, rereads := mover.As[mover.Rereader](d)
		if clones != row.clones || rereads != row.clones {
			t.Errorf("%s: clones %v, rereads %v", row.name, clones, rereads)
		}
		must.Tell(t, d.Close())
	}
}

// plain hides what drafts can do beside.
type plain struct{ mover.Backend }

type plainDraft struct{ mover.Draft }

func (p plain) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.Backend.Draft(ctx, e, h)
	return plainDraft{d}, err
}

// An error says what failed once, however often it was tried.
func TestErrorsPassAsTheyAre(t *testing.T) {
	p := retry.New(mem.New(nil, mem.Options{}), retry.Options{})
	_, err := p.Stat(t.Context(), "nothing")
	if !errors.Is(err, mover.ErrNotExist) || strings.Count(err.Error(), "stat") != 1 {
		t.Errorf("stat: %v", err)
	}
	if _, err := p.Adopt(t.Context(), "nothing"); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("adopt: %v", err)
	}
}

func walk(t *testing.T, s mover.Source) []string {
	t.Helper()
	var got []string
	for e, err := range s.Walk(t.Context(), mover.WalkOptions{}) {
		if err != nil {
			got = append(got, "error at "+e.Name)
			continue
		}
		got = append(got, e.Name)
	}
	return got
}

// TestTelling: what fails for a while is told once, with its error and the end of patience, and that it is over, too.
func TestTelling(t *testing.T) {
	type told struct {
		after time.Duration
		text  string
	}
	for _, row := range []struct {
		name  string
		times int // that a call fails
		want  []string
	}{
		{"a failure or two", 3, nil},
		{"for a while", 8, []string{"can not be reached; it is tried again until about ", ""}},
		{"to the end of patience", 100, []string{"can not be reached; it is tried again until about ", ""}},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, all := time.Now(), []told(nil)
				var until time.Time
				ctx := retry.WithNotice(t.Context(), func(w *retry.Wait) {
					text := ""
					if w != nil {
						text = w.String()
						until = w.Until
					}
					all = append(all, told{time.Since(began), text})
				})
				p := retry.New(faulty.New(mem.New(nil, mem.Options{}), script(faulty.Unreachable, faulty.Mkdir, row.times)), retry.Options{})
				err := p.Mkdir(ctx, mover.Entry{Name: "d", Kind: mover.Dir})
				if (err != nil) != (row.times == 100) || len(all) != len(row.want) {
					t.Fatalf("%v, told %v", err, all)
				}
				if took, said := time.Since(began), until.Sub(began); err != nil && (said < took*3/4 || said > took*3/2) { // a wait is drawn between half and all of it
					t.Errorf("given up after %v, and %v was said", took, said)
				}
				for i, want := range row.want {
					if !strings.Contains(all[i].text, want) || want == "" && all[i].text != "" {
						t.Errorf("told %q, want %q", all[i].text, want)
					}
				}
				if len(all) > 0 && all[0].after > 4*time.Second {
					t.Errorf("told after %v", all[0].after)
				}
			})
		})
	}
}

// away is a source that fails for a while, for one cause after the other.
type away struct {
	mover.Source
	since time.Time
}

func (a away) Stat(context.Context, string) (mover.Entry, error) {
	var err error
	passed := time.Since(a.since)
	switch {
	case passed < 10*time.Second: // each time from another port
		from := &net.TCPAddr{Port: int(passed.Milliseconds())}
		err = &net.OpError{Op: "read", Net: "tcp", Source: from, Addr: &net.TCPAddr{Port: 9000}, Err: os.NewSyscallError("read", syscall.ECONNREFUSED)}
	case passed < 30*time.Second:
		err = &net.DNSError{Err: "no such host", Name: "store", IsNotFound: true}
	default:
		return mover.Entry{}, nil
	}
	return mover.Entry{}, &mover.Error{Op: "stat", Location: "s3://b", Name: passed.String(), Err: fmt.Errorf("%w: %w", mover.ErrUnreachable, err)}
}

// TestCauses: each change of the cause is told once, or else logged once, however many calls fail for it and however often.
func TestCauses(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				var shorts []string
				if told {
					ctx = retry.WithNotice(ctx, func(w *retry.Wait) {
						short := "over"
						if w != nil {
							short = w.Short()
						}
						shorts = append(shorts, short)
					})
				}
				var log bytes.Buffer
				s := retry.NewSource(away{since: time.Now()}, retry.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
				var calls sync.WaitGroup
				for range 5 {
					calls.Go(func() {
						if _, err := s.Stat(ctx, "x"); err != nil {
							t.Error(err)
						}
					})
				}
				calls.Wait()
				var want []string
				lines := 2
				if told {
					lines, want = 0, []string{"s3://b: connection refused", "s3://b: no such host store", "over"}
				}
				if got := strings.Count(log.String(), "\n"); got != lines {
					t.Errorf("%d lines, want %d:\n%s", got, lines, log.String())
				}
				if !slices.Equal(shorts, want) {
					t.Errorf("told %q, want %q", shorts, want)
				}
			})
		})
	}
}

// TestSilenceIsTold: an opening without an answer is told, although nothing has failed.
func TestSilenceIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []string
		ctx := retry.WithNotice(t.Context(), func(w *retry.Wait) {
			if w == nil {
				all = append(all, "")
				return
			}
			all = append(all, w.String())
		})
		err := retry.Opening(ctx, retry.Options{}, "s3://b", func() error { time.Sleep(10 * time.Second); return nil })
		if err != nil || len(all) != 2 || !strings.HasPrefix(all[0], "open s3://b: there is no answer yet; ") || all[1] != "" {
			t.Errorf("%v, told %q", err, all)
		}
		all = nil
		if err := retry.Opening(ctx, retry.Options{}, "s3://b", func() error { time.Sleep(time.Second); return nil }); err != nil || all != nil {
			t.Errorf("%v, told %q", err, all)
		}
	})
}

// TestToldEnd: each end of patience that is told is about when the call is given up, which includes the time that its last try takes.
func TestToldEnd(t *testing.T) {
	opening := func(ctx context.Context, call func() error) error {
		return retry.Opening(ctx, retry.Options{}, "s3://b", call)
	}
	calling := func(ctx context.Context, call func() error) error {
		return retry.Do(ctx, retry.Options{}, "list", "", call)
	}
	for _, row := range []struct {
		name string
		took time.Duration
		call func(context.Context, func() error) error
	}{
		{"an opening that no server answers", time.Minute, opening},
		{"a call that no server answers", time.Minute, calling},
		{"a call that is slow to fail", 40 * time.Second, calling},
		{"a call that fails at once", 0, calling},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ends []time.Time
				ctx := retry.WithNotice(t.Context(), func(w *retry.Wait) {
					if w != nil {
						ends = append(ends, w.Until)
					}
				})
				began := time.Now()
				err := row.call(ctx, func() error { time.Sleep(row.took); return mover.ErrTimeout })
				over := time.Now()
				if err == nil || len(ends) == 0 {
					t.Fatalf("%v, told %v", err, ends)
				}
				for _, end := range ends {
					if off, most := end.Sub(over).Abs(), over.Sub(began)/4; off > most { // waits are drawn between half and all of what they are at most
						t.Errorf("given up after %v, and %v was told", over.Sub(began), end.Sub(began))
					}
					if end.Before(over.Add(-row.took/2)) && row.took > 0 {
						t.Errorf("%v was told, which is before the last try has its answer at %v", end.Sub(began), over.Sub(began))
					}
				}
			})
		})
	}
}
