package client

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"datamove.dev/lustre"
)

// lfs is the program that comes with Lustre. It is only asked where the kernel does not
// answer; what it prints is for people, and differs from version to version.
type lfs struct {
	// run runs it and returns what it printed; nil runs the real one.
	run func(ctx context.Context, args ...string) (string, error)
	// where is the path of an open file; nil asks the real kernel.
	where func(fd int) (string, error)
}

// maxPrinted is how much of what a program prints is read.
const maxPrinted = 1 << 20

// errPrintsTooMuch stops a program.
var errPrintsTooMuch = errors.New("it prints more than 1 MiB")

// bounded is a buffer with a limit. A write beyond it cancels the context of the program:
// without a reader of its output, the program would wait for ever.
type bounded struct {
	text []byte
	stop context.CancelCauseFunc
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.text)+len(p) > maxPrinted {
		b.stop(errPrintsTooMuch)
		return 0, errPrintsTooMuch
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

func (l lfs) output(ctx context.Context, args ...string) (string, error) {
	if l.run != nil {
		return l.run(ctx, args...)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stdout, stderr := bounded{stop: stop}, bounded{stop: stop}
	cmd := exec.CommandContext(ctx, "lfs", args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errNoProgram
	case context.Cause(ctx) != nil:
		return "", fmt.Errorf("lfs %s: %w", strings.Join(args, " "), context.Cause(ctx))
	case err != nil:
		return "", fmt.Errorf("lfs %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(stderr.text)))
	}
	return string(stdout.text), nil
}

func (l lfs) path(fd int) (string, error) {
	if l.where != nil {
		return l.where(fd)
	}
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func (l lfs) layout(ctx context.Context, fd int, dir bool) (lustre.Layout, error) {
	path, err := l.path(fd)
	if err != nil { // it has no name that a program could be given
		return lustre.Layout{}, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	args := []string{"getstripe", "-y", path}
	if dir {
		args = []string{"getstripe", "-y", "-d", path}
	}
	text, err := l.output(ctx, args...)
	if err != nil {
		return lustre.Layout{}, err
	}
	return parseGetstripe(text)
}

func (l lfs) quota(ctx context.Context, mount string, p lustre.Project) (lustre.Quota, error) {
	text, err := l.output(ctx, "quota", "-q", "-p", fmt.Sprint(p.ID), mount)
	if err != nil {
		return lustre.Quota{}, err
	}
	q, err := parseQuota(text, time.Now())
	q.Project = p
	return q, err
}

func (l lfs) targets(ctx context.Context, mount, fsname string) ([]lustre.Target, error) {
	sizes, err := l.output(ctx, "df", mount)
	if err != nil {
		return nil, err
	}
	inodes, err := l.output(ctx, "df", "-i", mount)
	if err != nil {
		return nil, err
	}
	return parseDF(sizes, inodes, fsname)
}

func (l lfs) pools(ctx context.Context, fsname string) (map[string][]int, error) {
	list, err := l.output(ctx, "pool_list", fsname)
	if err != nil {
		return nil, err
	}
	pools := map[string][]int{}
	for line := range strings.Lines(list) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), fsname+".")
		if !ok || lustre.ValidPool(name) != nil {
			continue // the heading
		}
		members, err := l.output(ctx, "pool_list", fsname+"."+name)
		if err != nil {
			return nil, err
		}
		pools[name] = poolMembers(members, fsname)
	}
	return pools, nil
}
