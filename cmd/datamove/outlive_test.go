package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/config"
	"datamove.dev/tiering/hook"
	"datamove.dev/tiering/hook/controller"
	"datamove.dev/tiering/hook/directive"
)

// TestOutliving: the work of a phase that outlives its slurmctld is not told to stop by a process that ends, since another one may wait for it by then.
//
//safety:5/jobs with tiering/hook/controller TestKilled
func TestOutliving(t *testing.T) {
	for name, how := range map[string]struct{ deserted, taken bool }{
		"another turn":              {deserted: true, taken: true},
		"terminated":                {},
		"deserted, then terminated": {deserted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &controller.Controller{Config: &config.Config{}, Records: t.TempDir()}
			must(t, c.Setup(hook.Job{ID: 7, UID: 1000, GID: 1000}, directive.Text{Script: "#!/bin/sh\n"}))
			run, err := c.Run(7)
			must(t, err)
			ctx, terminate := context.WithCancel(t.Context())
			defer terminate()
			f := &first{ended: make(chan struct{}), run: run.RunID()}
			if how.deserted {
				f = deserter(t, run.RunID())
			}
			begun, left := make(chan context.Context), make(chan error)
			go func() {
				left <- outliving(ctx, f, c, 7, func(work context.Context, _ uint32) error {
					begun <- work
					<-t.Context().Done()
					return nil
				})
			}()
			work := <-begun
			if how.taken {
				_, err := c.Take(7, run.RunID())
				must(t, err)
			} else {
				terminate()
			}
			if err := <-left; !errors.Is(err, ctx.Err()) {
				t.Errorf("it has left with %v; want %v", err, ctx.Err())
			}
			if work.Err() != nil {
				t.Errorf("the work was told to stop: %v", context.Cause(work))
			}
		})
	}
}

// deserter is a first process that is gone, as its slurmctld is.
func deserter(t *testing.T, run string) *first {
	t.Helper()
	ends, end, err := os.Pipe()
	must(t, err)
	must(t, end.Close())
	t.Cleanup(func() { must(t, ends.Close()) })
	slurmctld := exec.Command("true")
	must(t, slurmctld.Start())
	fd, err := unix.PidfdOpen(slurmctld.Process.Pid, 0)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	must(t, slurmctld.Wait())
	f := &first{pipe: ends, ended: make(chan struct{}), slurm: []int{fd}, run: run}
	close(f.ended)
	return f
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
