package burstserver

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"testing"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
)

// late is a coordinator that still takes an agent for the lead of a task.
type late struct {
	Coordinator
	t *pb.Task
}

func (l late) Assigned(context.Context, string, uint64) (*pb.Task, error) { return l.t, nil }
func (late) AddChore(time.Duration, string, func(context.Context) error)  {}

// noDatasets are of tests without any.
type noDatasets struct{ Datasets }

func (noDatasets) CheckLabels(func(authz.Caller, map[string]string) error) {}

const declaration = `kind: Burst
metadata: {name: llama}
spec:
  team: vision
  job: {kind: training, priority: high, gpus: 64, startsIn: 9h}
  cloud:
    tier: archive
    region: us-east-1
    fileSystem: {type: SCRATCH_2, subnet: subnet-0123456789abcdef0}
  link: {kind: directConnect, rate: 10Gbit/s}
  lasts: 30h
  data:
    - {from: "project:vision/words", to: words}
`

// TestFence: an agent that lost a task between the question and the change keeps no record and spends nothing.
func TestFence(t *testing.T) {
	books := must.Get(state.Open(t.TempDir(), state.Options{}))(t)
	defer books.Close()
	conf := &config.Config{Burst: config.Burst{Accounts: map[string]config.BurstAccount{"vision": {Cap: "$100"}}}}
	one := &pb.Task{Id: task.NewID(time.Now()), State: task.Running, Epoch: 2, Owner: &pb.Account{Name: "alice", Uid: 1001}, Spec: &pb.TaskSpec{
		Kind: pb.TaskKind_TASK_KIND_BURST, Target: "archive:x", Burst: &pb.BurstWork{Step: pb.BurstStep_BURST_STEP_UP, Name: "llama", Team: "vision", Declaration: declaration}}}
	must.Do(t, books.Update(t.Context(), state.Durable, func(tx *state.Tx) error { return state.Tasks.Put(tx, one) }))
	s := New(Options{Coordinator: late{t: one}, Datasets: noDatasets{}, Ledger: books, Config: func() *config.Config { return conf }, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	r := burst.Begin(must.Get(burst.Read("test", []byte(declaration)))(t)[0], "alice", burst.Admitted{By: "large"}, time.Now())
	text := must.Get(json.Marshal(r))(t)
	kinds := map[uint64]error{1: mover.ErrHeld, 2: nil}
	for _, epoch := range []uint64{1, 2} {
		_, err := s.KeepBurst(t.Context(), &agentv1.KeepBurstRequest{Task: one.GetId(), Epoch: epoch, Record: text})
		if !errors.Is(err, kinds[epoch]) {
			t.Errorf("a record kept in epoch %d: %v, want %v", epoch, err, kinds[epoch])
		}
	}
	spend := &agentv1.SpendRequest{Task: one.GetId(), Burst: r.ID, Kind: agentv1.SpendKind_SPEND_KIND_RESERVE, Micros: 1e6, Key: "a"}
	for _, epoch := range []uint64{1, 2} {
		spend.Epoch = epoch
		if _, err := s.Spend(t.Context(), spend); !errors.Is(err, kinds[epoch]) {
			t.Errorf("spent in epoch %d: %v, want %v", epoch, err, kinds[epoch])
		}
	}
}
