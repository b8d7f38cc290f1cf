package service

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/task"
)

// BenchmarkRestart starts a coordinator over a ledger with many queued tasks, and
// reports how long that takes and how much memory the process has then.
// RESTART_TASKS says how many; a million is the target.
func BenchmarkRestart(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("RESTART_TASKS"))
	if err != nil {
		b.Skip("RESTART_TASKS is not set: how many queued tasks")
	}
	dir := b.TempDir()
	fill(b, dir+"/ledger", n)
	for b.Loop() {
		begun := time.Now()
		l, err := ledger.Open(dir+"/ledger", ledger.Options{})
		if err != nil {
			b.Fatal(err)
		}
		opened := time.Since(begun)
		s, err := New(context.Background(), Options{Ledger: l, Node: "n1", Data: dir})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(opened.Seconds(), "open-s")
		b.ReportMetric(time.Since(begun).Seconds(), "restart-s")
		s.discover(context.Background())
		b.ReportMetric(time.Since(begun).Seconds(), "all-lines-s")
		runtime.GC()
		b.ReportMetric(resident(b), "RSS-MiB")
		ids, err := s.queued(context.Background(), s.fair()[0], "", 1024)
		if err != nil || len(ids) != min(n, 1024) {
			b.Fatalf("%d ids, %v", len(ids), err)
		}
		if err := s.queue.Close(); err != nil {
			b.Fatal(err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func fill(b *testing.B, dir string, n int) {
	l, err := ledger.Open(dir, ledger.Options{})
	if err != nil {
		b.Fatal(err)
	}
	begun := time.UnixMilli(1_790_000_000_000)
	for i := 0; i < n; i += 1000 {
		err := l.Update(context.Background(), ledger.Soon, func(tx *ledger.Tx) error {
			for j := i; j < min(i+1000, n); j++ {
				err := ledger.Tasks.Put(tx, &pb.Task{
					Id: task.NewID(begun.Add(time.Duration(j) * time.Millisecond)), State: task.Queued, Owner: &pb.Account{Name: "alice", Uid: 1000},
					Spec:       &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: fmt.Sprintf("/data/in/%d", j), Target: fmt.Sprintf("/data/out/%d", j), Class: pb.TaskClass_TASK_CLASS_REPLICATE, Node: "n1"},
					CreateTime: timestamppb.New(begun), Revision: 1,
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
}

// resident is the memory of this process in MiB.
func resident(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "VmRSS:" {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib / 1024
		}
	}
	return 0
}
