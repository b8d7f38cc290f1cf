package root

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// TestQuietWhenDone: with --quiet a command of which all went well prints no sentence about it, on either stream; without it there is one. What went wrong, and a
// form that a program reads, is printed in any case.
func TestQuietWhenDone(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(file, []byte("tiers:\n  project: {level: warm, path: /lustre}\n"), 0o600))
	scan := s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SCAN, Source: "project:"}, "")
	s.change(scan.GetId(), func(t *pb.Task) { isDone(t); t.Report = &pb.Report{Notes: []string{"2 files of 3 B in 1 folder"}} })
	for method, answer := range map[string]proto.Message{
		"Reload":   &pb.ReloadResponse{Changed: []string{"limits"}},
		"ScanTier": &pb.ScanTierResponse{Tasks: []*pb.Task{scan}},
		"RunPlan":  &pb.Run{Id: "run1", Policy: "old", State: pb.RunState_RUN_STATE_DONE},
		"UndoRun":  &pb.Run{Id: "run1", Policy: "old", State: pb.RunState_RUN_STATE_UNDONE},
	} {
		s.answers[method] = answer
	}
	for args, want := range map[string]string{
		"service reload":         "changed limits",
		"tier scan project":      "project: 2 files of 3 B in 1 folder",
		"policy run --plan run1": "run run1 of old is done",
		"policy undo run1":       "run run1 of old is undone",
		"config check " + file:   "is fine: 1 tier",
	} {
		if out, _ := u.wants(0, strings.Fields(args)...); !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q", args, out, want)
		}
		if out, said := u.wants(0, append(strings.Fields(args), "-q")...); out != "" || said != "" {
			t.Errorf("%s -q: %q, %q", args, out, said)
		}
	}
	if out, _ := u.wants(0, "service", "reload", "-q", "-o", "json"); !strings.Contains(out, `"limits"`) {
		t.Errorf("JSON: %q", out)
	}
	s.answers["RunPlan"] = &pb.Run{Id: "run1", Policy: "old", State: pb.RunState_RUN_STATE_DONE, Failed: 2, Error: "list x: permission denied"}
	if out, said := u.wants(6, "policy", "run", "-q", "--plan", "run1"); !strings.Contains(out, "2 failed\n  failed: list x: permission denied\n") || !strings.Contains(said, "2 items failed") {
		t.Errorf("a run with failures: %q, %q", out, said)
	}
}
