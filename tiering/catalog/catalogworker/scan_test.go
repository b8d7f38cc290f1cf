package catalogworker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

// agent is that of a worker. It takes walks, and refuses the first of them.
type agent struct {
	agentv1.WorkerServiceClient
	refuses []error // one after the other; nil after that
	found   *agentv1.PutWalkResponse
	walks   []*walk
	turns   int
}

func (a *agent) Turn(context.Context, *agentv1.TurnRequest, ...grpc.CallOption) (*agentv1.TurnResponse, error) {
	a.turns++
	return &agentv1.TurnResponse{}, nil
}

func (a *agent) Walk(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[agentv1.WalkRequest, agentv1.WalkResponse], error) {
	w := &walk{agent: a}
	a.walks = append(a.walks, w)
	return w, nil
}

// walk is one that is sent.
type walk struct {
	grpc.ClientStreamingClient[agentv1.WalkRequest, agentv1.WalkResponse]
	agent *agent
	data  bytes.Buffer
}

func (w *walk) Send(r *agentv1.WalkRequest) error {
	w.data.Write(r.GetData())
	return nil
}

func (w *walk) CloseAndRecv() (*agentv1.WalkResponse, error) {
	if n := len(w.agent.walks); n <= len(w.agent.refuses) {
		return nil, w.agent.refuses[n-1]
	}
	return &agentv1.WalkResponse{Found: w.agent.found}, nil
}

// names are the entries of a walk as the coordinator reads it.
func (w *walk) names(t *testing.T) (names []string) {
	t.Helper()
	for e, err := range catalog.Receive(&w.data).Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		names = append(names, e.Name)
	}
	return names
}

// TestScan: each walk that is sent is whole, also one that is sent again; it begins where its part does, and waits for its turn now and then.
func TestScan(t *testing.T) {
	dir := t.TempDir()
	all := []string{"many"}
	must.Do(t, os.MkdirAll(filepath.Join(dir, "many"), 0o700))
	for i := range walkTurn + 100 {
		all = append(all, fmt.Sprintf("many/%05d-%s", i, strings.Repeat("x", 100)))
		must.Do(t, os.WriteFile(filepath.Join(dir, all[i+1]), nil, 0o600))
	}
	for _, row := range []struct {
		what    string
		refuses []error
		after   string
		found   *agentv1.PutWalkResponse
		want    []string
		turns   int // of the last walk
		waits   time.Duration
		notes   string
		err     error
	}{
		{"at once", nil, "", &agentv1.PutWalkResponse{Files: 5100, Bytes: 3 << 20, Dirs: 1}, all, 2, 0, "5,100 files of 3.00 MiB in 1 folder", nil},
		{"what could not be read is told", nil, "", &agentv1.PutWalkResponse{Files: 1, Dirs: 2, Others: 1, Unread: 2}, all, 2, 0,
			"1 file of 0 B in 2 folders, and 1 other name|2 folders could not be read: what is known of what is in them is as old as it was", nil},
		{"the connection breaks twice", []error{mover.ErrUnreachable, mover.ErrTransient}, "", &agentv1.PutWalkResponse{}, all, 2, 400 * time.Millisecond, "0 files of 0 B in 0 folders", nil},
		{"there is no room, and then there is", []error{mover.ErrFull}, "", &agentv1.PutWalkResponse{}, all, 2, 400 * time.Millisecond, "0 files of 0 B in 0 folders", nil},
		{"a part of it", nil, all[5000], &agentv1.PutWalkResponse{}, all[5001:], 1, 0, "0 files of 0 B in 0 folders", nil},
		{"it is refused", []error{mover.ErrPermission}, "", nil, all, 2, 0, "", mover.ErrPermission},
	} {
		t.Run(row.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, begun := &agent{refuses: row.refuses, found: row.found}, time.Now()
				spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SCAN, Source: "warm:", ScanPart: &pb.ScanPart{After: []byte(row.after)}}
				j := worker.NewJob(&agentv1.Job{Spec: spec, Tiers: []*agentv1.TierAccess{{Name: "warm", Level: "warm", Path: dir}}}, a, worker.Options{})
				report, err := (Scan{}).Run(t.Context(), j)
				if !errors.Is(err, row.err) || strings.Join(report.Notes, "|") != row.notes || time.Since(begun) != row.waits {
					t.Errorf("%q, %v after %v", report.Notes, err, time.Since(begun))
				}
				if len(a.walks) != max(len(row.refuses), 1)+map[bool]int{true: 1}[len(row.refuses) > 0 && row.err == nil] || a.turns != row.turns*len(a.walks) {
					t.Errorf("%d walks in %d turns", len(a.walks), a.turns)
				}
				for i, w := range a.walks {
					if got := w.names(t); !slices.Equal(got, row.want) {
						t.Errorf("walk %d has %d names", i, len(got))
					}
				}
			})
		})
	}
}
