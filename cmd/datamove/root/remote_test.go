package root

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/task/convert"
	"datamove.dev/test/must"
)

// reportOf is the report of a task that has moved two files, and failed in some.
func reportOf(kinds []error) *pb.Report {
	r := engine.Report{Files: 2, Bytes: 3 << 20, Kept: 1, Levels: map[mover.Level]int64{mover.Server: 2}, Elapsed: 2 * time.Second,
		Notes: []string{"owners are not kept: not root"}, Failed: int64(len(kinds))}
	for i, kind := range kinds {
		name := fmt.Sprintf("f%d", i)
		r.Failures = append(r.Failures, engine.Item{Name: name, Op: plan.Create, Kind: mover.File, Err: &mover.Error{Op: "create", Location: "/b", Name: name, Err: kind}})
	}
	return convert.Report(r)
}

func TestCopyThere(t *testing.T) {
	s := newFake(t)
	s.ends(isDone)
	u := newSession(t, s)
	out, said := u.wants(0, "copy", "/a", "archive:b")
	has(t, "copy", out, "copied 2 files, 3.00 MiB in 2.00s, 1.50 MiB/s\n  checked: 2 server\n  also: 1 already there\n  note: owners are not kept: not root\n")
	has(t, "copy", said, "datamove: copy: task task0000000000000001\n")
	if out, said := u.wants(0, "copy", "-q", "/a", "archive:b"); out+said != "" {
		t.Errorf("quiet: %s%s", out, said)
	}

	out, _ = u.wants(0, "copy", "-o", "json", "/a", "archive:b")
	var v reportJSON
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Schema != "datamove.report/v1" || v.Task != "task0000000000000003" || v.Files != 2 || v.Source != "/a" || v.Target != "archive:b" {
		t.Errorf("%+v, %v", v, err)
	}
	out, _ = u.wants(0, "copy", "-o", "yaml", "/a", "archive:b")
	has(t, "yaml", out, "schema: datamove.report/v1\n", "task: task0000000000000004\n")
	if out, _ := u.wants(0, "copy", "-o", "name", "/a", "archive:b"); out != "" {
		t.Errorf("single items are not sent, but: %s", out)
	}
	if out, _ := u.wants(0, "copy", "-o", "jsonl", "/a", "archive:b"); strings.Count(out, "\n") != 1 {
		t.Errorf("jsonl: %s", out)
	}
	if len(s.keys) != 6 || s.keys[0] == "" || s.keys[0] == s.keys[1] {
		t.Errorf("keys %q", s.keys)
	}
}

// TestSpec shows what a command line asks of the service.
func TestSpec(t *testing.T) {
	s := newFake(t)
	s.ends(isDone)
	u := newSession(t, s)
	wd := must.Get(os.Getwd())(t)
	list := filepath.Join(t.TempDir(), "list")
	must.Do(t, os.WriteFile(list, []byte("a/b\n\nc d\n"), 0o600))
	s.answers["ListTiers"] = &pb.ListTiersResponse{Tiers: []*pb.Tier{{Name: "archive", Location: "s3://bkt/team"}}}
	for _, row := range []struct{ args, want string }{
		{"copy a archive:b/", `{"kind":"TASK_KIND_COPY","source":"WD/a","target":"archive:b/","options":{}}`},
		{"copy dataset:imagenet /x", `{"kind":"TASK_KIND_COPY","source":"dataset:imagenet","target":"/x","options":{}}`},
		{"copy --into /d a ./b s3://bkt/c", `{"kind":"TASK_KIND_COPY","target":"/d","sources":["WD/a","WD/b","s3://bkt/c"],"options":{}}`},
		{"copy --again --checksum --verify read --jobs 3 --bwlimit 1k --memory 32MiB --full fail --reflink never --preserve mode,mtime /a /b",
			`{"kind":"TASK_KIND_COPY","source":"/a","target":"/b","options":{"again":true,"checksum":true,"verify":"LEVEL_READ","preserve":["mode","mtime"],` +
				`"jobs":3,"bytesPerSecond":"1024","memoryBytes":"33554432","failWhenFull":true,"noReflink":true}}`},
		{"copy --project vision --class restore --node n17 --label run=7 --label x= /a /b",
			`{"kind":"TASK_KIND_COPY","source":"/a","target":"/b","options":{},"class":"TASK_CLASS_RESTORE","project":"vision","node":"n17","labels":{"run":"7","x":""}}`},
		{"copy --exclude *.tmp --include *.go --files-from LIST /a /b",
			`{"kind":"TASK_KIND_COPY","source":"/a","target":"/b","options":{"rules":[{"exclude":true,"pattern":"*.tmp"},{"pattern":"*.go"}],"names":["a/b","c d"]}}`},
		{"sync --delete --max-delete 5% --backup-dir /old /a /b",
			`{"kind":"TASK_KIND_SYNC","source":"/a","target":"/b","options":{"removeExtra":true,"maxDelete":{"percent":5},"backupDir":"/old"}}`},
		{"sync --size-only /a /b", `{"kind":"TASK_KIND_SYNC","source":"/a","target":"/b","options":{"sizeOnly":true}}`},
		{"sync --delete-before /a /b", `{"kind":"TASK_KIND_SYNC","source":"/a","target":"/b","options":{"removeExtra":true,"removeFirst":true}}`},
		{"sync --backup-dir old /a archive:b", `{"kind":"TASK_KIND_SYNC","source":"/a","target":"archive:b","options":{"backupDir":"team/old"}}`},
		{"verify /a archive:b", `{"kind":"TASK_KIND_VERIFY","source":"/a","target":"archive:b","options":{}}`},
		{"rm -r --yes --max-delete 7 elsewhere:x", `{"kind":"TASK_KIND_REMOVE","target":"elsewhere:x","options":{"maxDelete":{"entries":"7"}}}`},
	} {
		args := strings.Fields(strings.ReplaceAll(row.args, "LIST", list))
		u.wants(0, args...)
		got := last[*pb.SubmitTaskRequest](t, s, "SubmitTask").GetSpec()
		want := &pb.TaskSpec{}
		must.Do(t, protojson.Unmarshal([]byte(strings.ReplaceAll(row.want, "WD", wd)), want))
		if !proto.Equal(got, want) {
			t.Errorf("%s:\n%v\nwant\n%v", row.args, got, want)
		}
	}

	u.env["SLURM_JOB_ID"] = "4711"
	u.wants(0, "copy", "/a", "/b")
	if got := last[*pb.SubmitTaskRequest](t, s, "SubmitTask").GetSpec().GetLabels(); got["slurm_job"] != "4711" {
		t.Errorf("in a Slurm job: %v", got)
	}
}

// TestNotForAService names what a service can not be asked for.
func TestNotForAService(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	dir := t.TempDir()
	many, none, long, endless := filepath.Join(dir, "many"), filepath.Join(dir, "none"), filepath.Join(dir, "long"), filepath.Join(dir, "endless")
	must.Do(t, errors.Join(os.WriteFile(many, []byte(strings.Repeat("x\n", 100_001)), 0o600), os.WriteFile(none, []byte("\n\n"), 0o600),
		os.WriteFile(long, []byte(strings.Repeat("a/rather/long/name/of/a/file/that/is/copied\n", 80_000)), 0o600), os.WriteFile(endless, make([]byte, 16<<20+1), 0o600)))
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"copy", "--files-from", many, "/a", "/b"}, "100001 names in a list; a service takes 100000"},
		{[]string{"copy", "--files-from", long, "/a", "/b"}, "a task of 3.43 MiB (80,000 names, 0 patterns); a service takes at most 896 KiB in one\ntry: several lists, one after the other, or --service none"},
		{[]string{"copy", "--files-from", endless, "/a", "/b"}, "a list of more than 16.0 MiB; a service takes at most 896 KiB in one task\ntry: several lists, one after the other"},
		{[]string{"sync", "--delete", "--files-from", none, "/a", "/b"}, "has no names"},
		{[]string{"copy", "/a\xff", "/b"}, "a service takes only names, patterns and paths that are UTF-8"},
		{[]string{"copy", "--exclude", "\xff*", "/a", "/b"}, "that are UTF-8"},
		{[]string{"copy", "--detach", "--dry-run", "/a", "/b"}, "--detach and --dry-run exclude each other"},
		{[]string{"verify", "--detach", "--manifest", "m", "/b"}, "--detach and --manifest exclude each other"},
		{[]string{"sync", "--backup-dir", "s3://other/old", "/a", "s3://bkt/b"}, "must be a prefix in the bucket of the target"},
		{[]string{"rm", "--yes", "elsewhere:x"}, "whether elsewhere:x is a folder can not be seen from here"},
		{[]string{"rm", "--yes", "dataset:x"}, "dataset:x is a dataset, which is on tiers"},
		{[]string{"copy", "--label", "x", "/a", "/b"}, "want KEY=VALUE"},
		{[]string{"copy", "--class", "first", "/a", "/b"}, "must be one of restore, checkpoint"},
	} {
		_, said := u.wants(cli.ExitUsage, row.args...)
		has(t, strings.Join(row.args, " "), said, row.want)
	}
	if len(s.asked["SubmitTask"]) > 0 {
		t.Errorf("submitted: %v", s.asked["SubmitTask"])
	}
	must.Do(t, os.WriteFile(many, []byte(strings.Repeat("a/name\n", 100_000)), 0o600))
	u.wants(0, "copy", "--detach", "--files-from", many, "/a", "/b")
	if got := len(last[*pb.SubmitTaskRequest](t, s, "SubmitTask").GetSpec().GetOptions().GetNames()); got != 100_000 {
		t.Errorf("%d names", got)
	}
	_, said := newSession(t, nil).wants(cli.ExitOther, "copy", "dataset:x", "/b")
	has(t, "a dataset, and no service", said, "try: --service ADDRESS, of the service that knows it\n")
	_, said = newSession(t, nil).wants(cli.ExitUsage, "copy", "--project", "vision", "/a", "/b")
	has(t, "no service", said, "--project: no service configured")
}

// TestDoneHere shows what this process does although there is a service.
func TestDoneHere(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	out, said := u.wants(0, "copy", "-n", dir, filepath.Join(t.TempDir(), "to"))
	has(t, "dry run", out, "would copy: 1 file to move")
	has(t, "dry run", said, "with --dry-run this process does it, and not the service")
	manifest := filepath.Join(t.TempDir(), "m")
	u.wants(0, "verify", "--write-manifest", manifest, dir)
	_, said = u.wants(0, "verify", "--manifest", manifest, dir)
	has(t, "manifest", said, "with --manifest this process does it")
	u.wants(0, "copy", "--service", "none", dir, filepath.Join(t.TempDir(), "to"))
	u.wants(0, "copy", "--service=", dir, filepath.Join(t.TempDir(), "to"))
	u.env["DATAMOVE_SERVICE"] = "none"
	u.wants(0, "copy", dir, filepath.Join(t.TempDir(), "to"))
	u.wants(0, "ls", "-q", dir)
	if len(s.asked) > 0 {
		t.Errorf("asked: %v", s.asked)
	}
}

// TestEnds compares the ends of tasks with those of commands that work by themselves.
func TestEnds(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	failed := func(code int32, text string, kinds ...error) func(*pb.Task) {
		return func(t *pb.Task) {
			t.State, t.ExitCode, t.Error = pb.TaskState_TASK_STATE_FAILED, code, text
			if kinds != nil {
				t.Report = reportOf(kinds)
			}
		}
	}
	for _, row := range []struct {
		end  func(*pb.Task)
		code int
		want []string
	}{
		{isDone, 0, nil},
		{failed(3, "open /a: file does not exist"), 3, []string{"datamove: copy: open /a: file does not exist\n", "try: the spelling, with datamove ls"}},
		{failed(5, "lock /b: held by another run"), 5, []string{"datamove: copy: lock /b: held by another run\n", "try: datamove task show task"}},
		{failed(0, ""), 1, []string{"has failed\n"}},
		{failed(256, "x"), 1, nil},
		{failed(-1, "x"), 1, nil},
		{failed(6, "1 items failed", mover.ErrNotExist), 6, []string{"datamove: copy: create /b/f0: file does not exist\ndatamove: copy: 1 item failed\n"}},
		{failed(4, "x", mover.ErrNotExist, mover.ErrPermission), 4, []string{"datamove: copy: 2 items failed\ntry: as a user who may read the source"}},
		{failed(9, "x", mover.ErrCorrupt), 9, []string{"create /b/f0: checksum mismatch", "try: datamove copy --checksum"}},
		{failed(1, "\x1b[2Jgone\nnext"), 1, []string{"datamove: copy: \uFFFD[2Jgone\ndatamove: copy: next\n"}},
		{func(t *pb.Task) { t.State, t.ExitCode = pb.TaskState_TASK_STATE_CANCELLED, 130 }, 130, []string{"datamove: copy: task task", "is cancelled\n", "try: the same command again"}},
		{func(t *pb.Task) {
			t.State, t.ExitCode, t.Why = pb.TaskState_TASK_STATE_CANCELLED, 130, "cancelled by root"
		}, 130, []string{"is cancelled by root\n"}},
	} {
		s.ends(row.end)
		_, said := u.wants(row.code, "copy", "/a", "/b")
		has(t, fmt.Sprint(row.code), said, row.want...)
	}

	s.ends(failed(9, "1 items failed", mover.ErrCorrupt))
	out, said := u.wants(9, "verify", "-o", "jsonl", "/a", "/b")
	has(t, "verify", said, "1 item differs or could not be read\n")
	lines := strings.Split(out, "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"schema":"datamove.item/v1","name":"f0","op":"create","kind":"file","bytes":0,"error":"create /b/f0: checksum mismatch","exit":9}`) ||
		!strings.HasPrefix(lines[1], `{"schema":"datamove.report/v1","command":"verify","task":"task`) || !strings.Contains(lines[1], `"exit":9,`) {
		t.Errorf("jsonl:\n%s", out)
	}
}

// TestLive shows what a person is told while the task goes on.
func TestLive(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	step := func(id string, with func(*pb.Task)) func() { return func() { s.change(id, with) } }
	s.accept = func(task *pb.Task) {
		id := task.GetId()
		steps := []func(){
			step(id, func(t *pb.Task) { t.Why = "no agent reaches /a" }),
			step(id, func(t *pb.Task) {
				t.State, t.Why = pb.TaskState_TASK_STATE_RUNNING, "no room\x1b[31m"
				t.Phase = "paused"
			}),
			step(id, func(t *pb.Task) { t.State, t.Why = pb.TaskState_TASK_STATE_PAUSED, "paused by bob" }),
			step(id, isDone),
		}
		wait := []string{"task " + id, "queued: no agent reaches /a\n", "paused: no room\uFFFD[31m\n", "paused: paused by bob\n"}
		go func() {
			for i, do := range steps {
				u.err.wait(t.Context(), wait[i])
				do()
			}
		}()
	}
	u.wants(0, "copy", "/a", "/b")
}

// TestRestart waits over a restart of the service.
func TestRestart(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	var wg sync.WaitGroup
	s.accept = func(task *pb.Task) {
		wg.Go(func() {
			u.err.wait(t.Context(), "task "+task.GetId())
			s.kill()
			s.serve(t)
			s.change(task.GetId(), isDone)
		})
	}
	out, _ := u.wants(0, "copy", "/a", "/b")
	has(t, "copy", out, "copied 2 files")
	wg.Wait()
	if len(s.tasks) != 1 {
		t.Errorf("there are %d tasks", len(s.tasks))
	}
}

// TestInterruptThere is ^C while a command waits: the task is cancelled.
func TestInterruptThere(t *testing.T) {
	for _, row := range []struct {
		name   string
		cancel func(*pb.Task) // what the service makes of it
		err    error
		code   int
		want   string
	}{
		{"cancelled", nil, nil, 130, "datamove: copy: task task0000000000000001 is cancelled; what is done stays\ndatamove: copy: interrupted\ntry: the same command again"},
		{"done meanwhile", isDone, nil, 0, ""},
		{"done a moment before", isDone, mover.ErrConflict, 0, ""},
		{"refused", func(*pb.Task) {}, fmt.Errorf("not yours: %w", mover.ErrPermission), 130, "task task0000000000000001 is not cancelled, and may go on: not yours: permission denied; datamove task cancel task0000000000000001 ends it\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newFake(t)
			s.cancel, s.refuse = row.cancel, row.err
			u := newSession(t, s)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			u.ctx = ctx
			s.accept = func(task *pb.Task) {
				go func() {
					u.err.wait(t.Context(), "task "+task.GetId())
					stop()
				}()
			}
			_, said := u.wants(row.code, "copy", "/a", "/b")
			has(t, row.name, said, row.want)
		})
	}
}

// TestInterruptedBegin is ^C while the service answers to the submission: the key finds
// the task, so that it can be cancelled.
func TestInterruptedBegin(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	u.ctx = ctx
	var first sync.Once
	s.hang = func(call context.Context) { first.Do(func() { stop(); <-call.Done() }) }
	_, said := u.wants(130, "copy", "/a", "/b")
	has(t, "^C", said, "task task0000000000000001 is cancelled")
	if len(s.tasks) != 1 || s.tasks[0].GetState() != pb.TaskState_TASK_STATE_CANCELLED {
		t.Errorf("tasks: %v", s.tasks)
	}
}

func TestDetach(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	if out, said := u.wants(0, "copy", "--detach", "/a", "/b"); out != "task0000000000000001\n" || said != "" {
		t.Errorf("%q, %q", out, said)
	}
	if out, _ := u.wants(0, "sync", "--detach", "-o", "name", "/a", "/b"); out != "task0000000000000002\n" {
		t.Errorf("%q", out)
	}
	out, _ := u.wants(0, "rm", "--detach", "-r", "--yes", "-o", "json", "elsewhere:b")
	has(t, "json", out, `"schema": "datamove.task/v1"`, `"id": "task0000000000000003"`, `"command": "rm"`, `"state": "queued"`)
}

// TestRemoveThere counts here what can be counted, and removes there.
func TestRemoveThere(t *testing.T) {
	s := newFake(t)
	s.ends(isDone)
	u := newSession(t, s)
	dir := filepath.Join(t.TempDir(), "d")
	must.Do(t, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600), os.Symlink("d", dir+"-link")))
	u.wants(cli.ExitUsage, "rm", "--yes", dir)
	u.wants(cli.ExitLimit, "rm", "-r", "--yes", "--max-delete", "0", dir)
	u.wants(cli.ExitNotExist, "rm", "-r", "--yes", dir+"-no")
	u.wants(cli.ExitLimit, "rm", "-r", "--yes", "elsewhere:")
	u.wants(cli.ExitUsage, "rm", "-r", dir) // there is no terminal to ask on
	if len(s.tasks) > 0 {
		t.Fatalf("submitted: %v", s.tasks)
	}
	u.wants(0, "rm", "-r", "--yes", dir)
	spec := last[*pb.SubmitTaskRequest](t, s, "SubmitTask").GetSpec()
	if spec.GetKind() != pb.TaskKind_TASK_KIND_REMOVE || spec.GetTarget() != dir || spec.GetOptions().GetMaxDelete().GetEntries() != 1 {
		t.Errorf("%v", spec)
	}
	u.wants(0, "rm", "-r", "--yes", "--node", "n9", "/not/on/this/node")
	u.wants(0, "rm", "--yes", dir+"-link")
	if _, err := os.Lstat(dir + "-link"); err == nil || len(s.tasks) != 2 {
		t.Errorf("the link: %v, %d tasks", err, len(s.tasks))
	}
}
