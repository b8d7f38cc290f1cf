package lifecycle

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

// TestAmend: a file is applied again: more data is staged, and paid for; what would move a burst, or lose what has to come home, is refused.
//
//safety:aws with TestPrefixes
func TestAmend(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	w.write("datasets/more/b.tar", 2<<10)
	r, err := w.leg().Up(t.Context(), read(t, declared), nil)
	w.must(err)
	reserved := r.Reserved
	for what, change := range map[string][2]string{
		"spec.team":                         {"team: vision", "team: speech"},
		"spec.cloud":                        {"subnet-0123456789abcdef0", "subnet-0123456789abcdef1"},
		"spec.cloud.prefix":                 {"tier: cloud", "tier: cloud\n    prefix: elsewhere"},
		"what is at datasets/imagenet":      {`from: "project:datasets/imagenet"`, `from: "project:datasets/more"`},
		"where checkpoints/run7 comes home": {`home: "project:runs/run7"`, `home: "project:runs/run8"`},
		"where results comes home":          {"results:\n    - {path: results, home: \"project:results\"}", "results: []"},
	} {
		_, err := w.leg().Up(t.Context(), read(t, strings.Replace(declared, change[0], change[1], 1)), w.record("llama-ft"))
		if !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "and "+what+" of it") {
			t.Errorf("%s: %v", what, err)
		}
	}
	longer := strings.Replace(declared, "lasts: 30h", "lasts: 60h", 1)
	longer = strings.Replace(longer, "  checkpoints:\n", "    - {from: \"project:datasets/more\", to: datasets/more}\n  checkpoints:\n", 1)
	r, err = w.leg().Up(t.Context(), read(t, longer), w.record("llama-ft"))
	w.must(err)
	if r.State != burst.Ready || r.Reserved <= reserved || r.Held() != 3<<10 || len(w.objects("bursts/llama-ft/datasets/more")) == 0 {
		t.Errorf("%s, %v after %v, %d bytes", r.State, r.Reserved, reserved, r.Held())
	}
	fs, err := w.leg().Cloud.FileSystem(t.Context(), r.FileSystem.ID)
	w.must(err)
	if want := r.Made.Add(60 * time.Hour).UTC().Format(time.RFC3339); fs.Tags[burst.TagUntil] != want || fs.Tags[burst.TagBurst] != r.ID {
		t.Errorf("its tags are %v, want %s", fs.Tags, want)
	}
	if n := w.aws.Calls("CreateFileSystem"); n != 1 {
		t.Errorf("%d file systems were asked for", n)
	}
}

// TestVacant: a prefix below which something lies already is nobody's: what a burst takes away at its end is what it made.
//
//safety:aws with TestPrefixes
func TestVacant(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	from, err := w.leg().Find("project:datasets/imagenet")
	w.must(err)
	to, err := w.leg().Find("cloud:bursts/llama-ft/theirs")
	w.must(err)
	_, err = w.leg().Way.Send(t.Context(), from, to, func(context.Context, int64, int64) error { return nil })
	w.must(err)
	if _, err := w.leg().Up(t.Context(), read(t, declared), nil); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "that is of no burst") {
		t.Errorf("%v", err)
	}
	if len(w.aws.Log()) > 0 {
		t.Errorf("AWS was asked for %v", w.aws.Log())
	}
}
