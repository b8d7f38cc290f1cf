package query

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// Question is what is asked.
type Question struct {
	Tree   catalog.Tree
	Dir    string        // of the tree, below which; "" is all. A file is itself
	Choice policy.Choice // which files; the zero value is all
	Owner  *uint32       // only what belongs to this account, as far as that is known; nil is everything
	Now    time.Time     // what ages are counted from; zero is now
}

// FactSource tells what is known of locations in a tree. It is for one goroutine.
type FactSource interface {
	At(f *dataset.File) *policy.Facts // until it is asked again
}

// Reader answers.
type Reader struct {
	Catalog *catalog.Catalog
	People  policy.People     // nil: accounts are numbers
	Ground  func() FactSource // one for each goroutine; nil knows nothing but the tier
}

// Found is a file that is meant.
type Found struct {
	dataset.File
	policy.View
	Project string
}

// answer is a question that is ready to be asked.
type answer struct {
	Reader
	Question
	program *policy.Program
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

func (r Reader) answer(q Question) (*answer, error) {
	program, err := q.Choice.Read()
	if err != nil {
		return nil, err
	}
	if q.Now.IsZero() {
		q.Now = time.Now()
	}
	s, err := r.Catalog.State(q.Tree)
	if err == nil && s.Scanned.IsZero() {
		what := "it was never scanned"
		if !s.Began.IsZero() {
			what = "its first scan has not come to its end"
		}
		err = &mover.Error{Op: "read the catalog of", Location: q.Tree.String(), Err: &unscanned{what}}
	}
	if err != nil {
		return nil, err
	}
	return &answer{r, q, program}, nil
}

// unscanned is the error of a tree that the catalog does not have. It is mover.ErrNotExist.
type unscanned struct{ what string }

func (u *unscanned) Error() string { return u.what }
func (u *unscanned) Unwrap() error { return mover.ErrNotExist }

// teller looks at files, for one goroutine.
type teller struct {
	*answer
	judge  *policy.Judge
	ground FactSource
}

func (a *answer) teller() *teller {
	t := &teller{answer: a, judge: a.program.Judge(a.Now, a.People), ground: plain{policy.Facts{Tier: a.Tree.Tier}}}
	if a.Ground != nil {
		t.ground = a.Ground()
	}
	return t
}

// plain knows nothing of places.
type plain struct{ facts policy.Facts }

func (p plain) At(*dataset.File) *policy.Facts { return &p.facts }

// means reports whether a file is meant, and what is known of where it is. An expression that fails of a file does not mean it; names that can not be told now
// are an error.
func (t *teller) means(f *dataset.File) (at *policy.Facts, meant bool, err error) {
	if t.Owner != nil && f.Known.Has(mover.FactOwner) && f.UID != *t.Owner {
		return nil, false, nil
	}
	at = t.ground.At(f)
	v := t.judge.Decide(f, at)
	if errors.Is(v.Err, policy.ErrUnnamed) {
		return nil, false, v.Err
	}
	return at, v.Rule == 0 && v.Err == nil, nil
}

// read calls do for all that lies below the directory, from several goroutines where that is of use. The number of the worker is less than workers().
func (a *answer) read(ctx context.Context, do func(worker int, f *dataset.File) error) error {
	if a.Dir == "" {
		return a.Catalog.Each(ctx, a.Tree, workers(), func(worker int, files []dataset.File) error {
			for i := range files {
				if err := do(worker, &files[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for f, err := range a.below(ctx) {
		if err == nil {
			err = do(0, &f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below yields what lies below the directory, in the order of walks. If it is a file, that is all.
func (a *answer) below(ctx context.Context) iter.Seq2[dataset.File, error] {
	if a.Dir != "" {
		if f, err := a.Catalog.Get(a.Tree, a.Dir); err == nil && f.Kind != mover.Dir {
			return func(yield func(dataset.File, error) bool) { yield(f, nil) }
		}
	}
	return a.Catalog.Below(ctx, a.Tree, a.Dir)
}

func workers() int { return max(1, runtime.GOMAXPROCS(0)) }

// tooMany is the error of an answer that would be too large.
func tooMany(what string, most int) error {
	return fmt.Errorf("%w: more than %d %s; ask for less at a time", mover.ErrRefused, most, what)
}
