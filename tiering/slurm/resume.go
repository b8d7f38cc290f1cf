package slurm

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/tiering/checkpoint"
)

// resume is Resume within what a hook may take.
func (s *Site) resume(environ []string) (vars [][2]string) {
	ctx, cancel := context.WithTimeout(context.Background(), s.waitMost()/2)
	defer cancel()
	return Resume(ctx, environ)
}

// Resume are the variables that say from which checkpoint to go on, with "" for none: the newest that is complete where all nodes see those that
// have left. A file system that does not answer in time is left out.
func Resume(ctx context.Context, environ []string) (vars [][2]string) {
	value := map[string]string{}
	for _, kv := range environ {
		key, v, _ := strings.Cut(kv, "=")
		value[key] = v
	}
	first := ""
	for _, key := range sorted(value) {
		name, ours := strings.CutPrefix(key, VarSaved)
		if !ours || !validVariable(name) {
			continue
		}
		at := newest(ctx, value[key], checkpoint.Profile(value[VarProfile+name]))
		vars = append(vars, [2]string{VarResumeOf + name, at})
		if value[VarCheckpointOf+name] == value[VarCheckpoint] {
			first = at
		}
	}
	if len(vars) > 0 {
		vars = append(vars, [2]string{VarResume, first})
	}
	return vars
}

// newest looks as the user of the job. What hangs is left behind: this process ends soon.
func newest(ctx context.Context, dir string, p checkpoint.Profile) string {
	if !filepath.IsAbs(dir) || !checkpoint.Known(p) {
		return ""
	}
	found := make(chan string, 1)
	go func() {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			found <- ""
			return
		}
		defer f.Close()
		name, err := checkpoint.Newest(ctx, f, p, checkpoint.Limits{})
		if err != nil || name == "" {
			found <- ""
			return
		}
		found <- filepath.Join(dir, name)
	}()
	select {
	case at := <-found:
		return at
	case <-ctx.Done():
		return ""
	}
}
