package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/p2p"
	"datamove.dev/test/must"
)

// lending is a directory of one node, and how another sees it.
func lending(t *testing.T, dir string) (r *rig, here *posix.Backend, there *Backend) {
	t.Helper()
	r = newRig(t)
	here = must.Get(posix.Open(dir, posix.Options{}))(t)
	t.Cleanup(func() { must.Do(t, here.Close()) })
	r.server.Open("lent task", "ticket", Export(here))
	return r, here, NewBackend(r.client, r.member, "", "n1:"+dir)
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640))
}

func walked(t *testing.T, p mover.Source, o mover.WalkOptions) (all []mover.Entry) {
	t.Helper()
	for e, err := range p.Walk(t.Context(), o) {
		must.Do(t, err)
		e.Known &= lentFacts &^ mover.FactLinks
		e.Xattrs, e.Data, e.Gen, e.Brief, e.Atime = nil, nil, 0, false, mover.Time{}
		all = append(all, e)
	}
	return all
}

func bytesOf(t *testing.T, p mover.Source, name string, off, n int64) ([]byte, error) {
	t.Helper()
	e, err := p.Stat(t.Context(), name)
	if err != nil {
		return nil, err
	}
	c, err := p.Open(t.Context(), e)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	r, err := c.Range(t.Context(), off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return text, errors.Join(err, c.Check(t.Context()))
}

// TestPlace: what another node exports looks as it does there, and has the same bytes.
//
//safety:5/jobs a directory that one node lends to a task on another one: links in it, files that are replaced, cut or gone between two pieces, tickets that are old, or for something else, and the node that lends it killed meanwhile
func TestPlace(t *testing.T) {
	dir := t.TempDir()
	large := strings.Repeat("0123456789abcdef", 300_000) // more than two pieces
	for name, text := range map[string]string{"run/step_1/__0_0.distcp": large, "run/step_1/.metadata": "meta", "run/step_1/deep/er/x": "y", "run/step_1-b": "beside", "run/step_1.c/z": "", "run/\xff\xfe": "odd", "run/latest": "step_1"} {
		put(t, dir, name, text)
	}
	must.Do(t, os.Symlink("step_1", filepath.Join(dir, "run/link")))
	_, here, there := lending(t, dir)
	run := NewBackend(there.client, there.lender, "run", "n1:run")
	top := func(name string, _ mover.Kind) bool { return strings.Contains(name, "/") }
	for what, o := range map[string]mover.WalkOptions{"all": {}, "a part": {Dir: "run/step_1"}, "the top": {Skip: top}} {
		if want, got := walked(t, here, o), walked(t, there, o); !reflect.DeepEqual(want, got) || len(want) == 0 {
			t.Errorf("%s:\n%+v, want\n%+v", what, got, want)
		}
	}
	if got := walked(t, run, mover.WalkOptions{Dir: "step_1"}); len(got) != 5 || got[0].Name != "step_1/.metadata" {
		t.Errorf("%+v", got)
	}
	for _, row := range []struct{ off, n int64 }{{0, int64(len(large))}, {0, 0}, {5, 100}, {p2p.PieceMost - 3, 7}, {int64(len(large)) - 1, 1}} {
		got, err := bytesOf(t, run, "step_1/__0_0.distcp", row.off, row.n)
		if must.Do(t, err); !bytes.Equal(got, []byte(large[row.off:row.off+row.n])) {
			t.Errorf("%d bytes from %d on are others", row.n, row.off)
		}
	}
	e, err := run.Stat(t.Context(), "link")
	if must.Do(t, err); e.Kind != mover.Symlink || e.Target != "step_1" {
		t.Errorf("%+v", e)
	}
	if _, err := run.Stat(t.Context(), ""); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"mkdir": run.Mkdir(t.Context(), e), "update": run.Update(t.Context(), e), "remove": run.Remove(t.Context(), e, mover.WriterID{}), "drop": run.Drop(t.Context(), "x"),
		"publish": run.Publish(t.Context(), make([]mover.Draft, 1))[0].Err,
	} {
		wants(t, what, err, mover.ErrUnsupported)
	}
}

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// TestPlaceChanges: what is another one by now, gone, or shorter, is told, also between two pieces; and nothing is read over a link.
//
//safety:5/jobs with TestPlace
func TestPlaceChanges(t *testing.T) {
	dir, secret := t.TempDir(), t.TempDir()
	put(t, secret, "key", "secret")
	put(t, dir, "a", "text")
	put(t, dir, "dir/b", "text")
	must.Do(t, os.Symlink(secret, filepath.Join(dir, "away")))
	must.Do(t, os.Symlink(filepath.Join(secret, "key"), filepath.Join(dir, "key")))
	_, _, there := lending(t, dir)
	for _, name := range []string{"away/key", "nothing", "a/b"} {
		if _, err := bytesOf(t, there, name, 0, 3); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	e, err := there.Stat(t.Context(), "key")
	must.Do(t, err)
	c, err := there.Open(t.Context(), e)
	must.Do(t, err)
	r, _ := c.Range(t.Context(), 0, 3)
	_, err = io.ReadAll(r)
	wants(t, "a link", err, mover.ErrChanged)

	for what, harm := range map[string]func(at string){
		"replaced": func(at string) { put(t, dir, "new", "tex2"); must.Do(t, os.Rename(filepath.Join(dir, "new"), at)) },
		"gone":     func(at string) { must.Do(t, os.Remove(at)) },
		"shorter":  func(at string) { must.Do(t, os.Truncate(at, 1)) },
		"a folder": func(at string) { must.Do(t, os.Remove(at)); must.Do(t, os.Mkdir(at, 0o755)) },
	} {
		put(t, dir, "a", "text")
		e := must.Get(there.Stat(t.Context(), "a"))(t)
		c := must.Get(there.Open(t.Context(), e))(t)
		must.Do(t, c.Check(t.Context()))
		harm(filepath.Join(dir, "a"))
		wants(t, what, c.Check(t.Context()), mover.ErrChanged)
		must.Do(t, os.RemoveAll(filepath.Join(dir, "a")))
	}
}

// TestPlaceSame: two files there are compared there, to the last byte.
//
//safety:5/jobs with TestPlace
func TestPlaceSame(t *testing.T) {
	dir := t.TempDir()
	large := make([]byte, pairMost+5)
	put(t, dir, "run/a", string(large))
	put(t, dir, "run/same", string(large))
	large[pairMost+4] = 1
	put(t, dir, "run/last", string(large))
	large[pairMost+4], large[0] = 0, 1
	put(t, dir, "run/first", string(large))
	put(t, dir, "run/short", "")
	_, _, all := lending(t, dir)
	there := NewBackend(all.client, all.lender, "run", "n1:run")
	for name, want := range map[string]bool{"a": true, "same": true, "last": false, "first": false, "short": false} {
		if got, err := there.Same(t.Context(), "a", name, pairMost+5); err != nil || got != want {
			t.Errorf("a and %s are the same: %v, %v", name, got, err)
		}
	}
	for name, want := range map[string]error{"nothing": mover.ErrNotExist, "../a": mover.ErrUsage} {
		_, err := there.Same(t.Context(), "a", name, 1)
		wants(t, name, err, want)
	}
	must.Do(t, os.Symlink("a", filepath.Join(dir, "run/link")))
	_, err := there.Same(t.Context(), "link", "a", 1)
	wants(t, "a link", err, mover.ErrChanged)
	for what, q := range map[string]*agentv1.LentPair{
		"long": {A: []byte("run/a"), B: []byte("run/a"), Length: pairMost + 1}, "before": {A: []byte("run/a"), B: []byte("run/a"), Off: -1}, "beyond": {A: []byte("run/a"), B: []byte("run/a"), Off: math.MaxInt64, Length: 1},
	} {
		wants(t, what, there.question(t.Context(), exportedSame, q, &agentv1.LentSame{}), mover.ErrUsage)
	}
}

// TestPlaceTickets: without the ticket nothing is exported; one for pieces of a dataset is for nothing else, and the other way round; and when it is taken back it is
// worth nothing.
//
//safety:5/jobs with TestPlace
func TestPlaceTickets(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a", "text")
	r, _, there := lending(t, dir)
	r.server.Open("dataset", "other", &here{published: map[string]string{"a": "text"}})
	for _, ticket := range []string{"", "tickets", "other"} {
		p := NewBackend(r.asking(ticket), r.member, "", "n1")
		_, err := p.Stat(t.Context(), "a")
		wants(t, fmt.Sprintf("with %q", ticket), err, mover.ErrTransient)
	}
	err := r.client.Get(t.Context(), r.member, &p2p.Piece{Segments: []p2p.Segment{{Name: "a", Length: 4}}}, false, make([]byte, 4))
	wants(t, "a piece of what is lent", err, mover.ErrPermission)
	_, err = there.Stat(t.Context(), "a")
	must.Do(t, err)
	for _, name := range []string{"../a", "/a", "a//b"} {
		_, err := there.Stat(t.Context(), name)
		wants(t, name, err, mover.ErrUsage)
	}
	r.server.Shut("lent task")
	_, err = there.Stat(t.Context(), "a")
	wants(t, "when it is over", err, mover.ErrTransient)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = there.Stat(ctx, "a")
	wants(t, "when nobody wants it", err, context.Canceled)
}
