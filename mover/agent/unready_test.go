package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/sandbox"
	"datamove.dev/mover/config"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/server/osaccount"
	"datamove.dev/test/must"
)

// TestUnreadySaysWhatToMend: a task that can not begin on a node ends with the name of the node, and with the remedy of the step that failed.
func TestUnreadySaysWhatToMend(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	killed := filepath.Join(dir, "killed")
	must.Do(t, os.WriteFile(killed, []byte("#!/bin/sh\nkill -9 $$\n"), 0o755))
	conf := &config.Config{Tiers: map[string]config.Tier{
		"cold": {Level: "cold", S3: &config.S3{Endpoint: "http://127.0.0.1:1", Bucket: "abc", Credentials: "file:" + file + "-none"}},
		"aws":  {Level: "cold", S3: &config.S3{Endpoint: "http://127.0.0.1:1", Bucket: "abc", Credentials: "profile:none"}},
	}}
	t.Setenv("AWS_CONFIG_FILE", file)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	self := &pb.Account{Uid: uint32(os.Geteuid())}
	stranger := &pb.Account{Name: "alice", Uid: 54399}
	strange := remedy.Unprivileged
	if os.Geteuid() == 0 {
		strange = remedy.Account
	}
	for _, row := range []struct {
		name     string
		owner    *pb.Account
		journals string
		target   string
		program  string
		kind     error // nil is any
		cause    string
		mention  string
	}{
		{"an owner of whom the node knows nothing", stranger, "", dir, "", mover.ErrPermission, strange, "alice"},
		{"journals where no directory can be", self, file + "/below", dir, "", nil, remedy.Journals, file},
		{"a tier that the node has not", self, "", "warm:x", "", mover.ErrNotExist, remedy.Tier, "warm:x"},
		{"keys of a tier that are not there", self, "", "cold:x", "", mover.ErrNotExist, remedy.KeyFile, file + "-none"},
		{"a profile of a tier that is not there", self, "", "aws:x", "", mover.ErrUsage, remedy.NoProfile, "profile none"},
		{"no program", self, "", dir, file + "-none", mover.ErrNotExist, remedy.Program, file + "-none"},
		{"a program that can not be executed", self, "", dir, file, mover.ErrPermission, remedy.Program, file},
		{"a program that ends at once", self, "", dir, "/bin/true", nil, remedy.Worker, "ended before it was ready"},
		{"a program that is killed", self, "", dir, killed, mover.ErrTransient, "", "ended before it was ready"},
	} {
		t.Run(row.name, func(t *testing.T) {
			conf.Agent.Journals = row.journals
			a := must.Get(New(Options{
				Name: "n1", Coordinator: &grpc.ClientConn{}, Data: t.TempDir(), Program: []string{row.program}, Accounts: osaccount.In(dir),
				Config: func() *config.Config { return conf },
			}))(t)
			spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: dir, Target: row.target}
			task := &pb.Task{Id: "t", Spec: spec, Owner: row.owner}
			err := a.start(t.Context(), newProcess(a, task, a.job("t", spec, nil)))
			if err == nil || row.kind != nil && !errors.Is(err, row.kind) {
				t.Fatalf("%v", err)
			}
			got := unbegun(&agentv1.Lead{Task: task, Spec: spec}, err)
			if got.GetPutBack() != (row.cause == "") {
				t.Errorf("%v: it is put back %v", err, got.GetPutBack())
			}
			if row.cause == "" {
				return
			}
			if want := remedy.For(remedy.Case{Kind: row.kind, Cause: row.cause}); got.GetReport().GetRemedy() != want || want == "" {
				t.Errorf("%v: try %q, want %q", err, got.GetReport().GetRemedy(), want)
			}
			for _, part := range []string{"begin on node n1: ", row.mention} {
				if !strings.Contains(got.GetError(), part) || strings.Count(got.GetError(), "on node") != 1 {
					t.Errorf("%q is not once in: %s", part, got.GetError())
				}
			}
		})
	}
}

// TestStartCause: no program, no room for one and a worker that refuses its terms are told apart.
func TestStartCause(t *testing.T) {
	exec := func(err error) error {
		return &mover.Error{Op: "act as", Err: &fs.PathError{Op: "fork/exec", Path: "/p", Err: err}}
	}
	for _, row := range []struct {
		err  error
		want string
	}{
		{exec(unix.EACCES), remedy.Program}, {exec(unix.ENOEXEC), remedy.Program}, {exec(unix.EAGAIN), remedy.Crowded}, {exec(unix.ENOMEM), remedy.Crowded},
		{&mover.Error{Op: "act as", Err: sandbox.Refusal{}}, remedy.Confined}, {mover.ErrTimeout, remedy.Worker},
		{&mover.Error{Op: "act as", Err: errors.Join(&sandbox.Unanswered{Path: "/dead"}, mover.ErrTimeout)}, remedy.DeadMount},
	} {
		if got := startCause(row.err); got != row.want {
			t.Errorf("%v: %s, want %s", row.err, got, row.want)
		}
	}
}

// TestUnreadyWaits: what only lets a task wait has no remedy, because with a report it would count as begun.
func TestUnreadyWaits(t *testing.T) {
	a := &Agent{o: Options{Name: "n1"}}
	_, unseen := osaccount.New().Lookup(t.Context(), "", 54399)
	for _, err := range []error{unseen, errLeaving, mover.ErrTransient} {
		l := &agentv1.Lead{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY}}
		if got := unbegun(l, a.unready(remedy.Account, err)); !got.GetPutBack() || got.Report != nil {
			t.Errorf("%v: %v", err, got)
		}
	}
}
