package dataset

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine/recall"
)

// shelved are files that are in an archive until they were asked for; of some it says that nobody may.
type shelved struct {
	names  []string
	denied string
	asked  map[string]bool
}

func (s *shelved) Walk(_ context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for _, name := range s.names {
			if name > o.After && !yield(mover.Entry{Name: name, Kind: mover.File, Size: 1 << 20}, nil) {
				return
			}
		}
	}
}

func (s *shelved) Recall(_ context.Context, entries []mover.Entry) error {
	for _, e := range entries {
		if e.Name == s.denied {
			return mover.ErrPermission
		}
	}
	for _, e := range entries {
		s.asked[e.Name] = true
	}
	return nil
}

func (s *shelved) Away(_ context.Context, e mover.Entry) (bool, error) { return !s.asked[e.Name], nil }

// TestInPlace: what a staging in place prints, and how it ends.
func TestInPlace(t *testing.T) {
	for _, c := range []struct {
		what    string
		denied  string
		options recall.Options
		format  cli.Format
		want    string
		code    int
	}{
		{"all", "", recall.Options{}, cli.FormatTable, "fsx:data: 3 files, 3.00 MiB, 3 of 3 brought back (3.00 MiB of 3.00 MiB)\n", 0},
		{"a limit", "", recall.Options{Bytes: 2 << 20}, cli.FormatTable, "fsx:data: 2 files, 2.00 MiB, 2 of 2 brought back (2.00 MiB of 2.00 MiB); the rest with --after 'b c'\n", 0},
		{"the rest", "", recall.Options{After: "b c"}, cli.FormatTable, "fsx:data: 1 file, 1.00 MiB, 1 of 1 brought back (1.00 MiB of 1.00 MiB)\n", 0},
		{"one is denied", "a", recall.Options{}, cli.FormatTable, "fsx:data: 3 files, 3.00 MiB, 2 of 3 brought back (2.00 MiB of 3.00 MiB)\n", cli.ExitPermission},
		{"for a program", "a", recall.Options{}, cli.FormatJSONL,
			`{"schema":"datamove.recall/v1","location":"fsx:data","exit":4,"error":"a: permission denied","files":3,"bytes":3145728,"released_files":3,"released_bytes":3145728,"restored_files":2,"restored_bytes":2097152,"failed_files":1}` + "\n", cli.ExitPermission},
	} {
		t.Run(c.what, func(t *testing.T) {
			var out, said bytes.Buffer
			a := &cli.App{Out: &out, Err: &said, Env: func(string) string { return "" }}
			p := &inPlace{App: a, format: &c.format, options: c.options}
			err := p.bring(t.Context(), "fsx:data", &shelved{names: []string{"a", "b c", "d"}, denied: c.denied, asked: map[string]bool{}})
			if out.String() != c.want || cli.ExitCode(err) != c.code {
				t.Errorf("%q, %v (%d)\nwant %q", out.String(), err, cli.ExitCode(err), c.want)
			}
			if failed := strings.Contains(said.String(), "failed: a: permission denied\n"); failed != (c.denied != "") {
				t.Errorf("it says %q", &said)
			}
		})
	}
	var out bytes.Buffer
	a := &cli.App{Out: &out, Err: &out, Env: func(string) string { return "" }}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := cli.FormatTable
	err := (&inPlace{App: a, format: &f}).bring(ctx, "x", &shelved{names: []string{"a"}, asked: map[string]bool{}})
	if !errors.Is(err, cli.ErrInterrupted) || strings.Contains(out.String(), "brought back (1") {
		t.Errorf("%v, %q", err, out.String())
	}
}
