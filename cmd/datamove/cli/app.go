package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"datamove.dev/cmd/datamove/manual"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/spelling"
	"datamove.dev/mover/remedy"
)

// App is what the commands have of the process, and the flags that all of them
// share. A test makes one of buffers.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string // a variable of the environment
	environ  []string            // what env has, NAME=value; nil is not looked at
	// OpenSystem opens a path and finds out which file system it is on; nil does it for real.
	OpenSystem func(path string) (*Mounted, error)
	// second does the command in a process that can be left behind; nil does it in this one.
	second func(context.Context) error
	// stops is what ends the command from outside; nil is its context alone.
	stops *stops
	// showsHung shows a call that has no answer, beside a task that is shown now; nil is no such task.
	showsHung atomic.Pointer[func(why string, once bool)]

	ConfigFile     string
	serviceFlag    address
	logLevel       string
	Verbose, Quiet bool

	inJob bool // the environment is that of a job of a user: the configuration is that of the site
	begun bool // a command has taken over: errors are no longer those of flags

	mu     sync.Mutex // guards what follows
	conf   *config.Config
	warned map[string]bool // tiers of which it was said that others may read their credentials
}

// Program is the tree of commands, which is above what they share.
type Program struct {
	Commands func(*App) *cobra.Command
	Meant    func(cmd *cobra.Command, err error, args []string) (try string) // what to try instead of a command line that has an error
}

// Run is the whole program. What went wrong has been told to a.Err when it returns.
func (a *App) Run(ctx context.Context, p Program, args []string) error {
	root := p.Commands(a)
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		// It may ask file systems, and a shell waits for it.
		if err := a.SecondProcess(ctx); !errors.Is(err, ErrNoSecondProcess) {
			return err
		}
	}
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.begun {
		var already *advised
		if err = mover.Misusef("%w", err); !errors.As(err, &already) {
			err = Advise(err, p.Meant(cmd, err, args))
		}
	}
	if left := (*abandoned)(nil); errors.Is(err, context.Canceled) && !errors.As(err, &left) {
		err = ErrInterrupted
	}
	if err != nil {
		a.explain(cmd, err)
	}
	return err
}

// ErrInterrupted is the end of a command that was told to stop.
var ErrInterrupted error = interrupted{}

type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }
func (interrupted) Unwrap() error { return context.Canceled }

// Do makes a function the body of a command.
func (a *App) Do(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		if a.Verbose && a.Quiet {
			return mover.Misusef("--verbose and --quiet exclude each other")
		}
		a.noteMisspelled()
		if a.stops == nil { // a test: its process does not end with it
			return body(a.telling(a.inTrace(cmd.Context()), cmd), args)
		}
		return a.attended(cmd.Context(), cmd.Name(), func() error { return body(a.telling(a.inTrace(cmd.Context()), cmd), args) })
	}
}

// telling returns a context under which a person hears what a command waits for. Commands that show progress tell it there.
func (a *App) telling(ctx context.Context, cmd *cobra.Command) context.Context {
	if a.Quiet {
		return ctx
	}
	return retry.WithNotice(ctx, func(w *retry.Wait) {
		if w != nil {
			fmt.Fprintf(a.Err, "datamove: %s: waiting: %s\n", cmd.Name(), Shown(w.String()))
		}
	})
}

// DoInSecondProcess is Do for what asks file systems, which may never answer.
func (a *App) DoInSecondProcess(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	within := a.Do(body)
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		if err := a.SecondProcess(cmd.Context()); !errors.Is(err, ErrNoSecondProcess) {
			return err
		}
		return within(cmd, args)
	}
}

// Begin says that a command has taken over, so that errors are no longer those of its flags: Do does it for most.
func (a *App) Begin() { a.begun = true }

// InUserJob says that the environment is that of a job of a user: the configuration is that of the site.
func (a *App) InUserJob() { a.inJob = true }

// explain tells a person what went wrong, and what there is to do about it.
func (a *App) explain(cmd *cobra.Command, err error) {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", ": ")
	text := err.Error()
	for _, name := range namesIn(err) {
		text = strings.ReplaceAll(text, name, mover.Printable(name)) // a line of it would look like ours
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" { // cobra's advice has empty lines and tabs
			fmt.Fprintf(a.Err, "%s: %s\n", name, Shown(line))
		}
	}
	if advice := cmp.Or(asShell(err), remedy.About(err)); advice != "" {
		fmt.Fprintf(a.Err, "try: %s\n", advice)
	}
}

// asShell is what to try where a path is not there because a shell has not expanded it; "" is nothing.
func asShell(err error) string {
	var in *mover.Error
	if !errors.Is(err, mover.ErrNotExist) || !errors.As(err, &in) || !strings.HasPrefix(in.Location, "/") && !strings.HasPrefix(in.Location, "s3://") {
		return ""
	}
	switch name := in.Location[strings.LastIndexByte(in.Location, '/')+1:]; {
	case strings.ContainsAny(name, "*?[") && !strings.HasPrefix(in.Location, "/"):
		return "the prefix before it, with --include '" + mover.Printable(name) + "': names of objects are not expanded"
	case strings.ContainsAny(name, "*?["):
		return "the name without quotes, so that the shell expands it, behind --into DIR; or --include '" + mover.Printable(name) + "' with the folder around it"
	case strings.Contains(in.Location, "/~"):
		return "the path of that home: a shell expands ~ only at the beginning of a word, and not in quotes"
	}
	return ""
}

// noteMisspelled says of a variable that is spelled almost like one of ours that it counts for nothing.
func (a *App) noteMisspelled() {
	var ours []string
	for _, e := range manual.Environment {
		if strings.HasPrefix(e.Word, envPrefix) {
			ours = append(ours, e.Word)
		}
	}
	for _, kv := range a.environ {
		name, value, _ := strings.Cut(kv, "=")
		if value == "" || !strings.HasPrefix(name, envPrefix) || slices.Contains(ours, name) {
			continue
		}
		if near := spelling.Nearest(name, ours); near != "" {
			fmt.Fprintf(a.Err, "datamove: the variable %s is not one of datamove and counts for nothing; did you mean %s?\n", mover.Printable(name), near)
		}
	}
}

const envPrefix = "DATAMOVE_"

// namesIn are the names that errors of the operating system say as they are.
func namesIn(err error) []string {
	switch err := err.(type) { //nolint:errorlint // each error of the tree comes here
	case *fs.PathError:
		return []string{err.Path}
	case *os.LinkError:
		return []string{err.Old, err.New}
	case interface{ Unwrap() []error }:
		var all []string
		for _, one := range err.Unwrap() {
			all = append(all, namesIn(one)...)
		}
		return all
	}
	if within := errors.Unwrap(err); within != nil {
		return namesIn(within)
	}
	return nil
}

// GlobalFlags adds the flags of all commands.
func (a *App) GlobalFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.ConfigFile, "config", "", "configuration `FILE`; default $DATAMOVE_CONFIG, ~/.config/datamove/config.yaml, /etc/datamove/config.yaml")
	flags.Var(&a.serviceFlag, "service", "have the work done by the service at `ADDRESS`, unix:///path or tcp://host:port; none is this process; default $DATAMOVE_SERVICE, then the configuration")
	flags.StringVar(&a.logLevel, "log-level", "", "log to stderr from `LEVEL` on: debug, info, warn, error (default warn)")
	flags.BoolVarP(&a.Verbose, "verbose", "v", false, "name every item")
	flags.BoolVarP(&a.Quiet, "quiet", "q", false, "print errors only")
}

// Config reads the configuration once.
func (a *App) Config() (*config.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conf != nil {
		return a.conf, nil
	}
	c, err := config.Load(a.Lookup)
	if err != nil {
		return nil, err
	}
	a.conf = c
	return c, nil
}

// Lookup is the environment as the flags change it, for the configuration.
func (a *App) Lookup(key string) string {
	switch {
	case a.inJob:
		return ""
	case key == "DATAMOVE_CONFIG" && a.ConfigFile != "":
		return a.ConfigFile
	case key == "DATAMOVE_SERVICE" && a.Env(key) == NoService: // which is no address
		return ""
	}
	return a.Env(key)
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// Logger writes to w what --log-level asks for; without it, warnings, and with --quiet errors.
func (a *App) Logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelWarn
	if a.Quiet {
		level = slog.LevelError
	}
	if a.logLevel != "" {
		named, known := logLevels[strings.ToLower(a.logLevel)]
		if !known {
			return nil, mover.Misusef("--log-level is %q; must be debug, info, warn or error", a.logLevel)
		}
		level = named
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})), nil
}

// Terminal returns the file behind w when it is a terminal that can redraw lines.
func (a *App) Terminal(w any) (*os.File, bool) {
	if p, is := w.(*printed); is {
		w = p.File
	}
	f, ok := w.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd())) && a.Env("TERM") != "dumb"
}

// TerminalWidth gives the width of a terminal, or 80.
func TerminalWidth(f *os.File) func() int {
	return func() int {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}
}

// advised is an error with a way out.
type advised struct {
	error
	try string
}

// Advice is the way out.
func (e *advised) Advice() string { return e.try }

func (e *advised) Unwrap() error { return e.error }

// Advise attaches what to try next.
func Advise(err error, try string) error {
	if err == nil {
		return nil
	}
	return &advised{err, try}
}

// StateDir is where journals are kept.
func (a *App) StateDir() (string, error) { return mover.StateDir(a.Env) }
