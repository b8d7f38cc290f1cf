package datasetworker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/test/must"
)

// TestAccessProbe: a source can be read, or it is said why not; nothing is asked of the agent.
func TestAccessProbe(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "set", "deep"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "set", "deep", "a"), []byte("a"), 0o600))
	for source, want := range map[string]error{"hot:set": nil, "hot:gone": mover.ErrNotExist, "cold:set": mover.ErrUsage} {
		order := &agentv1.Job{Spec: &pb.TaskSpec{Source: source}, Tiers: []*agentv1.TierAccess{{Name: "hot", Level: "hot", Path: dir}}}
		if _, err := (AccessProbe{}).Run(t.Context(), worker.NewJob(order, nil, worker.Options{})); !errors.Is(err, want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}
