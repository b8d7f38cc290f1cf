package manifest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/manifest"
	"datamove.dev/test/must"
)

// described is the manifest of what a tree has, with checksums.
func described(t *testing.T, p mover.Backend) *shelf {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(manifest.NewWriter(&b, manifest.Header{Source: p.String()}))(t)
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if err == nil && e.Kind == mover.File {
			e.CRC, e.Known = sumOf(t, p, e), e.Known|mover.FactCRC
		}
		if e.ETag != "" {
			e.Version = "of " + e.ETag
		}
		if err == nil {
			err = w.Write(&e)
		}
		must.Do(t, err)
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &shelf{b.Bytes()}
}

func sumOf(t *testing.T, s mover.Source, e mover.Entry) uint64 {
	t.Helper()
	c := must.Get(s.Open(t.Context(), e))(t)
	defer c.Close()
	r := must.Get(c.Range(t.Context(), 0, e.Size))(t)
	defer r.Close()
	content := must.Get(io.ReadAll(r))(t)
	return checksum.Update(0, content)
}

// What is what it was is walked as it is, with the checksums of the manifest; anything
// else ends the walk and is named.
//
//safety:4/datasets with test/cluster TestDatasetIsExpected
func TestExpect(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*mem.Tree)
		skip   string
		says   string // "" is nothing
	}{
		{"nothing", func(*mem.Tree) {}, "", ""},
		{"longer", func(t *mem.Tree) { t.Overwrite("a/two", 0, "much longer") }, "", "it had 7 bytes, and has 11"},
		{"shorter", func(t *mem.Tree) { t.Truncate("b", 0) }, "", "it had 1 bytes, and has 0"},
		{"gone", func(t *mem.Tree) { t.Delete("a/one") }, "", "a/one: "},
		{"the last is gone", func(t *mem.Tree) { t.Delete("z") }, "", "it is not there any more"},
		{"more", func(t *mem.Tree) { t.Files(map[string]string{"a/more": ""}) }, "", "it was not there"},
		{"more at the end", func(t *mem.Tree) { t.Files(map[string]string{"zz": ""}) }, "", "it was not there"},
		{"a directory where a file was", func(t *mem.Tree) { t.Delete("z"); t.Files(map[string]string{"z/x": ""}) }, "", "it is not there any more"},
		{"one more directory", func(t *mem.Tree) { t.Files(map[string]string{"a/dir/": ""}) }, "", ""},
		{"what is skipped", func(t *mem.Tree) { t.Overwrite("a/two", 0, "much longer"); t.Delete("a/one") }, "a", ""},
	} {
		tree := mem.NewTree().Files(map[string]string{"a/one": "content", "a/two": "content", "b": "b", "link": "", "z": "zzz"})
		p := mem.New(tree, mem.Options{})
		was := described(t, p)
		row.change(tree)
		var opts mover.WalkOptions
		if row.skip != "" {
			opts.Skip = func(name string, _ mover.Kind) bool { return name == row.skip }
		}
		var failed error
		for e, err := range manifest.Expect(p, was.open, nil).Walk(t.Context(), opts) {
			if failed = err; err != nil {
				break
			}
			if e.Kind == mover.File && (!e.Known.Has(mover.FactCRC) || e.CRC != sumOf(t, p, e)) {
				t.Errorf("%s: %s has the checksum %016x", row.name, e.Name, e.CRC)
			}
		}
		switch {
		case row.says == "" && failed != nil, row.says != "" && !errors.Is(failed, mover.ErrCorrupt):
			t.Errorf("%s: %v", row.name, failed)
		case row.says != "" && !strings.Contains(failed.Error(), row.says):
			t.Errorf("%s: %v, want %s", row.name, failed, row.says)
		}
	}
}

// summed is a place whose walks tell checksums.
type summed struct {
	mover.Source
	t *testing.T
}

func (s summed) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range s.Source.Walk(ctx, o) {
			if e.Kind == mover.File {
				e.CRC, e.Known = sumOf(s.t, s.Source, e), e.Known|mover.FactCRC
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Where a walk tells checksums, another content of the same size ends it: nothing has to be read for that.
func TestExpectSummed(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"f": "content", "g": "content"})
	p := mem.New(tree, mem.Options{})
	was := described(t, p)
	tree.Overwrite("g", 0, "CONTENT")
	var walked []string
	var failed error
	for e, err := range manifest.Expect(summed{p, t}, was.open, nil).Walk(t.Context(), mover.WalkOptions{}) {
		if failed = err; err != nil {
			break
		}
		walked = append(walked, e.Name)
	}
	if !slices.Equal(walked, []string{"f"}) || !errors.Is(failed, mover.ErrCorrupt) || !strings.Contains(failed.Error(), "its content is another one") {
		t.Errorf("%q, %v", walked, failed)
	}
}

// A content of the same size that is another one is told to whoever reads it: it has to
// have the checksum of the manifest, and can not be cloned past that.
func TestExpectContent(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"f": "content"})
	p := mem.New(tree, mem.Options{})
	was := described(t, p)
	tree.Overwrite("f", 0, "CONTENT")
	s := manifest.Expect(p, was.open, nil)
	for e, err := range s.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		c := must.Get(s.Open(t.Context(), e))(t)
		defer c.Close()
		if got := c.Entry(); !got.Known.Has(mover.FactCRC) || got.CRC == sumOf(t, p, e) {
			t.Errorf("it has to have the checksum %016x", got.CRC)
		}
		if _, under := c.(interface{ Unwrap() any }); under {
			t.Error("what is below it can be cloned")
		}
	}
	now := must.Get(s.Stat(t.Context(), "f"))(t)
	if _, err := s.Open(t.Context(), now); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("what no walk has seen is opened: %v", err)
	}
	damaged := &shelf{was.body[:len(was.body)-3]}
	for _, open := range []manifest.Opener{damaged.open, new(shelf).open, func(context.Context) (io.ReadCloser, error) { return nil, mover.ErrUnreachable }} {
		failed := false
		for _, err := range manifest.Expect(p, open, nil).Walk(t.Context(), mover.WalkOptions{}) {
			failed = failed || err != nil
		}
		if !failed {
			t.Error("a manifest that can not be read is no error")
		}
	}
}

// unwalked is a place that is not to be walked.
type unwalked struct {
	mover.Backend
	walks int
}

func (u *unwalked) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	u.walks++
	return u.Backend.Walk(ctx, opts)
}

// Who relies on what somebody else sees walks the manifest of the place, and asks the place for nothing; another place, whose
// manifest it is not, is walked.
func TestExpectSeen(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a/one": "content", "a/two": "content", "b": "b", "dir/": "", "z": "zzz"})
	p := &unwalked{Backend: mem.New(tree, mem.Options{ObjectStore: true})}
	was := described(t, p.Backend)
	skip := mover.WalkOptions{Skip: func(name string, _ mover.Kind) bool { return name == "a" }}
	for _, opts := range []mover.WalkOptions{{}, skip} {
		for _, sees := range []bool{true, false} {
			p.walks = 0
			want, got := facts(t, manifest.Expect(p.Backend, was.open, nil), opts), facts(t, manifest.Expect(p, was.open, func() bool { return sees }), opts)
			if !slices.Equal(got, want) || len(got) < 3 || (p.walks == 0) != sees {
				t.Errorf("with %d walks %q, and not %q", p.walks, got, want)
			}
		}
	}
	elsewhere := &unwalked{Backend: mem.New(tree, mem.Options{ObjectStore: true, Address: "elsewhere"})}
	if facts(t, manifest.Expect(elsewhere, was.open, func() bool { return true }), mover.WalkOptions{}); elsewhere.walks != 1 {
		t.Errorf("another place is walked %d times", elsewhere.walks)
	}
	damaged := &shelf{was.body[:len(was.body)-3]}
	var failed error
	for _, err := range manifest.Expect(p, damaged.open, func() bool { return true }).Walk(t.Context(), mover.WalkOptions{}) {
		failed = err
	}
	if !errors.Is(failed, mover.ErrCorrupt) {
		t.Errorf("a damaged manifest is %v", failed)
	}
}

// facts are what a copy needs to know of the entries of a walk.
func facts(t *testing.T, s mover.Source, opts mover.WalkOptions) (all []string) {
	t.Helper()
	for e, err := range s.Walk(t.Context(), opts) {
		must.Do(t, err)
		if e.Kind == mover.File && e.Brief {
			t.Errorf("of %s more could be known", e.Name)
		}
		all = append(all, fmt.Sprint(e.Name, e.Kind, e.Known, e.Size, e.Stored, e.Mode, e.Mtime, e.CRC, e.ETag, e.Version))
	}
	return all
}

// An object that was stored anew since its manifest was made is opened: whether it is what it was, its checksum tells.
//
//safety:4/datasets with test/cluster TestDatasetIsExpected
func TestExpectStoredAnew(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"longer": "content", "other": "content", "same": "content"})
	p := mem.New(tree, mem.Options{ObjectStore: true})
	was := described(t, p)
	tree.Overwrite("same", 0, "content")
	tree.Overwrite("other", 0, "CONTENT")
	tree.Overwrite("longer", 0, "much longer")
	s := manifest.Expect(p, was.open, func() bool { return true })
	for e, err := range s.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		c, err := s.Open(t.Context(), e)
		if want := map[string]error{"longer": mover.ErrChanged, "other": mover.ErrCorrupt}[e.Name]; want != nil {
			if !errors.Is(err, want) {
				t.Errorf("%s is %v", e.Name, err)
			}
			continue
		}
		must.Do(t, err)
		defer c.Close()
		if now := c.Entry(); now.ETag == e.ETag || now.CRC != sumOf(t, p, stat(t, p, e.Name)) {
			t.Errorf("%s is %+v", e.Name, now)
		}
	}
}

func stat(t *testing.T, s mover.Source, name string) mover.Entry {
	t.Helper()
	e := must.Get(s.Stat(t.Context(), name))(t)
	return e
}
