package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
)

// TestStandingTakesNoSlot: a task that goes on until it is cancelled waits most of the time, and takes no place from those that move something.
func TestStandingTakesNoSlot(t *testing.T) {
	a := &Agent{o: Options{LeadSlots: 2}, log: slog.New(slog.DiscardHandler), sessions: map[sessionKey]*session{}}
	for _, row := range []struct {
		task string
		kind pb.TaskKind
		free int32
	}{
		{"a", pb.TaskKind_TASK_KIND_FOLLOW, 2}, {"b", pb.TaskKind_TASK_KIND_CHECKPOINTS, 2}, {"c", pb.TaskKind_TASK_KIND_COPY, 1}, {"d", pb.TaskKind_TASK_KIND_SCAN, 0},
	} {
		s := sessionOf(&agentv1.Lead{Spec: &pb.TaskSpec{Kind: row.kind}, Epoch: 1})
		if !a.add(sessionKey{row.task, ""}, s) {
			t.Fatal("it is not taken")
		}
		if got := a.status(1).GetLeadSlots(); got != row.free {
			t.Errorf("after %v: %d free, want %d", row.kind, got, row.free)
		}
	}
}

// TestLacks: tiers of the coordinator that the configuration of a node does not know are told in its log; of those that it knows, the log has said why they are not here.
func TestLacks(t *testing.T) {
	var log bytes.Buffer
	a := &Agent{o: Options{Config: func() *config.Config { return &config.Config{Tiers: map[string]config.Tier{"warm": {}}} }}, log: slog.New(slog.NewTextHandler(&log, nil))}
	a.order(t.Context(), &agentv1.Order{What: &agentv1.Order_Lacks{Lacks: &agentv1.Lacks{Tiers: []string{"warm"}}}})
	if log.Len() > 0 {
		t.Errorf("%s", log.String())
	}
	a.order(t.Context(), &agentv1.Order{What: &agentv1.Order_Lacks{Lacks: &agentv1.Lacks{Tiers: []string{"cold", "hot", "warm"}}}})
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), `tiers="cold hot"`) {
		t.Errorf("%s", log.String())
	}
}
