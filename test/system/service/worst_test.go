package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	crash "datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// worst is a command: a user does what harms the service most, until its standard input ends. It says when all of it is under way.
func worst(string) int {
	if err := atWorst(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "worst:", err)
		return 1
	}
	return 0
}

func atWorst(ctx context.Context, service, source string) error {
	c, err := api.Dial(ctx, service, api.Options{})
	if err != nil {
		return err
	}
	submit := func(paused bool, class pb.TaskClass, target string, sources ...string) error {
		spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Class: class, Sources: sources, Target: target, Options: &pb.Options{BytesPerSecond: 1 << 10}}
		_, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec, Paused: paused})
		return err
	}
	for i := range 24 { // slow ones in all slots
		if err := submit(false, 0, fmt.Sprintf("shared:alice/%d", i), source); err != nil {
			return err
		}
	}
	if err := submit(false, 0, "shared:", source); err != nil { // and around everything that others write to
		return err
	}
	if err := submit(false, pb.TaskClass_TASK_CLASS_RESTORE, "shared:alice/restore", source); !errors.Is(err, mover.ErrPermission) {
		return fmt.Errorf("class restore: %w", err)
	}
	var many []string // 450 kB
	for i := range 1000 {
		many = append(many, fmt.Sprintf("shared:alice/%s%d", strings.Repeat("x", 220)+"/"+strings.Repeat("x", 210), i))
	}
	for err = nil; err == nil; { // records of paused tasks, as many as there may be
		err = submit(true, 0, "shared:alice/many", many...)
	}
	if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "quotas.users.") {
		return fmt.Errorf("many large tasks: %w", err)
	}
	if err := neverReads(ctx, service); err != nil {
		return err
	}
	var calls sync.WaitGroup
	for range 100 { // more than it may have
		calls.Go(func() {
			for told := false; ctx.Err() == nil; {
				_, err := c.ListTasks(ctx, &pb.ListTasksRequest{PageSize: 1000})
				if !told && err == nil {
					fmt.Println("a page")
					told = true
				}
			}
		})
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// neverReads asks for more than a GiB of answers on many connections, and reads none.
func neverReads(ctx context.Context, service string) error {
	for range 64 {
		conn, err := grpc.NewClient(strings.Replace(service, "unix://", "unix:", 1), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(64<<10))
		if err != nil {
			return err
		}
		defer conn.Close()
		for range 32 {
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TaskService_ListTasks_FullMethodName)
			if err == nil {
				err = errors.Join(s.SendMsg(&pb.ListTasksRequest{PageSize: 1000}), s.CloseSend())
			}
			if err != nil {
				return err
			}
			_, _ = s.Header() // the answer is on its way, or refused
		}
	}
	return nil
}

// anonymous is the memory of a process that is of no file, in bytes; 0 where the kernel does not say. What it has mapped of files, which
// differ from moment to moment, the kernel can have back.
func anonymous(pid int) (bytes int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // which is none when it has ended
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &bytes)
	}
	return bytes << 10
}

// TestWorstUser: while one user does its worst, with the quotas of the default, the task of another one is done, and the service stays below 512 MiB.
//
//safety:8 a user that takes all slots, writes around all others, fills the ledger with tasks, asks for all of it a hundred times at once, and reads no answer on 64 connections
func TestWorstUser(t *testing.T) {
	crash.Root(t)
	dir := must.Get(os.MkdirTemp("/tmp", "worst"))(t) // short enough for a socket
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	must.Do(t, os.Chmod(dir, 0o755))
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Do(t, errors.Join(os.Mkdir(at("shared"), 0o755), os.Chmod(at("shared"), 0o1777), os.WriteFile(at("source"), make([]byte, 1<<20), 0o644),
		os.WriteFile(at("config.yaml"), fmt.Appendf(nil, "tiers:\n  shared: {level: warm, path: %s}\naccounts: %s\n", at("shared"), dir), 0o644)))
	passwd := "root:x:0:0::/root:/bin/sh\n"
	for name, uid := range rig.People {
		passwd += fmt.Sprintf("%s:x:%d:%[2]d::/:/bin/sh\n", name, uid)
	}
	must.Do(t, errors.Join(os.WriteFile(at("passwd"), []byte(passwd), 0o644), os.WriteFile(at("group"), nil, 0o644)))
	service := "unix://" + at("sock")
	program := crash.NewCommand(t, "datamoved")
	program.Env = append(program.Env, "GOGC=100") // as users have it: tests run with less
	daemon := program.Start(t, "--config", at("config.yaml"), "--data", at("data"), "--node", "n1", "--listen", service)
	daemon.Until("the service is ready", func() bool { return strings.Contains(daemon.Complained(), "msg=ready") })

	var most int64
	looked := make(chan struct{})
	ended, end := context.WithCancel(t.Context())
	go func() {
		defer close(looked)
		patience.While(patience.New(nil), func() bool {
			most = max(most, anonymous(daemon.PID()))
			return ended.Err() != nil
		})
	}()

	path := must.Get(crash.Executable("worst"))(t)
	cmd := exec.Command(path, service, at("source"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: rig.People["alice"], Gid: rig.People["alice"]}}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	in := must.Get(cmd.StdinPipe())(t)
	said := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	first := make([]byte, 1)
	if _, err := io.ReadFull(said, first); err != nil {
		t.Fatalf("%v: %v, %s", err, cmd.Wait(), complaints.String())
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	c := must.Get(api.Dial(t.Context(), service, api.Options{}))(t)
	defer c.Close()
	bob := api.For(t.Context(), rig.People["bob"])
	x := must.Get(c.SubmitTask(bob, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: at("source"), Target: "shared:bob"}}))(t)
	last := must.Get(c.Wait(bob, x.GetId(), nil))(t)
	if last.GetState() != task.Done {
		t.Errorf("the task of another user is %v", last)
	}
	states := map[pb.TaskState]int{}
	page := must.Get(c.ListTasks(t.Context(), &pb.ListTasksRequest{PageSize: 1000, Brief: true, States: []pb.TaskState{task.Running, task.Queued, task.Failed}}))(t)
	for _, other := range page.GetTasks() {
		states[other.GetState()]++
	}
	if states[task.Running] != 12 || states[task.Queued] != 13 {
		t.Errorf("of the user at its worst are %v; 12 of 16 slots are its own, and 13 tasks wait", states)
	}
	must.Do(t, in.Close())
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	end()
	<-looked
	t.Logf("the service has had %d MiB", most>>20)
	if most == 0 || most > 512<<20 {
		t.Errorf("the service has had %d MiB", most>>20)
	}
}
