package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/telemetry"
)

// version is what Main was given; without it the build's own facts tell.
var version string

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return cmp.Or(version, info.Main.Version, "unknown")
	}
	return cmp.Or(version, "unknown")
}

// app is what the commands have of the process, and the flags. A test makes one of buffers.
type app struct {
	out, err io.Writer
	env      func(string) string
	flags    flags

	begun bool // a command has taken over: errors are no longer those of flags
}

// flags are what the command line says. The configuration has what it does not.
type flags struct {
	config    string
	data      string
	listen    []string
	node      string
	join      string
	token     string
	tokenFile string
	authority string // file with the pin
	noAgent   bool
	logFormat string
	logLevel  string
}

// run is the whole program. What went wrong has been told to a.err when it returns.
func (a *app) run(ctx context.Context, args []string) error {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !a.begun {
		err = &advised{mover.Misuse(err), cmd.CommandPath() + " --help"}
	}
	if err != nil {
		a.explain(cmd.CommandPath(), err)
	}
	return err
}

// explain tells a person what went wrong, and what there is to do about it.
func (a *app) explain(command string, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(a.err, "%s: %s\n", strings.ReplaceAll(command, " ", ": "), line)
		}
	}
	if advice := adviceFor(err); advice != "" {
		fmt.Fprintf(a.err, "try: %s\n", advice)
	}
}

// root makes the tree of commands.
func (a *app) root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "datamoved [flags]",
		Short: "The service of datamove: coordinator, agent, or both",
		Long: `datamoved takes tasks, keeps them in a ledger, and has them done by agents. Without
a configuration it is coordinator and agent of this machine: as root it listens on
/run/datamove/datamoved.sock and keeps its state in /var/lib/datamove, and else on
$XDG_RUNTIME_DIR/datamove/datamoved.sock, with $XDG_STATE_HOME/datamove/service.

With --join it is the agent of this node only, for the coordinator at ADDR. To join
it needs a token once (datamove agent token NODE, on the coordinator).

As root it runs each task as the account that submitted it; as any other user it works for that one only.`,
		Example: `  datamoved
  datamoved --listen unix:///run/datamove/datamoved.sock --listen tcp://0.0.0.0:7643
  datamoved --join tcp://head:7643 --token-file /root/token`,
		Args:         cobra.NoArgs,
		SilenceUsage: true, SilenceErrors: true, DisableFlagsInUseLine: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	version := cmd.Flags().BoolP("version", "v", false, "print the version") // without a template of cobra: see cmd/datamove
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if *version {
			_, err := fmt.Fprintf(a.out, "datamoved %s\n", buildVersion())
			return err
		}
		return a.serve(ctx)
	})
	all := cmd.PersistentFlags()
	all.StringVar(&a.flags.config, "config", "", "configuration `FILE`; default $DATAMOVE_CONFIG, ~/.config/datamove/config.yaml, /etc/datamove/config.yaml")
	all.StringVar(&a.flags.data, "data", "", "directory `DIR` of the state (data in the configuration)")
	all.StringArrayVar(&a.flags.listen, "listen", nil, "`ADDR` to answer at, unix:///path or tcp://host:port; may be repeated (listen in the configuration)")
	all.StringVar(&a.flags.node, "node", "", "`NAME` of this node (node in the configuration); default the name of the host")
	all.StringVar(&a.flags.logLevel, "log-level", "info", "log to stderr from `LEVEL` on: debug, info, warn, error")
	all.StringVar(&a.flags.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	own := cmd.Flags()
	own.StringVar(&a.flags.join, "join", "", "be an agent of the coordinator at `ADDR`, tcp://host:port")
	own.StringVar(&a.flags.token, "token", "", "join `TOKEN`; every account of this machine can read it, so prefer --token-file")
	own.StringVar(&a.flags.tokenFile, "token-file", "", "`FILE` with the join token; - is stdin")
	own.StringVar(&a.flags.authority, "authority-file", "", "`FILE` with the pin of the coordinator, which logs it: with a token of Kubernetes (join in the coordinator's configuration)")
	own.BoolVar(&a.flags.noAgent, "no-agent", false, "coordinate only: no work is done on this node")
	cmd.AddCommand(a.checkCommand(), a.backupCommand(), a.restoreCommand())
	return cmd
}

// do makes a function the body of a command.
func (a *app) do(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a.begun = true
		return body(cmd.Context(), args)
	}
}

// lookup is the environment as the flags change it. DATAMOVE_SERVICE is for callers.
func (a *app) lookup(key string) string {
	switch {
	case key == "DATAMOVE_CONFIG" && a.flags.config != "":
		return a.flags.config
	case key == "DATAMOVE_SERVICE":
		return ""
	}
	return a.env(key)
}

// load reads the configuration, as it is now.
func (a *app) load() (*config.Config, error) { return config.Load(a.lookup) }

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

// logger makes the log.
func (a *app) logger() (*slog.Logger, error) {
	level, known := logLevels[strings.ToLower(a.flags.logLevel)]
	if !known {
		return nil, mover.Misusef("--log-level is %s; must be debug, info, warn or error", mover.Printable(a.flags.logLevel))
	}
	log, err := telemetry.Logger(a.err, a.flags.logFormat, level)
	if errors.Is(err, mover.ErrUsage) {
		return nil, mover.Misusef("--log-format is %s; must be text or json", mover.Printable(a.flags.logFormat))
	}
	return log, err
}
