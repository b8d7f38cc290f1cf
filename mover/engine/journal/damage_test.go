package journal

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// openAndWrite opens a journal, reads it to its end and writes to it, and fails as a command would.
func openAndWrite(dir string) error {
	ctx := context.Background()
	j, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	for range j.Left(ctx) {
		continue
	}
	id, err := j.Begin(ctx, large("new"))
	return errors.Join(err, j.Part(ctx, id, receipt(0)), j.Durable(ctx, id), j.Close())
}

// damages is what a disk, a half-written restore or a person does to a file.
var damages = map[string]func(b []byte, r *rand.Rand) []byte{
	"empty":     func([]byte, *rand.Rand) []byte { return nil },
	"missing":   nil,
	"truncated": func(b []byte, r *rand.Rand) []byte { return b[:r.IntN(len(b)+1)] },
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

// TestDamage breaks each file of a journal in each way. A task may lose what it had
// done; it is never stuck, and no run is lost to Badger ending the process.
//
//safety:3 with TestReboot
func TestDamage(t *testing.T) {
	model := t.TempDir()
	populate(t, model)
	files := must.Get(os.ReadDir(model))(t)
	r := seed.Rand(t)
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		for i, f := range files {
			if !seed.Soak() && i%3 != 0 || f.Name() == "lock" {
				continue
			}
			dir := filepath.Join(t.TempDir(), "task")
			must.Do(t, os.CopyFS(dir, os.DirFS(model)))
			breakFile(t, filepath.Join(dir, f.Name()), damages[name], r)
			if out, err := kill.Command("open", dir).CombinedOutput(); err != nil {
				t.Errorf("%s %s: %v: %.300s", name, f.Name(), err, out)
			}
		}
	}
}

// populate makes a journal with tables and, as after a kill, with a log.
func populate(t *testing.T, dir string) {
	ctx := t.Context()
	j := reopen(t, dir, Options{})
	_, err := j.Stage(ctx, small(3000))
	must.Do(t, err)
	must.Do(t, j.SetFacts(ctx, Facts{Entries: 1}))
	closed(t, j)
	kill.AtLine(t, "work", dir, "", 100, hear(t, map[string]*told{}))
}

func breakFile(t *testing.T, path string, harm func([]byte, *rand.Rand) []byte, r *rand.Rand) {
	if harm == nil {
		must.Do(t, os.Remove(path))
		return
	}
	b := must.Get(os.ReadFile(path))(t)
	if len(b) > 0 {
		must.Do(t, os.WriteFile(path, harm(b, r), 0o600))
	}
}
