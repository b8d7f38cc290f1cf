package volumestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"datamove.dev/csi/volume"
	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	at := func(do func(Spec) error) func(string) error {
		return func(text string) error {
			var s Spec
			if err := json.Unmarshal([]byte(text), &s); err != nil {
				return err
			}
			return do(s)
		}
	}
	kill.Main(map[string]func(string) error{"work": at(restless), "work once": at(once)})
	os.Exit(m.Run())
}

// names of the volumes that restless makes; few, so that it meets what it left.
const names = 6

// restless does one thing after the other to some volumes, and goes on for ever.
func restless(s Spec) error {
	ctx := context.Background()
	for i := 0; ; i++ {
		b, err := Open(ctx, s)
		if err != nil {
			return err
		}
		if err := b.something(ctx, i); err != nil {
			return err
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
}

// once makes a volume, changes, copies and removes it.
func once(s Spec) error {
	b, err := Open(context.Background(), s)
	if err != nil {
		return err
	}
	for what := range 4 {
		if err := b.something(context.Background(), what*names); err != nil {
			return err
		}
	}
	return b.Close()
}

// something makes, changes, copies or removes one volume.
func (b *Base) something(ctx context.Context, i int) error {
	name := fmt.Sprint("pvc-", i%names)
	w, err := b.wished(name)
	if err != nil {
		return err
	}
	s := snapshotOf(b, "of "+name, w.ID)
	switch i / names % 4 {
	case 0:
		_, err = b.Make(ctx, w)
	case 1:
		if _, err = b.Expand(ctx, w.ID, 30*mib); err == nil {
			_, err = b.Make(ctx, s)
		}
	case 2:
		err = errors.Join(b.Remove(ctx, w.ID, "test"), b.Remove(ctx, s.ID, "test"))
	case 3:
		_, _, err = b.Reap(ctx, time.Now())
	}
	if errors.Is(err, mover.ErrNotExist) { // the one before died
		return nil
	}
	return err
}

func (b *Base) wished(name string) (Wish, error) {
	p, err := volume.ParseParameters(map[string]string{"type": "project", "trash": "0s"})
	return Wish{ID: volume.ID{Kind: volume.Project, FileSystem: "lab", Key: volume.KeyOf(b.Identity, volume.Project, name)}, Name: name, Bytes: 20 * mib, Parameters: p}, err
}

// allOfIt are about as many calls as restless makes until it has done each thing to each volume.
const allOfIt = 250

// TestKill: whenever the driver is killed, what it made is whole or not there, the same calls go on, and in the end
// nothing is left over.
//
//safety:5/volumes kill -9 in the middle of making and removing; many callers that make one volume
func TestKill(t *testing.T) {
	s := onBtrfs(t)
	text := must.Get(json.Marshal(s))(t)
	random := kill.Random(t)
	step := kill.Times(3, 1)
	if testing.Short() {
		step *= 4
	}
	for n, killed := 1+random.IntN(step), true; killed; n += step { // all that one call does, and then the same once more
		_, killed = kill.AtCall(t, "work once", string(text), n)
		if looksWhole(t, s); t.Failed() {
			return
		}
		must.Do(t, once(s))
	}
	for range kill.Times(2, 60) {
		kill.AtCall(t, "work", string(text), 1+random.IntN(allOfIt))
		looksWhole(t, s)
	}
	b := opened(t, s)
	for i := range names {
		w, err := b.wished(fmt.Sprint("pvc-", i))
		must.Do(t, err)
		_, err = b.Make(t.Context(), w)
		must.Do(t, err)
		must.Do(t, b.Remove(t.Context(), w.ID, "test"))
		must.Do(t, b.Remove(t.Context(), snapshotOf(b, fmt.Sprint("of pvc-", i), w.ID).ID, "test"))
	}
	if _, left, err := b.Reap(t.Context(), time.Now()); left != 0 || err != nil {
		t.Errorf("%d, %v", left, err)
	}
	nothingIn(t, b, volumesDir, snapshotsDir, makingDir, trashDir)
	settled(t, b)
}

// looksWhole looks at everything that can be found.
func looksWhole(t *testing.T, s Spec) {
	t.Helper()
	b := must.Get(Open(t.Context(), s))(t)
	defer b.Close()
	for _, k := range []volume.Kind{volume.Project, volume.Snapshot} {
		records := must.Get(b.List(t.Context(), k, func(key string, err error) { t.Errorf("%s: %v", key, err) }))(t)
		for _, r := range records {
			id, err := volume.ParseID(r.ID)
			must.Do(t, err)
			f, err := b.Find(t.Context(), id)
			must.Do(t, err)
			st, err := b.Stats(t.Context(), f)
			f.Close()
			if err != nil || k == volume.Project && st.TotalBytes != r.Bytes && st.TotalBytes != 30*mib {
				t.Errorf("%s: %+v, %v", r.ID, st, err)
			}
		}
	}
}
