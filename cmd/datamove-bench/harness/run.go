package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/multinode"
	"datamove.dev/bench/report"
	"datamove.dev/bench/result"
	"datamove.dev/bench/workload"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// runFlags are those of run.
type runFlags struct {
	suites                     []string
	sizes                      workload.Sizes
	size, block, file, sample  string
	cache                      string
	scaling                    bool
	plan                       multinode.Plan
	listen, address, launch    string
	secret, save, output, conf string
	quiet                      bool
}

func runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [flags] TARGET...",
		Short: "make a load, on one node or many, and measure it",
		Long: "Writes, reads and verifies below each target, a directory or a bucket (s3://bucket/prefix, or TIER:path of the configuration), in a directory of its own that is\n" +
			"removed at the end: nothing that was there is touched. Ranks are spread over targets.\n\nSuites:\n" + suites() + "\n" +
			"On many nodes, this process is the leader: it waits for --nodes that join, and all begin each phase at one instant:\n\n" +
			"  datamove-bench run --nodes 32 --listen :7311 --secret-file S /lustre/project/bench\n" +
			"  datamove-bench join --secret-file S head:7311                                          (on each node)\n\n" +
			"--launch starts them: in an allocation of Slurm\n\n" +
			"  datamove-bench run --nodes $SLURM_NNODES --launch 'srun --ntasks-per-node=1' /lustre/project/bench",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("want a directory or a bucket: see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := c.Flags()
	flags.StringSliceVar(&f.suites, "suite", nil, "which, with commas; all is every one that fits (default: large,small; of buckets: s3)")
	flags.StringSliceVar(&f.sizes.Phases, "phases", nil, "only these of each suite, with commas (default: all)")
	flags.IntVar(&f.sizes.Ranks, "ranks", 8, "of each node: so many work at the same time")
	flags.StringVar(&f.size, "size", "1GiB", "of each rank: of large and shared files")
	flags.StringVar(&f.block, "block", "4MiB", "of one read or write of them; of buckets: of a part, 8MiB or more")
	flags.IntVar(&f.sizes.Files, "files", 1000, "of each rank: small and empty ones")
	flags.StringVar(&f.file, "file-size", "16KiB", "of a small file")
	flags.IntVar(&f.sizes.Dirs, "dirs", 10, "of each rank: of small and empty files")
	flags.StringVar(&f.sample, "sample", "150kB", "of a data loader: what is read at once")
	flags.StringVar(&f.sizes.Model, "model", "405b", "model of which a checkpoint is written: 8b, 70b, 405b or 1t, as MLPerf Storage has them")
	flags.Float64Var(&f.sizes.Scale, "scale", 0.0001, "of the checkpoint's size")
	flags.DurationVar(&f.sizes.Limit, "time", 0, "after which a rank stops in each phase (stonewall); 0 is when it has done everything")
	flags.IntVar(&f.sizes.Repeats, "repeats", 1, "of everything; of 3 or more there is an interval")
	flags.StringVar(&f.cache, "cache", "direct", "direct: past the page cache; drop: what is in it is dropped before it is read; keep: what is read may come from memory")
	flags.IntVar(&f.plan.Nodes, "nodes", 0, "that join; 0 is this host alone")
	flags.BoolVar(&f.scaling, "scaling", false, "with 1, 2, 4 ... nodes, by turns, and with all")
	flags.StringVar(&f.listen, "listen", ":0", "where nodes join; :0 is a free port")
	flags.StringVar(&f.address, "address", "", "where --launch tells nodes to join (default: the one of --listen; this host's name where that is every address)")
	flags.StringVar(&f.launch, "launch", "", "what starts all nodes: the words of a command, behind which the one to start is put")
	flags.StringVar(&f.secret, "secret-file", "", "what nodes have to know: a file of 16 bytes or more")
	flags.DurationVar(&f.plan.Wait, "wait", 5*time.Minute, "for nodes to join")
	flags.BoolVar(&f.plan.Keep, "keep", false, "leave what was made")
	flags.StringVar(&f.conf, "config", "", "the configuration with tiers (default: that of datamove)")
	flags.StringVar(&f.save, "save", "", "a file for the record: datamove-bench report and model read it")
	flags.StringVarP(&f.output, "output", "o", "table", "table or json")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not say what is being done")
	return c
}

func suites() string {
	var b strings.Builder
	for _, s := range workload.All() {
		fmt.Fprintf(&b, "  %-11s %s\n", s.Name, s.What)
	}
	return b.String()
}

// run makes the load that the flags say.
func (f *runFlags) run(cmd *cobra.Command, targets []string) error {
	ctx, stop := context.WithCancelCause(cmd.Context())
	defer stop(nil)
	told := &turns{w: cmd.ErrOrStderr()}
	if err := f.read(told, targets); err != nil {
		return err
	}
	saved, err := newDraft(f.save)
	if err != nil {
		return usageError{fmt.Errorf("--save: %w", err)}
	}
	defer saved.drop()
	if f.plan.Nodes > 0 {
		if err := f.door(); err != nil {
			return err
		}
		defer f.plan.Listen.Close()
		if f.launch != "" {
			defer f.start(ctx, told, stop)()
		}
	}
	r, err := multinode.Conduct(ctx, f.plan)
	r.Command = f.words(cmd, targets)
	return errors.Join(err, saved.publish(r.Write), f.tell(cmd.OutOrStdout(), r))
}

// turns is a writer for several that write: we, and those that were started.
type turns struct {
	mu sync.Mutex // of w
	w  io.Writer
}

func (t *turns) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
}

// read makes a plan of the flags.
func (f *runFlags) read(told io.Writer, targets []string) (err error) {
	if f.output != "table" && f.output != "json" {
		return usageError{fmt.Errorf("-o %s: must be table or json", f.output)}
	}
	for _, one := range []struct {
		flag, text string
		to         *int64
	}{{"size", f.size, &f.sizes.Bytes}, {"block", f.block, &f.sizes.Block}, {"file-size", f.file, &f.sizes.FileBytes}, {"sample", f.sample, &f.sizes.Sample}} {
		if *one.to, err = units.ParseBytes(one.text); err != nil || *one.to < 1 {
			return usageError{fmt.Errorf("--%s %s: want a number of bytes like 4MiB", one.flag, one.text)}
		}
	}
	if min(f.sizes.Ranks, f.sizes.Repeats, f.sizes.Files, f.sizes.Dirs) < 1 || f.plan.Nodes < 0 || f.sizes.Limit < 0 {
		return usageError{errors.New("ranks, repeats, files and directories are 1 or more, and nodes and a time are not below 0")}
	}
	f.sizes.Cache = loadgen.Cache(f.cache)
	f.sizes.Nodes = []int{max(1, f.plan.Nodes)}
	if f.scaling {
		f.sizes.Nodes = workload.Nodes(max(1, f.plan.Nodes))
	}
	places, err := newPlaces(f.conf, targets)
	if err != nil {
		return err
	}
	f.sizes.Bucket = places.buckets
	if f.plan.Works, err = workload.Works(f.suites, f.sizes); err != nil {
		return err
	}
	f.plan.Targets, f.plan.Version, f.plan.Open = places.targets, version, places.open
	if !f.quiet {
		f.plan.Say = func(line string) { fmt.Fprintln(told, line) }
	}
	return nil
}

// door is where nodes join, and what they have to know.
func (f *runFlags) door() (err error) {
	switch {
	case f.secret != "":
		if f.plan.Secret, err = secretFile(f.secret); err != nil {
			return err
		}
	case f.launch != "":
		f.plan.Secret = multinode.NewSecret() // those that are started are told
	default:
		return usageError{errors.New("--nodes: want --secret-file, which nodes have to know, or --launch, which tells them")}
	}
	if f.plan.Listen, err = net.Listen("tcp", f.listen); err != nil {
		return usageError{fmt.Errorf("--listen: %w", err)}
	}
	if f.plan.Say != nil {
		f.plan.Say(fmt.Sprintf("waits for %d nodes at %s", f.plan.Nodes, f.plan.Listen.Addr()))
	}
	return nil
}

func secretFile(name string) (multinode.Secret, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError{fmt.Errorf("--secret-file: %w", err)}
	}
	s, err := multinode.ReadSecret(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("--secret-file %s: %w", name, err)}
	}
	return s, nil
}

// tell prints a record.
func (f *runFlags) tell(w io.Writer, r *result.Run) error {
	if f.output == "json" {
		return r.Write(w)
	}
	return report.Sum([]*result.Run{r}, report.Options{}).Table(w)
}

// words is the command as it can be repeated.
func (f *runFlags) words(cmd *cobra.Command, targets []string) string {
	w := []string{"datamove-bench run"}
	for _, name := range []string{"suite", "phases", "ranks", "size", "block", "files", "file-size", "dirs", "sample", "model", "scale", "time", "repeats", "cache", "nodes", "scaling"} {
		if flag := cmd.Flags().Lookup(name); flag.Changed {
			w = append(w, "--"+name+"="+strings.Trim(flag.Value.String(), "[]"))
		}
	}
	return strings.Join(append(w, targets...), " ")
}

func joinCommand() *cobra.Command {
	var g multinode.Guest
	var secret, conf string
	c := &cobra.Command{
		Use:   "join [flags] HOST:PORT",
		Short: "take part in a run on many nodes",
		Long: "Joins the leader of a \"datamove-bench run --nodes\" and makes this node's part of the load, below the targets of the leader. What it has made is removed at the end,\n" +
			"also when the leader is lost. Without --secret-file the secret is $DATAMOVE_BENCH_SECRET. Credentials of buckets are those of this host.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("want the address of the leader: see %s --help", cmd.CommandPath())}
			}
			if _, _, err := net.SplitHostPort(args[0]); err != nil {
				return usageError{fmt.Errorf("%s: want HOST:PORT: %w", mover.Printable(args[0]), err)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			g.Address, g.Version = args[0], version
			text := os.Getenv(joinVariable)
			switch {
			case secret != "":
				g.Secret, err = secretFile(secret)
			case text != "":
				g.Secret, err = multinode.ReadSecret([]byte(text))
			default:
				err = usageError{fmt.Errorf("want --secret-file, or %s", joinVariable)}
			}
			if err != nil {
				return err
			}
			places, err := newPlaces(conf, nil)
			if err != nil {
				return err
			}
			g.Open = places.open
			return multinode.Join(cmd.Context(), g)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	flags := c.Flags()
	flags.StringVar(&secret, "secret-file", "", "the secret of the run, as the leader has it")
	flags.StringVar(&g.Name, "name", "", "of this node (default: that of the host)")
	flags.DurationVar(&g.Wait, "wait", 2*time.Minute, "how long to wait for the leader")
	flags.StringVar(&conf, "config", "", "the configuration with tiers (default: that of datamove)")
	return c
}

// joinVariable has the secret of those that --launch starts.
const joinVariable = "DATAMOVE_BENCH_SECRET"
