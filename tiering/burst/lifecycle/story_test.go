package lifecycle

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/aws"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

func sprintf(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// saved has a job in AWS save a checkpoint and a result.
func (w *world) saved(tree *aws.Tree, step string) {
	tree.Write(aws.File{Name: "checkpoints/run7/" + step, Mode: aws.TypeDir | 0o755})
	for _, shard := range []string{"shard-0", "shard-1"} {
		tree.Write(aws.File{Name: "checkpoints/run7/" + step + "/" + shard, Body: []byte(strings.Repeat(step+shard, 1000)), Mode: 0o644})
	}
	tree.Write(aws.File{Name: "checkpoints/run7/" + step + "/.complete", Mode: 0o644})
	tree.Write(aws.File{Name: "results/log.txt", Body: []byte("loss 0.1 after " + step), Mode: 0o644})
}

// TestStory is a whole burst: up, a job, home, down; and every bill is paid.
func TestStory(t *testing.T) { story(t, newWorld(t, 10_000*pricing.Dollar)) }

// TestWire is the same, and the service models of botocore are asked about every request and reply.
func TestWire(t *testing.T) { story(t, judged(t, 10_000*pricing.Dollar)) }

func story(t *testing.T, w *world) {
	w.write("datasets/imagenet/train/a.tar", 3<<20)
	w.write("datasets/imagenet/val/b.tar", 1<<20)
	b := read(t, declared)
	estimate, by, err := w.leg().Estimate(t.Context(), b)
	w.must(err)
	if by.By != "large" || estimate.Bytes != 4<<20 || estimate.GiB != 1200 || estimate.Bill.Total <= 0 {
		t.Errorf("estimate %+v, admitted by %q", estimate, by.By)
	}
	r, err := w.leg().Up(t.Context(), b, nil)
	w.must(err)
	if r.State != burst.Ready || r.FileSystem.ID == "" || r.FileSystem.Mount == "" {
		t.Fatalf("it is %s with %+v", r.State, r.FileSystem)
	}
	if got := w.objects("bursts/llama-ft/datasets"); !slices.Contains(got, "imagenet/train/a.tar") {
		t.Errorf("the bucket has %q", got)
	}
	tree := w.aws.FileSystem(r.FileSystem.ID)
	if all := tree.Files(); !slices.ContainsFunc(all, func(f aws.File) bool { return f.Name == "datasets/imagenet/train/a.tar" && f.Released }) {
		t.Errorf("the file system has %v", all)
	}
	w.saved(tree, "step-100")
	w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
	for _, name := range []string{"runs/run7/step-100/shard-1", "results/log.txt"} {
		if _, err := os.Stat(filepath.Join(w.dir, "project", name)); err != nil {
			t.Error(err)
		}
	}
	for _, f := range tree.Files() {
		if f.Name == "checkpoints/run7/step-100/shard-1" && f.Released {
			t.Error("its space is given back, which nobody asked for")
		}
	}
	l := w.leg()
	l.Release = true
	w.must(l.SyncBack(t.Context(), w.record("llama-ft")))
	for _, f := range tree.Files() {
		if strings.HasPrefix(f.Name, "checkpoints/run7/step-100/shard") && !f.Released {
			t.Errorf("the space of %s is not given back", f.Name)
		}
	}
	w.must(w.leg().Down(t.Context(), w.record("llama-ft"), nil))
	if r := w.record("llama-ft"); r.State != burst.Gone || !r.FileSystem.Gone {
		t.Errorf("at the end it is %s", r.State)
	}
	if got := w.objects("bursts/llama-ft"); len(got) > 0 {
		t.Errorf("the bucket still has %q", got)
	}
	balance, err := w.ledger.Balance(t.Context(), "vision")
	w.must(err)
	if balance.Reserved != 0 || balance.Spent <= 0 || balance.Spent > estimate.Bill.Total {
		t.Errorf("%+v of %v", balance, estimate.Bill.Total)
	}
	for _, line := range w.said {
		t.Log(line)
	}
}

// TestDown: what is not home is not taken down, and is named.
//
//safety:aws what never came home, clients that write while it is taken down, an export of which a file failed, in either state that AWS ends it in: nothing is deleted, and it is named
func TestDown(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	r, err := w.leg().Up(t.Context(), read(t, declared), nil)
	w.must(err)
	tree := w.aws.FileSystem(r.FileSystem.ID)
	w.saved(tree, "step-100")
	refused := func(what string) {
		t.Helper()
		err := w.leg().Down(t.Context(), w.record("llama-ft"), nil)
		if !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), what) {
			t.Fatalf("%v, and not of %s", err, what)
		}
		if n := w.aws.Calls("DeleteFileSystem"); n != 0 {
			t.Fatalf("%d deletes", n)
		}
	}
	refused("checkpoints/run7 (it never came home)")
	w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
	w.aws.AddDatum(aws.Datum{Namespace: "AWS/FSx", Name: "DataWriteBytes", Dimensions: map[string]string{"FileSystemId": r.FileSystem.ID}, At: w.clock.Now().Add(5 * time.Minute), Value: 4096}) // while it is waited for
	refused("clients wrote to the file system")
}

// TestPartialExport: an export of which a file failed is never done, whatever state it ends in, and nothing is taken down after it.
//
//safety:aws with TestDown
func TestPartialExport(t *testing.T) {
	for _, ends := range []aws.Fault{"", aws.EndsSucceeded} {
		t.Run("ends "+string(ends), func(t *testing.T) {
			w := newWorld(t, 10_000*pricing.Dollar)
			w.write("datasets/imagenet/a.tar", 1<<10)
			r, err := w.leg().Up(t.Context(), read(t, declared), nil)
			w.must(err)
			tree := w.aws.FileSystem(r.FileSystem.ID)
			w.saved(tree, "step-100")
			tree.FailExport("checkpoints/run7/step-100/shard-1", "S3AccessDenied")
			if ends != "" {
				w.aws.Order("CreateDataRepositoryTask", 1, ends)
			}
			err = w.leg().SyncBack(t.Context(), w.record("llama-ft"))
			if !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "checkpoints/run7/step-100/shard-1 (S3AccessDenied)") {
				t.Errorf("%v", err)
			}
			r = w.record("llama-ft")
			if home := r.CameHome("checkpoints/run7"); home != nil || r.Trouble == "" {
				t.Errorf("%+v, %q", home, r.Trouble)
			}
			if err := w.leg().Down(t.Context(), r, nil); !errors.Is(err, mover.ErrConflict) || w.aws.Calls("DeleteFileSystem") != 0 {
				t.Errorf("%v", err)
			}
			tree.FailExport("checkpoints/run7/step-100/shard-1", "")
			tree.Write(aws.File{Name: "checkpoints/run7/step-100/shard-1", Body: []byte("written again"), Mode: 0o644})
			w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
		})
	}
}
