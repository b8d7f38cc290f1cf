package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// damages is what a disk, a half-done copy or a person does to a file.
var damages = map[string]func(b []byte, r *rand.Rand) []byte{
	"empty":     func([]byte, *rand.Rand) []byte { return nil },
	"missing":   nil,
	"truncated": func(b []byte, r *rand.Rand) []byte { return b[:r.IntN(len(b)/2+1)] },
	"flipped": func(b []byte, r *rand.Rand) []byte {
		for range 8 {
			b[r.IntN(min(len(b), 4096))] ^= 1 << r.IntN(8)
		}
		return b
	},
	"zeroed": func(b []byte, _ *rand.Rand) []byte { clear(b[:min(len(b), 512)]); return b },
	"noise": func(b []byte, r *rand.Rand) []byte {
		for i := range b[:min(len(b), 4096)] {
			b[i] = byte(r.Uint32())
		}
		return b
	},
}

var damageTasks = kill.Times(1000, 2000)

// look opens a ledger and looks for what must be in it.
func look(dir string) error {
	l, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	err = l.View(func(tx *Tx) error {
		for n := range damageTasks {
			if there, err := fiveThere(tx, n); !there || err != nil {
				return fmt.Errorf("SILENT LOSS of task %d: %w", n, err)
			}
		}
		return nil
	})
	return errors.Join(err, l.Close())
}

// populate makes a ledger with tables and, as after a kill, with a log. All is durable.
func populate(t *testing.T, dir string) {
	l := opened(t, dir, Options{})
	for n := range damageTasks / 2 {
		update(t, l, func(tx *Tx) error { return five(tx, n) })
	}
	closed(t, l)
	l = opened(t, dir, Options{})
	for n := damageTasks / 2; n < damageTasks; n++ {
		update(t, l, func(tx *Tx) error { return five(tx, n) })
	}
	must.Do(t, l.Update(context.Background(), Durable, func(*Tx) error { return nil }))
	must.Do(t, os.CopyFS(dir+".killed", os.DirFS(dir))) // nothing is written meanwhile
	closed(t, l)
}

// TestDamage breaks each file of a ledger in each way. Either everything is there, or
// Open says what is to be done; it never begins anew, and it never has less.
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	populate(t, dir)
	model := dir + ".killed"
	if out, err := openElsewhere(copied(t, model)); err != nil {
		t.Fatalf("undamaged: %v\n%s", err, out)
	}
	harmless := map[string]bool{"lock": true, "synced": true} // they only say more than the store does
	n, tried, refused := kill.Random(t).IntN(len(damages)), 0, 0
	must.Do(t, fs.WalkDir(os.DirFS(model), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++ // each file is damaged in the way that comes next, and in a soak in all
		for i, name := range slices.Sorted(maps.Keys(damages)) {
			if !seed.Soak() && i != n%len(damages) {
				continue
			}
			tried++
			harm := damages[name]
			broken := copied(t, model)
			breakFile(t, filepath.Join(broken, path), harm)
			out, err := openElsewhere(broken)
			switch {
			case strings.Contains(out, "SILENT LOSS"):
				t.Errorf("%s %s: %s", name, path, out)
			case err != nil && harmless[path]:
				t.Errorf("%s %s is no reason to refuse: %s", name, path, out)
			case err != nil && !strings.Contains(out, "restore a backup"):
				t.Errorf("%s %s: no advice: %.200s", name, path, out)
			}
			if err != nil {
				refused++
			}
			must.Do(t, os.RemoveAll(broken))
		}
		return nil
	}))
	if refused == 0 {
		t.Error("nothing was found")
	}
	t.Logf("%d of %d were refused, the others did no harm", refused, tried)
}

func breakFile(t *testing.T, path string, harm func([]byte, *rand.Rand) []byte) {
	if harm == nil {
		must.Do(t, os.Remove(path))
		return
	}
	b := must.Get(os.ReadFile(path))(t)
	if len(b) > 0 {
		must.Do(t, os.WriteFile(path, harm(b, rand.New(rand.NewPCG(1, 2))), 0o600))
	}
}

// openElsewhere opens a ledger in another process, because Badger may end that.
func openElsewhere(dir string) (string, error) {
	out, err := kill.Command("look", dir).CombinedOutput()
	return string(out), err
}

// A directory that is not what it was is not taken for a new one.
func TestNeverAnew(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model")
	closed(t, opened(t, model, Options{}))
	for name, lose := range map[string]func(dir string) error{
		"the store":    func(dir string) error { return os.RemoveAll(filepath.Join(dir, "store")) },
		"its list":     func(dir string) error { return os.Remove(filepath.Join(dir, "store", "MANIFEST")) },
		"the identity": func(dir string) error { return os.Remove(identityPath(dir)) },
		"all but a stray": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "store")), os.Remove(identityPath(dir)))
		},
		"another's store": func(dir string) error {
			return (&identity{Format: format, Ledger: "other", State: stateReady}).write(dir)
		},
		"what was durable": func(dir string) error { return writeNote(dir, 1<<40) },
	} {
		dir := copied(t, model)
		must.Do(t, lose(dir))
		_, err := Open(dir, Options{})
		if !errors.Is(err, mover.ErrCorrupt) || !strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("without %s: %v", name, err)
		}
	}
	later := copied(t, model)
	must.Do(t, os.WriteFile(identityPath(later), []byte(`{"format":2,"ledger":"x"}`), 0o600))
	if _, err := Open(later, Options{}); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("of a later version: %v", err)
	}
}

func writeNote(dir string, sequence uint64) error {
	f, err := os.OpenFile(syncedPath(dir), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(writeSynced(f, sequence), f.Close())
}

// What is written in the time that SyncEvery allows is noted as durable.
func TestSoon(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{SyncEvery: time.Millisecond})
	defer closed(t, l)
	update(t, l, func(tx *Tx) error { return five(tx, 1) })
	for deadline := time.Now().Add(time.Minute); ; {
		synced := must.Get(readSynced(dir))(t)
		if synced == l.Sequence() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("record %d is durable, %d is written", synced, l.Sequence())
		}
	}
}
