package s3_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

// TestStoreToStore: a key that leads to no name comes to another store as it is, once, and goes again; what is no store does not get it.
//
//safety:6 with TestKeysThatNameNothing
func TestStoreToStore(t *testing.T) {
	server := s3test.Start(t, false)
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		t.Run(client, func(t *testing.T) {
			o := server.Options(t)
			o.Client = client
			base := o.Prefix
			o.Prefix = base + "from/"
			from := s3test.Open(t, o)
			o.Prefix = base + "to/"
			to := s3test.Open(t, o)
			brought(t, mem.New(mem.NewTree().Files(map[string]string{"n\nl": "as a file is written", "plain": "p"}), mem.Options{}), from)
			for name, key := range map[string]string{"d/\x01key:n%0Al": "d/n\nl", "\x01key:n%0Al": "n\nl"} {
				d := must.Get(from.Draft(t.Context(), mover.Entry{Name: name, Key: key, Kind: mover.File, Size: 3}, mover.Hints{By: mover.WriterID{Task: "by hand"}}))(t)
				part := backendtest.Parts(3, 3)[0]
				r := must.Get(d.WritePart(t.Context(), part, backendtest.NewFeed([]byte("raw"))))(t)
				must.Do(t, d.Finish(t.Context(), mover.Entry{Name: name, Key: key, Kind: mover.File, Size: 3}, []mover.Receipt{r}))
				must.Do(t, from.Publish(t.Context(), []mover.Draft{d})[0].Err)
			}
			all := []string{"d/n\nl", "n\nl", "n\nl", "plain"} // one is written as n%0Al
			for _, row := range []struct {
				name         string
				to           mover.Backend
				done, failed []string
			}{
				{"all of them", to, all, nil},
				{"once", to, nil, nil},
				{"not where files have names", mem.New(nil, mem.Options{}), []string{"n\nl", "plain"}, []string{"d/n\nl", "n\nl"}},
			} {
				if done, failed := brought(t, from, row.to); !slices.Equal(done, row.done) || !slices.Equal(failed, row.failed) {
					t.Errorf("%s: done %q, failed %q", row.name, done, failed)
				}
			}
			if a, b := listed(t, from), listed(t, to); !slices.Equal(a, b) || len(a) != len(all) {
				t.Errorf("from %q came %q", a, b)
			}
			brought(t, mem.New(nil, mem.Options{}), to)
			if left := listed(t, to); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
			if _, err := to.Draft(t.Context(), mover.Entry{Name: "\x01key:..%2Fx", Kind: mover.File}, mover.Hints{}); err == nil {
				t.Error("a file elsewhere can be put under a key that leads to no name")
			}
		})
	}
}

// brought makes target what source is, and returns what had to be moved or removed for it, and what could not be.
func brought(t *testing.T, source mover.Source, target mover.Backend) (done, failed []string) {
	t.Helper()
	o := plan.Options{Delete: true, AnyKey: source.Capabilities().AnyKey && target.Capabilities().AnyKey, Both: target.Capabilities().FileAndDirShareName, Preserve: mover.FactCRC, CompareBy: plan.ByContent}
	told := &outcomes{}
	actions := plan.Diff(source.Walk(t.Context(), mover.WalkOptions{}), target.Walk(t.Context(), mover.WalkOptions{}), o)
	must.Do(t, transfer.Run(t.Context(), source, target, actions, transfer.Options{By: mover.WriterID{Task: "t", Epoch: 1}, Plan: o, Observer: told}))
	slices.Sort(told.done)
	slices.Sort(told.failed)
	return told.done, told.failed
}

// outcomes remembers what became of files.
type outcomes struct {
	mu           sync.Mutex
	done, failed []string // guarded by mu
}

func (o *outcomes) Result(r transfer.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch name := cmp.Or(r.Entry.Key, r.Entry.Name); {
	case r.Entry.Kind != mover.File:
	case r.Err != nil:
		o.failed = append(o.failed, name)
	case r.Op != plan.Keep:
		o.done = append(o.done, name)
	}
}

func (*outcomes) Paused(error) {}
func (*outcomes) Step(string)  {}

// listed are the names of all files of a place, and the keys of those that have none.
func listed(t *testing.T, p mover.Backend) (all []string) {
	t.Helper()
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if e.Key == "" {
			must.Do(t, err)
		}
		if e.Kind == mover.File {
			all = append(all, e.Name+" "+e.Key)
		}
	}
	return all
}
