package root

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestTaskErrors(t *testing.T) {
	s, u := furnished(t)
	for _, row := range []struct {
		args string
		code int
		want string
	}{
		{"task show none", cli.ExitNotExist, "datamove: task: show: find task/none: file does not exist\ntry: datamove task list --all\n"},
		{"task watch none", cli.ExitNotExist, "find task/none: file does not exist"},
		{"task wait task0000000000000001 none", cli.ExitNotExist, "find task/none: file does not exist"}, // before it waits
		{"task why none", 0, ""},
		{"task cancel none", cli.ExitNotExist, "find task/none"},
		{"task pause", cli.ExitUsage, "want the id of a task, or several; datamove task list has them\n"},
	} {
		_, said := u.wants(row.code, strings.Fields(row.args)...)
		has(t, row.args, said, row.want)
	}
	s.errs["PauseTask"] = fmt.Errorf("pause: %w", mover.ErrPermission)
	_, said := u.wants(cli.ExitPermission, "task", "pause", "task0000000000000001")
	has(t, "denied", said, "try: datamove service info, which shows your account at the service")

	// One that can not be changed keeps no other from it.
	out, said := u.wants(cli.ExitNotExist, "task", "cancel", "none", "task0000000000000001")
	has(t, "cancel", out, "task0000000000000001  cancelled")
	has(t, "cancel", said, "find task/none")
}

// TestWait ends as tasks do, the gravest first.
func TestWait(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	end := func(state pb.TaskState, code int32, kinds ...error) string {
		task := s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/a", Target: "/b"}, "")
		s.change(task.GetId(), func(t *pb.Task) {
			t.State, t.ExitCode, t.Report = state, code, reportOf(kinds)
			if code != 0 {
				t.Error = fmt.Sprintf("it ended with %d", code)
			}
		})
		return task.GetId()
	}
	failed := pb.TaskState_TASK_STATE_FAILED
	fine, partly, full, corrupt, gone := end(pb.TaskState_TASK_STATE_DONE, 0), end(failed, 6, mover.ErrNotExist), end(failed, 7), end(failed, 9, mover.ErrCorrupt), end(failed, 3)
	over := end(pb.TaskState_TASK_STATE_CANCELLED, 130)
	for _, row := range []struct {
		ids  []string
		code int
	}{
		{[]string{fine}, 0}, {[]string{partly}, 6}, {[]string{full}, 7}, {[]string{corrupt}, 9}, {[]string{gone}, 3}, {[]string{over}, 130},
		{[]string{fine, partly, gone}, 6}, {[]string{partly, full}, 7}, {[]string{corrupt, full}, 9},
	} {
		out, said := u.wants(row.code, append([]string{"task", "wait"}, row.ids...)...)
		for _, id := range row.ids {
			has(t, "table", out, id)
			if id != fine {
				has(t, "error", said, "datamove: task: wait: task "+id+": ")
			}
		}
	}
	_, said := u.wants(6, "task", "wait", partly)
	has(t, "wait", said, "task "+partly+": 1 item failed\ntry: datamove task show "+partly+"\n")
	out, _ := u.wants(9, "task", "wait", "-o", "json", fine, corrupt)
	var v []taskJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil || len(v) != 2 || *v[1].Exit != 9 || v[1].Report.Failures[0].Exit != 9 {
		t.Errorf("%+v, %v", v, err)
	}

	running := s.begin(&pb.TaskSpec{}, "").GetId()
	_, said = u.wants(cli.ExitTimeout, "task", "wait", "--timeout", "1ms", running)
	has(t, "timeout", said, "wait for task "+running+": timed out: it has not ended, and goes on\n")
	u.wants(cli.ExitUsage, "task", "wait", "--timeout", "soon", running)

	// ^C ends the waiting, and not the task.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	u.ctx = ctx
	u.wants(cli.ExitInterrupted, "task", "wait", running)
	if len(s.asked["CancelTask"]) > 0 {
		t.Error("it was cancelled")
	}
}

// TestWatch follows a task, line by line.
func TestWatch(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	id := s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/a", Target: "/b"}, "").GetId()
	steps := []func(*pb.Task){
		func(t *pb.Task) {
			t.State, t.Phase, t.Progress = pb.TaskState_TASK_STATE_RUNNING, "moving", &pb.Progress{FilesDone: 1, BytesDone: 1 << 20, Planned: &pb.Totals{Files: 2, Bytes: 3 << 20}}
		},
		isDone,
	}
	go func() {
		for i, part := range []string{"queued", "running, moving"} {
			u.err.wait(t.Context(), part)
			s.change(id, steps[i])
		}
	}()
	// What is watched comes to stdout; here that is where the test waits.
	a := cli.App{In: strings.NewReader(""), Out: u.err, Err: u.err, Env: func(key string) string { return u.env[key] }}
	must.Do(t, execute(t.Context(), &a, []string{"task", "watch", id}))
	lines := strings.Split(u.err.String(), "\n")
	if len(lines) < 4 || !strings.HasSuffix(lines[0], "  queued") || !strings.HasSuffix(lines[1], "  running, moving  1/2+ files  1.00 MiB/3.00 MiB+  0 B/s") ||
		lines[2] != id+"  done (exit 0)" || !strings.HasPrefix(lines[3], "copied 2 files") {
		t.Errorf("%s", u.err.String())
	}
	out, _ := u.wants(0, "task", "watch", "-o", "jsonl", id)
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, `"state":"done"`) {
		t.Errorf("%s", out)
	}
}

func TestShowTheEnd(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	id := s.begin(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: "/a", Target: "/b", Options: &pb.Options{
		RemoveExtra: true, Names: []string{"x", "y"}, Rules: []*pb.Rule{{Exclude: true, Pattern: "*.tmp"}}, MaxDelete: &pb.MaxDelete{Bound: &pb.MaxDelete_Percent{Percent: 5}}}}, "").GetId()
	s.change(id, func(t *pb.Task) {
		t.State, t.ExitCode, t.Error, t.Report = pb.TaskState_TASK_STATE_FAILED, 6, "1 items failed", reportOf([]error{mover.ErrNotExist})
	})
	out, _ := u.wants(0, "task", "show", id)
	has(t, "show", out, "state     failed (exit 6)\n", "error     1 items failed\n", "synchronised 2 files, 3.00 MiB in 2.00s", "  failed: create /b/f0: file does not exist\n")
	out, _ = u.wants(0, "task", "show", "-o", "json", id)
	var v taskJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil || *v.Exit != 6 || v.Report.Exit != 6 {
		t.Errorf("%+v, %v", v, err)
	}
	out, _ = u.wants(0, "task", "show", "-o", "json", id, id)
	var both []taskJSON
	if err := json.Unmarshal([]byte(out), &both); err != nil || len(both) != 2 {
		t.Errorf("%+v, %v", both, err)
	}
}
