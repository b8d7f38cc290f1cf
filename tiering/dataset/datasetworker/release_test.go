package datasetworker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/test/must"
)

// agent is that of a worker. It notes what it is asked, and refuses what it is told to.
type agent struct {
	agentv1.WorkerServiceClient
	refuses map[string]error // by what is asked
	itself  bool             // it describes what it seals
	asked   []string
}

func (a *agent) ask(what string) error {
	a.asked = append(a.asked, what)
	return a.refuses[what]
}

func (a *agent) Mine(context.Context, *agentv1.MineRequest, ...grpc.CallOption) (*agentv1.MineResponse, error) {
	return &agentv1.MineResponse{}, a.refuses["confirm"]
}

func (*agent) Turn(context.Context, *agentv1.TurnRequest, ...grpc.CallOption) (*agentv1.TurnResponse, error) {
	return &agentv1.TurnResponse{Pass: durationpb.New(time.Hour)}, nil
}

func (*agent) Note(context.Context, *agentv1.NoteRequest, ...grpc.CallOption) (*agentv1.NoteResponse, error) {
	return &agentv1.NoteResponse{}, nil
}

func (a *agent) Seal(_ context.Context, r *agentv1.SealRequest, _ ...grpc.CallOption) (*agentv1.SealResponse, error) {
	what := "seal"
	if r.GetOff() {
		what = "unseal"
	}
	return &agentv1.SealResponse{Described: a.itself}, a.ask(what)
}

func (a *agent) Describe(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[agentv1.DescribeRequest, agentv1.DescribeResponse], error) {
	return &manifest{agent: a}, nil
}

// manifest is a stream of one.
type manifest struct {
	grpc.ClientStreamingClient[agentv1.DescribeRequest, agentv1.DescribeResponse]
	agent *agent
	bytes int
}

func (m *manifest) Send(r *agentv1.DescribeRequest) error {
	m.bytes += len(r.GetData())
	return nil
}

func (m *manifest) CloseAndRecv() (*agentv1.DescribeResponse, error) {
	if m.bytes == 0 {
		return nil, errors.New("it has nothing in it")
	}
	return &agentv1.DescribeResponse{}, m.agent.ask("describe")
}

// fixture is a replica on a hot tier and one on a warm tier, of the same files.
type fixture struct{ hot, warm string }

func replicas(t *testing.T) fixture {
	t.Helper()
	f := fixture{t.TempDir(), t.TempDir()}
	at := time.Unix(1e9, 0)
	for _, dir := range []string{f.hot, f.warm} {
		for _, name := range []string{"sets/a/x", "sets/a/deep/y"} {
			must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
			must.Do(t, os.Chtimes(filepath.Join(dir, name), at, at))
		}
	}
	return f
}

func (f fixture) job(t *testing.T, a *agent, spec *pb.TaskSpec) *worker.Job {
	t.Helper()
	tiers := []*agentv1.TierAccess{{Name: "hot", Level: "hot", Path: f.hot}, {Name: "warm", Level: "warm", Path: f.warm}}
	return worker.NewJob(&agentv1.Job{Task: "t1", Epoch: 1, Spec: spec, StateDir: t.TempDir(), Tiers: tiers}, a, worker.Options{})
}

// there are the names of files below a directory.
func there(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, name := range []string{"sets/a/deep/y", "sets/a/new", "sets/a/x"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// TestRelease: a replica goes when the other one has all of it, which is compared first and read where times tell nothing; else it stays, and why is said.
func TestRelease(t *testing.T) {
	write := func(path, text string) func(*testing.T, fixture) {
		return func(t *testing.T, f fixture) {
			must.Do(t, os.WriteFile(filepath.Join(f.warm, path), []byte(text), 0o600))
		}
	}
	gone := func(path string) func(*testing.T, fixture) {
		return func(t *testing.T, f fixture) { must.Do(t, os.RemoveAll(filepath.Join(f.warm, path))) }
	}
	for _, row := range []struct {
		what     string
		change   func(*testing.T, fixture) // before; nil is none
		checksum bool
		refuses  map[string]error
		asked    string
		stays    bool
		err      error
	}{
		{"both are the same", nil, false, nil, "unseal", false, nil},
		{"what goes is read, too", nil, true, nil, "describe unseal", false, nil},
		{"what goes is not what it was", nil, true, map[string]error{"describe": mover.ErrChanged}, "describe", true, mover.ErrChanged},
		{"the copy that stays was touched, and has the digest", write("sets/a/x", "sets/a/x"), false, nil, "describe unseal", false, nil},
		{"the copy that stays was touched, and has another digest", write("sets/a/x", "other"), false, map[string]error{"describe": mover.ErrChanged}, "describe", true, mover.ErrCorrupt},
		{"the copy that stays lacks a file", gone("sets/a/deep/y"), false, map[string]error{"describe": mover.ErrChanged}, "describe", true, mover.ErrCorrupt},
		{"the copy that stays is gone", gone("sets/a"), false, nil, "", true, mover.ErrCorrupt},
		{"both are one folder", func(t *testing.T, f fixture) {
			must.Do(t, os.RemoveAll(f.warm))
			must.Do(t, os.Symlink(f.hot, f.warm))
		}, false, nil, "", true, mover.ErrCorrupt},
		{"the task is another worker's", nil, false, map[string]error{"confirm": mover.ErrHeld}, "", true, mover.ErrHeld},
		{"a pod has it mounted", nil, false, map[string]error{"unseal": mover.ErrHeld}, "unseal", true, mover.ErrHeld},
		{"it is gone already", func(t *testing.T, f fixture) { must.Do(t, os.RemoveAll(filepath.Join(f.hot, "sets"))) }, false, nil, "unseal", false, nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			f, a := replicas(t), &agent{refuses: row.refuses}
			if row.change != nil {
				row.change(t, f)
			}
			_, err := (Release{}).Run(t.Context(), f.job(t, a, &pb.TaskSpec{
				Kind: pb.TaskKind_TASK_KIND_RELEASE, Source: "warm:sets/a", Target: "hot:sets/a", Options: &pb.Options{Checksum: row.checksum},
			}))
			if got := strings.Join(a.asked, " "); !errors.Is(err, row.err) || got != row.asked {
				t.Errorf("%v; it asked: %s", err, got)
			}
			if got := there(t, f.hot); len(got) != map[bool]int{true: 2}[row.stays] {
				t.Errorf("there is %v", got)
			}
		})
	}
}

// TestStage: what was staged is sealed, and read to compare it with the manifest, unless the agent reads it; a folder of a user is neither.
func TestStage(t *testing.T) {
	for _, row := range []struct {
		what    string
		dataset string
		itself  bool
		refuses map[string]error
		asked   string
		err     error
	}{
		{"a replica", "a", false, nil, "seal describe", nil},
		{"a replica that the agent describes", "a", true, nil, "seal", nil},
		{"a replica that is not the dataset", "a", false, map[string]error{"describe": mover.ErrCorrupt}, "seal describe", mover.ErrCorrupt},
		{"a replica that can not be sealed", "a", false, map[string]error{"seal": mover.ErrTransient}, "seal", mover.ErrTransient},
		{"a folder of a user", "", false, nil, "", nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			f, a := replicas(t), &agent{refuses: row.refuses, itself: row.itself}
			must.Do(t, os.WriteFile(filepath.Join(f.warm, "sets/a/new"), []byte("new"), 0o600))
			_, err := (Stage{}).Run(t.Context(), f.job(t, a, &pb.TaskSpec{
				Kind: pb.TaskKind_TASK_KIND_STAGE, Source: "warm:sets/a", Target: "hot:sets/a", Staging: &pb.Staging{Dataset: row.dataset},
			}))
			if got := strings.Join(a.asked, " "); !errors.Is(err, row.err) || got != row.asked {
				t.Errorf("%v; it asked: %s", err, got)
			}
			if got := there(t, f.hot); len(got) != 3 {
				t.Errorf("there is %v", got)
			}
		})
	}
}
