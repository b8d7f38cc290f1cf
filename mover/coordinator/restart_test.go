package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// BenchmarkRestart starts a coordinator over a ledger with many queued tasks, and
// reports how long that takes and how much memory the process has then.
// RESTART_TASKS says how many; a million is the target.
func BenchmarkRestart(b *testing.B) {
	n, dir := crowd(b, "RESTART_TASKS"), b.TempDir()
	fill(b, dir+"/ledger", n, queuedTask)
	for b.Loop() {
		restart(b, dir, func(s *Service, begun time.Time) {
			s.scheduler.discover(context.Background())
			b.ReportMetric(time.Since(begun).Seconds(), "all-lines-s")
			ids, err := s.scheduler.queued(context.Background(), s.scheduler.fair()[0], "", 1024)
			if err != nil || len(ids) != min(n, 1024) {
				b.Fatalf("%d ids, %v", len(ids), err)
			}
		})
	}
}

// BenchmarkRestartBatches is BenchmarkRestart with batches that running tasks gave away,
// each with a kilobyte of work; RESTART_BATCHES says how many.
func BenchmarkRestartBatches(b *testing.B) {
	n, dir := crowd(b, "RESTART_BATCHES"), b.TempDir()
	fill(b, dir+"/ledger", n, queuedBatch)
	for b.Loop() {
		restart(b, dir, func(s *Service, _ time.Time) {
			if want := (n + batchesEach - 1) / batchesEach; len(s.scheduler.leads) != want {
				b.Fatalf("%d leads, want %d", len(s.scheduler.leads), want)
			}
		})
	}
}

// crowd reads how many there are to be.
func crowd(b *testing.B, variable string) int {
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil {
		b.Skip(variable + " is not set: how many there are to be")
	}
	return n
}

// restart opens a ledger and a coordinator over it, and reports how long that took, and
// how much memory there is when look has seen it.
func restart(b *testing.B, dir string, look func(s *Service, begun time.Time)) {
	debug.FreeOSMemory()
	begun := time.Now()
	l := must.Get(state.Open(dir+"/ledger", state.Options{}))(b)
	opened := time.Since(begun)
	s := must.Get(New(context.Background(), Options{Ledger: l, Node: "n1", Data: dir}))(b)
	b.ReportMetric(opened.Seconds(), "open-s")
	b.ReportMetric(time.Since(begun).Seconds(), "restart-s")
	look(s, begun)
	b.ReportMetric(memory(b, "VmRSS:"), "RSS-MiB")
	b.ReportMetric(memory(b, "RssAnon:"), "own-MiB") // without what is mapped of the ledger's files
	must.Do(b, l.Close())
}

// fill makes a ledger of n things.
func fill(b testing.TB, dir string, n int, put func(tx *state.Tx, i int) error) {
	l := must.Get(state.Open(dir, state.Options{}))(b)
	for i := 0; i < n; i += 500 {
		err := l.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
			for j := i; j < min(i+500, n); j++ {
				if err := put(tx, j); err != nil {
					return err
				}
			}
			return nil
		})
		must.Do(b, err)
	}
	must.Do(b, l.Close())
}

var long = time.UnixMilli(1_790_000_000_000) // ago

func queuedTask(tx *state.Tx, i int) error { return state.Tasks.Put(tx, taskNumber(i)) }

func taskNumber(i int) *pb.Task {
	return &pb.Task{
		Id: fmt.Sprintf("%020d", i), State: task.Queued, Owner: &pb.Account{Name: "alice", Uid: 1000},
		Spec:       &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: fmt.Sprintf("/data/in/%d", i), Target: fmt.Sprintf("/data/out/%d", i), Class: pb.TaskClass_TASK_CLASS_REPLICATE, Node: "n1"},
		CreateTime: timestamppb.New(long), Revision: 1,
	}
}

// batchesEach is how many batches a lead gives away at one time, as package transfer has it.
const batchesEach = 512

// queuedBatch puts a batch that waits, and with the first one of a task its task.
func queuedBatch(tx *state.Tx, i int) error {
	t := taskNumber(i / batchesEach)
	if i%batchesEach == 0 {
		t.State, t.Epoch, t.Agent = task.Running, 7, "n1"
		if err := state.Tasks.Put(tx, t); err != nil {
			return err
		}
	}
	id := fmt.Sprintf("7.%d", i%batchesEach)
	return errors.Join(
		state.Batches.Put(tx, &ledgerv1.Batch{Task: t.GetId(), Id: id, State: ledgerv1.BatchState_BATCH_STATE_WAITING, LeadEpoch: 7, Bytes: 1 << 20, Entries: 100, CreateTime: timestamppb.New(long)}),
		state.Works.Put(tx, &ledgerv1.Work{Task: t.GetId(), Batch: id, Work: make([]byte, 1<<10)}))
}

// memory is what the kernel says of this process in MiB.
func memory(b *testing.B, what string) float64 {
	text := must.Get(os.ReadFile("/proc/self/status"))(b)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == what {
			kib, _ := strconv.ParseFloat(f[1], 64)
			return kib / 1024
		}
	}
	return 0
}
