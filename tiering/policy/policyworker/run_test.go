package policyworker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	facts "datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// agent is that of a worker: it has the items of a part of a run, and gives turns freely.
type agent struct {
	agentv1.WorkerServiceClient
	items []*pb.PlanItem
	held  int64 // that the coordinator holds back
	lost  error // what is answered to the question whether the task is this worker's still
}

func (a *agent) Items(context.Context, *agentv1.ItemsRequest, ...grpc.CallOption) (grpc.ServerStreamingClient[agentv1.ReadItemsResponse], error) {
	return &items{all: a.items, held: a.held}, nil
}

func (a *agent) Mine(context.Context, *agentv1.MineRequest, ...grpc.CallOption) (*agentv1.MineResponse, error) {
	return &agentv1.MineResponse{}, a.lost
}

func (*agent) Turn(context.Context, *agentv1.TurnRequest, ...grpc.CallOption) (*agentv1.TurnResponse, error) {
	return &agentv1.TurnResponse{Pass: durationpb.New(time.Hour)}, nil
}

func (*agent) Note(context.Context, *agentv1.NoteRequest, ...grpc.CallOption) (*agentv1.NoteResponse, error) {
	return &agentv1.NoteResponse{}, nil
}

// items is a stream of them, one after the other.
type items struct {
	grpc.ServerStreamingClient[agentv1.ReadItemsResponse]
	all  []*pb.PlanItem
	held int64
}

func (s *items) Recv() (*agentv1.ReadItemsResponse, error) {
	if len(s.all) == 0 {
		return nil, io.EOF
	}
	item := s.all[0]
	s.all = s.all[1:]
	return &agentv1.ReadItemsResponse{Items: []*pb.PlanItem{item}, Held: s.held}, nil
}

// tree is what is below a directory: the names of its files, and what they have.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := must.Get(filepath.Rel(dir, path))(t)
		if strings.HasPrefix(filepath.Base(name), ".datamove") { // locks
			return nil
		}
		found[name] = string(must.Get(os.ReadFile(path))(t))
		return nil
	}))
	return found
}

// TestRun: a part of a run does to each file what the policy says, leaves alone what has changed since, and can be undone.
func TestRun(t *testing.T) {
	const keep = ".kept"
	planned := map[string]string{"d/a": "one", "d/b": "two", "c": "three", "gone": "four", "changed": "five"}
	stay := map[string]string{"changed": "longer than it was", "not planned": "six"}
	all := map[string]string{"d/a": "one", "d/b": "two", "c": "three"}
	and := func(parts ...map[string]string) map[string]string {
		sum := map[string]string{}
		for _, m := range parts {
			maps.Copy(sum, m)
		}
		return sum
	}
	kept := map[string]string{keep + "/d/a": "one", keep + "/d/b": "two", keep + "/c": "three"}
	lost := &mover.Error{Op: "confirm", Err: mover.ErrHeld}
	for _, row := range []struct {
		what       string
		tiering    *pb.Tiering
		target     string
		undo       bool // after that
		agent      agent
		before     map[string]string // at the target, with the times of the source
		source     map[string]string // afterwards
		copy       map[string]string
		files, too int64 // done; left alone
		err        error
	}{
		{"what is purged goes", &pb.Tiering{Remove: true}, "", false, agent{}, nil, stay, nil, 3, 2, nil},
		{"what the coordinator holds back is left alone, too", &pb.Tiering{Remove: true}, "", false, agent{held: 4}, nil, stay, nil, 3, 6, nil},
		{"what is purged is kept for a while", &pb.Tiering{Remove: true, Keep: keep}, "", false, agent{}, nil, and(stay, kept), nil, 3, 2, nil},
		{"and comes back", &pb.Tiering{Remove: true, Keep: keep}, "", true, agent{}, nil, and(stay, all), nil, 3, 2, nil},
		{"a copy leaves the source as it is", &pb.Tiering{}, "cold:", false, agent{}, nil, and(stay, all), all, 3, 2, nil},
		{"what is moved is at the target alone", &pb.Tiering{Remove: true}, "cold:", false, agent{}, nil, stay, all, 3, 2, nil},
		{"what is there already with another content is not moved", &pb.Tiering{Remove: true}, "cold:", false, agent{}, map[string]string{"c": "THREE"},
			and(stay, map[string]string{"c": "three"}), and(all, map[string]string{"c": "THREE"}), 2, 2, mover.ErrCorrupt},
		{"and comes back from there, but for a file that has no copy there", &pb.Tiering{Remove: true}, "cold:", true, agent{}, nil, and(stay, all), all, 3, 1, mover.ErrNotExist},
		{"a task of another worker removes nothing", &pb.Tiering{Remove: true}, "", false, agent{lost: lost}, nil, and(stay, all), nil, 0, 2, mover.ErrHeld},
	} {
		t.Run(row.what, func(t *testing.T) {
			scratch, cold, state := t.TempDir(), t.TempDir(), t.TempDir()
			must.Do(t, os.Mkdir(filepath.Join(scratch, "d"), 0o700))
			place := must.Get(posix.Open(scratch, posix.Options{}))(t)
			defer place.Close()
			programs := must.Get(policy.Read("p", []byte("kind: TierPolicy\nmetadata: {name: p}\nspec:\n  scope: {roots: ['scratch:']}\n  rules: [{name: all, match: {kind: file}, action: purge}]\n")))(t)
			for _, name := range slices.Sorted(maps.Keys(planned)) {
				must.Do(t, os.WriteFile(filepath.Join(scratch, name), []byte(planned[name]), 0o600))
				e := must.Get(place.Stat(t.Context(), name))(t)
				row.agent.items = append(row.agent.items, run.ItemOf(programs[0], &policy.Item{File: facts.FileOf(&e, 0)}, catalog.Tree{Tier: "scratch"}, "", "", ""))
			}
			must.Do(t, os.Remove(filepath.Join(scratch, "gone")))
			for name, text := range stay {
				must.Do(t, os.WriteFile(filepath.Join(scratch, name), []byte(text), 0o600))
			}
			for name, text := range row.before {
				must.Do(t, os.WriteFile(filepath.Join(cold, name), []byte(text), 0o600))
				at := must.Get(os.Stat(filepath.Join(scratch, name)))(t).ModTime()
				must.Do(t, os.Chtimes(filepath.Join(cold, name), at, at))
			}
			of := func(kind pb.TaskKind) *worker.Job {
				spec := &pb.TaskSpec{Kind: kind, Source: "scratch:", Target: row.target, Tiering: row.tiering}
				tiers := []*agentv1.TierAccess{{Name: "scratch", Level: "warm", Path: scratch}, {Name: "cold", Level: "cold", Path: cold}}
				return worker.NewJob(&agentv1.Job{Task: "t1", Epoch: 1, Spec: spec, StateDir: state, Tiers: tiers}, &row.agent, worker.Options{})
			}
			report, err := (Tier{}).Run(t.Context(), of(pb.TaskKind_TASK_KIND_TIER))
			if row.undo {
				must.Do(t, err)
				report, err = (Undo{}).Run(t.Context(), of(pb.TaskKind_TASK_KIND_UNDO))
			}
			if !errors.Is(err, row.err) || report.Files != row.files || report.Kept != row.too {
				t.Errorf("%d done, %d left alone, %v", report.Files, report.Kept, err)
			}
			if got := tree(t, scratch); !maps.Equal(got, row.source) {
				t.Errorf("the source has %v", got)
			}
			if got := tree(t, cold); !maps.Equal(got, row.copy) {
				t.Errorf("the target has %v", got)
			}
		})
	}
}
