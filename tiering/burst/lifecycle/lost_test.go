package lifecycle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/aws"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

// bring puts a folder below the directory of the test into a place, as somebody else does.
func (w *world) bring(from, to string) {
	w.t.Helper()
	l := w.leg()
	dst, err := l.Find(to)
	w.must(err)
	_, err = l.Way.Send(w.t.Context(), location.Location{Scheme: location.POSIX, Path: filepath.Join(w.dir, from)}, dst, func(context.Context, int64, int64) error { return nil })
	w.must(err)
}

// bucketOnly is a burst whose job reads from the bucket.
var bucketOnly = strings.Replace(declared, "    fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0, securityGroups: [sg-0123456789abcdef0]}\n", "", 1)

// TestLastLook: what was saved after all came home, and is not complete, is not lost: not of a bucket alone, and not where nobody waits for figures.
//
//safety:aws what is saved between the last sync-back and the end, also where no caller waits for figures; a command that was refused has given nothing up
func TestLastLook(t *testing.T) {
	t.Run("a bucket alone", func(t *testing.T) {
		w := newWorld(t, 10_000*pricing.Dollar)
		w.write("datasets/imagenet/a.tar", 1<<10)
		_, err := w.leg().Up(t.Context(), read(t, bucketOnly), nil)
		w.must(err)
		w.write("x/step-100/shard", 100)
		w.write("x/step-100/.complete", 0)
		w.bring("project/x", "cloud:bursts/llama-ft/checkpoints/run7")
		w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
		w.write("y/step-200/shard", 100)
		w.bring("project/y", "cloud:bursts/llama-ft/checkpoints/run7")
		w.refuses(w.leg(), "step-200")
	})
	t.Run("nobody waits", func(t *testing.T) {
		w := newWorld(t, 10_000*pricing.Dollar)
		w.write("datasets/imagenet/a.tar", 1<<10)
		r, err := w.leg().Up(t.Context(), read(t, declared), nil)
		w.must(err)
		tree := w.aws.FileSystem(r.FileSystem.ID)
		w.saved(tree, "step-100")
		w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
		tree.Write(aws.File{Name: "checkpoints/run7/step-200", Mode: aws.TypeDir | 0o755})
		tree.Write(aws.File{Name: "checkpoints/run7/step-200/shard", Body: []byte("x"), Mode: 0o644})
		l := w.leg()
		l.Settle = -1
		w.refuses(l, "step-200")
	})
}

// refuses has a burst not be taken down, because of something.
func (w *world) refuses(l *Manager, what string) {
	w.t.Helper()
	err := l.Down(w.t.Context(), w.record("llama-ft"), nil)
	if !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), what) {
		w.t.Errorf("%v, and not of %s", err, what)
	}
	if r := w.record("llama-ft"); r.State != burst.Ready || w.aws.Calls("DeleteFileSystem") > 0 || len(w.objects("bursts/llama-ft/datasets")) == 0 {
		w.t.Errorf("it is %s", r.State)
	}
}

// TestRefusedGivesNothingUp: what was to be abandoned by a command that was refused is not.
//
//safety:aws with TestLastLook
func TestRefusedGivesNothingUp(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	_, err := w.leg().Up(t.Context(), read(t, declared), nil)
	w.must(err)
	if err := w.leg().Down(t.Context(), w.record("llama-ft"), []burst.Path{"results"}); !errors.Is(err, mover.ErrConflict) {
		t.Fatal(err)
	}
	w.refuses(w.leg(), "results (it never came home)")
	if err := w.leg().Down(t.Context(), w.record("llama-ft"), []burst.Path{"datasets"}); !errors.Is(err, mover.ErrUsage) {
		t.Error(err)
	}
}

// TestTaskRuns: a file system that works still is not waited for when all is given up: its task is cancelled.
//
//safety:aws with TestLastLook
func TestTaskRuns(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	r, err := w.leg().Up(t.Context(), read(t, declared), nil)
	w.must(err)
	w.aws.Order("CreateDataRepositoryTask", 1, aws.Stalls)
	_, err = w.leg().Cloud.Begin(t.Context(), r.FileSystem.ID, "somebody", burst.ExportWork, []string{"results"}, "s3://"+w.store.Bucket+"/team/bursts/llama-ft/reports", nil)
	w.must(err)
	w.must(w.leg().Down(t.Context(), w.record("llama-ft"), []burst.Path{"results", "checkpoints/run7"}))
	if r := w.record("llama-ft"); r.State != burst.Gone || w.aws.Calls("CancelDataRepositoryTask") != 1 {
		t.Errorf("it is %s, after %d cancels", r.State, w.aws.Calls("CancelDataRepositoryTask"))
	}
}

// TestPrefixes: no burst takes away what another one, or somebody else, has in the bucket.
//
//safety:aws prefixes that are another burst's, within one, around one, or of another owner; a file that would move a burst: nothing of others is taken away
func TestPrefixes(t *testing.T) {
	named := func(name, prefix string) *burst.Burst {
		return read(t, strings.Replace(strings.Replace(bucketOnly, "name: llama-ft", "name: "+name, 1), "tier: cloud", "tier: cloud\n    prefix: "+prefix, 1))
	}
	for _, one := range []struct{ what, first, second string }{
		{"the same", "bursts/x", "bursts/x"}, {"within", "bursts/x", "bursts/x/y"}, {"around", "bursts/x/y", "bursts/x"},
	} {
		t.Run(one.what, func(t *testing.T) {
			w := newWorld(t, 10_000*pricing.Dollar)
			w.write("datasets/imagenet/a.tar", 1<<10)
			_, err := w.leg().Up(t.Context(), named("first", one.first), nil)
			w.must(err)
			if _, err := w.leg().Up(t.Context(), named("second", one.second), nil); !errors.Is(err, mover.ErrConflict) {
				t.Errorf("%v", err)
			}
			w.must(w.leg().Down(t.Context(), w.record("first"), []burst.Path{"results", "checkpoints/run7"}))
			if left := w.objects(""); len(left) > 0 {
				t.Errorf("left are %q", left)
			}
		})
	}
	t.Run("of somebody else", func(t *testing.T) {
		w := newWorld(t, 10_000*pricing.Dollar)
		w.write("datasets/imagenet/a.tar", 1<<10)
		w.bring("project/datasets/imagenet", "cloud:datasets/theirs")
		if _, err := w.leg().Up(t.Context(), named("first", "datasets"), nil); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%v", err)
		}
		// One whose mark was taken away takes nothing away.
		_, err := w.leg().Up(t.Context(), named("second", "bursts/second"), nil)
		w.must(err)
		w.must(os.Remove(filepath.Join(w.store.Dir, "team", "bursts/second", mark)))
		if err := w.leg().Down(t.Context(), w.record("second"), []burst.Path{"results", "checkpoints/run7"}); !errors.Is(err, mover.ErrConflict) {
			t.Errorf("%v", err)
		}
		if left := w.objects(""); !slices.Contains(left, "datasets/theirs/a.tar") || !slices.ContainsFunc(left, func(name string) bool { return strings.HasPrefix(name, "bursts/second/datasets/imagenet/a.tar") }) {
			t.Errorf("left are %q", left)
		}
	})
}

// narrow is a way under a role that may see nothing but the prefix of its burst.
type narrow struct {
	way
	prefix string
}

func (n narrow) Text(ctx context.Context, l location.Location, most int64) ([]byte, error) {
	if !mover.Within(l.Prefix, n.prefix) {
		return nil, &mover.Error{Op: "open", Location: l.String(), Err: mover.ErrPermission}
	}
	return n.way.Text(ctx, l, most)
}

// TestNarrowRole: who is held to the prefix of a burst brings it up, and takes it down.
func TestNarrowRole(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	l := w.leg()
	l.Way = narrow{l.Way, "team/bursts/llama-ft"}
	r, err := l.Up(t.Context(), read(t, bucketOnly), nil)
	w.must(err)
	w.must(l.Down(t.Context(), r, []burst.Path{"results", "checkpoints/run7"}))
	if left := w.objects(""); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}
