// Package demo shows what datamove does, on data that it makes: it copies, breaks a
// byte and finds it, kills a copy in the middle and goes on, and with a bucket
// archives to it and stages back.
//
// Nothing is simulated. Every step is the real program, run as its own process
// ([Program]), so what is shown is what a user gets, and the process that is killed
// is really killed. Everything lies below one folder, which the caller removes.
//
// What the steps are is in [Run]; test/script/s3/demo.txt runs them.
package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover/units"
)

// Options says what to show. Program and Dir have no default.
type Options struct {
	Program string   // the datamove to run
	Dir     string   // an empty folder for everything
	S3      string   // s3://bucket/prefix to archive to and stage from; "" leaves that out
	Env     []string // of the program; nil is ours
	Small   int      // small files; 0 means 3,000
	LargeMB int      // MiB of each of two large files; 0 means 64
}

// show is a demonstration at work.
type show struct {
	Options
	out  io.Writer
	step int
}

// Run does every step, and stops at the first that does not do what it should.
func Run(ctx context.Context, out io.Writer, o Options) error {
	if o.Small == 0 {
		o.Small = 3000
	}
	if o.LargeMB == 0 {
		o.LargeMB = 64
	}
	s := &show{Options: o, out: out}
	steps := []func(context.Context) error{s.make, s.copy, s.again, s.broken, s.killed}
	if o.S3 != "" {
		steps = []func(context.Context) error{s.make, s.archive, s.stage, s.broken, s.killed}
	}
	begun := time.Now()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.say("All of it took %s.", units.Duration(time.Since(begun)))
	return nil
}

func (s *show) path(name string) string { return filepath.Join(s.Dir, name) }

func (s *show) title(format string, args ...any) {
	s.step++
	fmt.Fprintf(s.out, "\n%d. %s\n", s.step, fmt.Sprintf(format, args...))
}

func (s *show) say(format string, args ...any) { fmt.Fprintf(s.out, "   "+format+"\n", args...) }

// make makes the data.
func (s *show) make(context.Context) error {
	s.title("A data set of mixed sizes")
	total, err := makeData(s.path("data"), s.Small, s.LargeMB)
	if err != nil {
		return fmt.Errorf("make the data: %w", err)
	}
	s.say("%s, %s: small files in many folders, two large ones, a sparse one, links", units.Plural(total.files, "file", "files"), units.Bytes(total.bytes))
	return nil
}

func (s *show) copy(ctx context.Context) error {
	s.title("Copy it")
	return s.moves(ctx, "copy", s.path("data"), s.path("scratch"))
}

func (s *show) again(ctx context.Context) error {
	s.title("Copy it again: what is there is not copied")
	return s.moves(ctx, "copy", s.path("data"), s.path("scratch"))
}

func (s *show) archive(ctx context.Context) error {
	s.title("Archive it to %s", s.S3)
	return s.moves(ctx, "copy", s.path("data"), s.S3)
}

func (s *show) stage(ctx context.Context) error {
	s.title("Stage it back from the archive to a scratch folder")
	if err := s.moves(ctx, "copy", s.S3, s.path("scratch")); err != nil {
		return err
	}
	return s.moves(ctx, "verify", s.path("data"), s.path("scratch"))
}

// broken changes a byte, and wants verify to name the file.
func (s *show) broken(ctx context.Context) error {
	s.title("One byte of the copy goes bad, its size and time stay")
	victim := filepath.Join("large", "weights-0.bin")
	if err := breakByte(filepath.Join(s.path("scratch"), victim)); err != nil {
		return err
	}
	s.command("verify", s.path("data"), s.path("scratch"))
	code, _, said := s.run(ctx, "verify", s.path("data"), s.path("scratch"))
	if code != 9 || !strings.Contains(said, victim) {
		return fmt.Errorf("verify should end with 9 and name %s; it ended with %d:\n%s", victim, code, said)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(said), "\n") {
		s.say("%s", line)
	}
	s.say("(exit %d)", code)
	return s.moves(ctx, "copy", "--checksum", s.path("data"), s.path("scratch"))
}

// killed stops a copy by kill -9 when about half of it is done, and goes on.
func (s *show) killed(ctx context.Context) error {
	s.title("A copy is killed (kill -9) in the middle; the same command goes on")
	total := tree(s.path("data")).stored
	args := []string{"copy", "--reflink=never", s.path("data"), s.path("second")}
	slow := append([]string{args[0], "--bwlimit", fmt.Sprintf("%dMiB/s", max(total>>20/3, 1))}, args[1:]...)
	s.command(slow...)
	if err := s.kill(ctx, slow, s.path("second"), total/2); err != nil {
		return err
	}
	before := tree(s.path("second"))
	s.say("killed with %s of %s there, none of it visible under a name that is not whole", units.Bytes(before.stored), units.Bytes(total))
	if err := s.moves(ctx, args...); err != nil {
		return err
	}
	s.say("%s of it were kept from the run that was killed", units.Bytes(tree(s.path("second")).common(before)))
	return s.moves(ctx, "verify", s.path("data"), s.path("second"))
}

// kill runs the program until half of the bytes are there, and then no longer.
func (s *show) kill(ctx context.Context, args []string, dir string, half int64) error {
	cmd := s.cmd(ctx, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // cmd.ProcessState tells
	}()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return cmp.Or(ctx.Err(), fmt.Errorf("the copy ended before it could be killed: %v", cmd.ProcessState))
		case <-ticker.C:
		}
		if tree(dir).stored >= half {
			break
		}
	}
	err := cmd.Process.Kill()
	<-ended
	return err
}

// moves runs a command that has to succeed, and shows its summary.
func (s *show) moves(ctx context.Context, args ...string) error {
	s.command(args...)
	code, report, said := s.run(ctx, append([]string{args[0], "-o", "json"}, args[1:]...)...)
	if code != 0 {
		return fmt.Errorf("datamove %s ended with %d:\n%s", strings.Join(args, " "), code, said)
	}
	var r struct {
		Files, Bytes, Kept, Others int64
		Seconds                    float64
		Levels                     map[string]int64
	}
	if err := json.Unmarshal(report, &r); err != nil {
		return fmt.Errorf("datamove %s: its report: %w", strings.Join(args, " "), err)
	}
	took := time.Duration(r.Seconds * float64(time.Second))
	line := fmt.Sprintf("%s, %s in %s (%s)", units.Plural(r.Files, "file", "files"), units.Bytes(r.Bytes), units.Duration(took), units.Rate(r.Bytes, took))
	if args[0] == "verify" {
		line = fmt.Sprintf("%s equal, %s in %s (%s)", units.Plural(r.Kept, "entry", "entries"), units.Bytes(r.Bytes), units.Duration(took), units.Rate(r.Bytes, took))
	} else if r.Files == 0 {
		line = "nothing to copy, found in " + units.Duration(took)
	}
	if args[0] != "verify" && r.Kept > 1 {
		line += fmt.Sprintf(", %s already there", units.Count(r.Kept))
	}
	for _, level := range slices.Sorted(maps.Keys(r.Levels)) {
		line += fmt.Sprintf(", %s %s", units.Count(r.Levels[level]), level)
	}
	s.say("%s", line)
	return nil
}

// command shows what is run.
func (s *show) command(args ...string) {
	shown := strings.ReplaceAll(strings.Join(args, " "), s.Dir+string(filepath.Separator), "")
	s.say("$ datamove %s", shown)
}

func (s *show) run(ctx context.Context, args ...string) (code int, stdout []byte, stderr string) {
	cmd := s.cmd(ctx, args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil && cmd.ProcessState == nil {
		return -1, nil, e.Error()
	}
	return cmd.ProcessState.ExitCode(), out.Bytes(), err.String()
}

func (s *show) cmd(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Program, args...)
	env := s.Env
	if env == nil {
		env = os.Environ()
	}
	// Journals of the demonstration are not those of the user.
	cmd.Env = append(env[:len(env):len(env)], "XDG_STATE_HOME="+s.path("state"))
	return cmd
}
