package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/checksum"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/manifest"
	"datamove.dev/test/must"
)

// A checksum that only the walk knows, from a manifest, counts at every try: what does not
// have it does not pass because it is read once more, and what was only misread does.
//
//safety:4/datasets with test/cluster TestDatasetIsExpected
func TestKnownChecksumStaysKnown(t *testing.T) {
	source := mem.NewTree().Files(map[string]string{"small": "content", "large": strings.Repeat("0123456789", 2<<20), "other": "content"})
	from := mem.New(source, mem.Options{})
	var b bytes.Buffer
	w := must.Get(manifest.NewWriter(&b, manifest.Header{}))(t)
	for e, err := range from.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		if e.CRC = checksum.Update(0, []byte("content")); e.Name != "other" {
			e.CRC = 4711
		}
		e.Known |= mover.FactCRC
		must.Do(t, w.Write(&e))
	}
	if _, err := w.Close(); err != nil {
		t.Fatal(err)
	}
	target := mem.NewTree()
	flips := faulty.New(from, faulty.Options{Script: func(c faulty.Call) faulty.Fault {
		if c.Op == faulty.Read && c.Name == "other" && c.Nth == 0 {
			return faulty.Flipped
		}
		return faulty.None
	}})
	listed := manifest.Expect(flips, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, nil)
	res := must.Get(syncTo(t.Context(), listed, mem.New(target, mem.Options{}), transfer.Options{}))(t)
	failed := map[string]error{}
	for _, r := range res.all {
		if r.Err != nil {
			failed[r.Entry.Name] = r.Err
		}
	}
	for _, name := range []string{"small", "large"} {
		if !errors.Is(failed[name], mover.ErrCorrupt) {
			t.Errorf("%s: %v", name, failed[name])
		}
		if _, there := target.Content(name); there {
			t.Errorf("%s was published", name)
		}
	}
	if got, _ := target.Content("other"); got != "content" || len(failed) != 2 {
		t.Errorf("other is %q, and failed: %v", got, failed)
	}
}
