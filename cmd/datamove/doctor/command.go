package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/units"
)

// view is what the doctor found, as JSON.
type view struct {
	Schema   string    `json:"schema"`
	Findings []Finding `json:"findings"`
	Passed   int       `json:"passed"`
	Warned   int       `json:"warned"`
	Failed   int       `json:"failed"`
}

// Command is datamove doctor.
func Command(a *cli.App) *cobra.Command {
	var f cli.Format
	var s slurmFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags] [LOCATION...]",
		Short: "Check what copies depend on, and say how to mend it",
		Long: `Doctor checks the configuration, the limits of this process, whether the service
answers where there is one and guards its replicas, and every tier, or the locations that are named: file
systems (type, space, inodes, rights, extended attributes, O_DIRECT, reflinks, what
interrupted runs left; quotas of projects, servers that are full by themselves, how new
files are striped) and S3 endpoints (reach, certificate, clock, rights, speed,
checksums, conditional writes, unfinished uploads).

With --slurm it checks, too, whether Slurm is configured for the hooks of datamove
(deploy/slurm): slurm.conf and what that includes, the programs that it names, timeouts,
burst buffers and their scripts. No program of Slurm is called. What the controller
has it finds on the controller, and what nodes have on a node.

To try a place it writes a little there and removes it again. The exit code is 1
when a check fails.`,
		Example: `  datamove doctor
  datamove doctor /scratch s3://archive/team-a
  datamove doctor --slurm`,
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		v := view{Schema: "datamove.doctor/v1", Findings: examine(ctx, a, args, s)}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.print(a, f); err != nil {
			return err
		}
		if v.Failed > 0 {
			return fmt.Errorf("%s failed", units.Plural(int64(v.Failed), "check", "checks"))
		}
		return nil
	})
	cmd.Flags().BoolVar(&s.look, "slurm", false, "look at the configuration of Slurm, too")
	cmd.Flags().StringVar(&s.file, "slurm-conf", "", "slurm.conf; if left out that of SLURM_CONF, or of /etc/slurm")
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

// slurmFlags say whether to look at Slurm, and where.
type slurmFlags struct {
	look bool
	file string
}

// examineSlurm looks at the configuration of Slurm, which may lie on a file system that hangs.
func examineSlurm(ctx context.Context, a *cli.App, conf *config.Config, s slurmFlags) []Finding {
	if !s.look && s.file == "" {
		return nil
	}
	found, err := cli.Probe(ctx, tryTime, "slurm.conf", func(context.Context) ([]Finding, error) { return Slurm(s.file, a.Env, conf), nil })
	if err != nil {
		return []Finding{{Subject: "slurm.conf", Check: "file", Status: Fail, Detail: err.Error(), Mend: cli.NoAnswerRemedy}}
	}
	return found
}

// examine does all checks that make sense: with a broken configuration, those that
// need none.
func examine(ctx context.Context, a *cli.App, args []string, s slurmFlags) []Finding {
	conf, err := a.Config()
	found := append(Configuration(conf, err), Limits()...)
	found = append(found, State(a.StateDir()))
	found = append(found, examineService(ctx, a)...)
	found = append(found, examineSlurm(ctx, a, conf, s)...)
	if err == nil && len(args) == 0 {
		for _, name := range slices.Sorted(maps.Keys(conf.Tiers)) {
			args = append(args, name+":")
		}
	}
	var buckets sync.Mutex // are looked at one by one: their speed is measured
	each := make([][]Finding, len(args))
	cli.InParallel(len(args), func(i int) { each[i] = examineLocation(ctx, a, conf, args[i], &buckets) })
	return slices.Concat(append([][]Finding{found}, each...)...)
}

// examineService asks the service for its name, where there is one.
func examineService(ctx context.Context, a *cli.App) []Finding {
	address, err := a.Service()
	if err != nil || address == "" {
		return nil // the configuration has its findings
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	f := Finding{Subject: address, Check: "service", Status: Fail}
	c, err := a.Dial(ctx, address, "systemctl start datamoved; or --service none, to work in this process")
	if err != nil {
		f.Detail, f.Mend = cli.Shown(err.Error()), remedy.About(err)
		return []Finding{f}
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	i, err := c.GetInfo(ctx, &pb.GetInfoRequest{})
	if err != nil {
		f.Detail, f.Mend = cli.Shown(err.Error()), "look at its log: journalctl -u datamoved"
		return []Finding{f}
	}
	f.Status = Pass
	f.Detail = cli.Shown(fmt.Sprintf("datamoved %s on %s answers, you are %s to it", i.GetVersion(), i.GetNode(), cli.OrDash(i.GetCaller().GetName())))
	if i.GetAgents() == 0 {
		f.Status, f.Detail, f.Mend = Warn, f.Detail+", and it has no agent to do anything", "datamove agent list; and on a node, datamoved --join"
	}
	if i.GetFull() != "" {
		f.Status, f.Detail, f.Mend = Fail, cli.Shown(i.GetFull()), "make room on the disk of the service; or cancel tasks: datamove task cancel"
	}
	return append([]Finding{f}, examineReplicas(ctx, c)...)
}

// doctorTime is how long a service may take to answer.
const doctorTime = 10 * time.Second

func examineLocation(ctx context.Context, a *cli.App, conf *config.Config, arg string, buckets *sync.Mutex) []Finding {
	l, err := cli.Probe(ctx, cli.ProbeTime, arg, func(context.Context) (location.Location, error) { return a.Locate(arg) })
	if err != nil {
		return []Finding{{Subject: arg, Check: "location", Status: Fail, Detail: err.Error(), Mend: "mend the location, or the configuration"}}
	}
	if l.IsPath() {
		return examineFolder(ctx, a, l.Path)
	}
	buckets.Lock()
	defer buckets.Unlock()
	o, err := a.Bucket(l)
	if err != nil {
		return nil // the configuration has its findings
	}
	var found []Finding
	if file, ok := config.CredentialsFile(o.Credentials); ok {
		found = append(found, CredentialsFile(file))
	}
	at, err := o.API().Resolved(ctx)
	if err != nil {
		return append(found, Finding{Subject: arg, Check: "environment", Status: Fail, Detail: cli.Shown(err.Error()), Mend: "mend AWS_PROFILE, or the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, usually in ~/.aws"})
	}
	endpoint := cmp.Or(at.Endpoint, s3api.AmazonEndpoint(cmp.Or(at.Region, s3api.DefaultRegion)).String())
	if found = append(found, Endpoint(ctx, endpoint, at.CABundle)...); Failed(found) {
		return found
	}
	var busy atomic.Int64
	again := retry.Options{Notify: func(error) { busy.Add(1) }}
	found = append(found, Bucket(ctx, arg, func(ctx context.Context, stateDir string) (place mover.Backend, err error) {
		err = retry.Opening(ctx, again, l.String(), func() (err error) {
			place, err = a.Open(ctx, l, engine.OpenOptions{Write: true, StateDir: stateDir})
			return err
		})
		if err != nil {
			return nil, err
		}
		return retry.New(place, again), nil
	})...)
	if n := busy.Load(); n > 0 {
		found = append(found, Finding{Subject: arg, Check: "answers", Status: Warn, Detail: fmt.Sprintf("%s failed for a time, and went well or were given up when they were tried again", units.Plural(n, "call", "calls")),
			Mend: "look at the load and the log of the server"})
	}
	return found
}

// tryTime is how long a folder may take that is written to and synced.
const tryTime = time.Minute

// examineFolder looks at a folder, and asks its file system what only that knows. One
// that hangs is found out by a look, before anything is tried in it.
func examineFolder(ctx context.Context, a *cli.App, dir string) []Finding {
	_, err := cli.Probe(ctx, cli.ProbeTime, dir, func(context.Context) (struct{}, error) {
		_, _ = os.Stat(dir) // what is wrong with it is said below
		return struct{}{}, nil
	})
	var found, more []Finding
	if err == nil {
		found, err = cli.Probe(ctx, tryTime, dir, func(context.Context) ([]Finding, error) { return Folder(dir), nil })
	}
	if err == nil {
		more, err = cli.ProbePath(ctx, a, dir, func(ctx context.Context, m *cli.Mounted) ([]Finding, error) {
			if !m.Dir {
				return nil, nil
			}
			return FileSystem(ctx, dir, m.System, m.FD), nil
		})
	}
	if s := (*cli.NoAnswer)(nil); errors.As(err, &s) {
		more = []Finding{{Subject: dir, Check: "folder", Status: Fail, Detail: s.Short(), Mend: cli.NoAnswerRemedy}}
	}
	return append(found, more...) // that it can not be opened has been said
}

// print writes the findings, one line each, and what to do below those that are
// not fine.
func (v *view) print(a *cli.App, f cli.Format) error {
	for _, finding := range v.Findings {
		switch finding.Status {
		case Pass:
			v.Passed++
		case Warn:
			v.Warned++
		case Fail:
			v.Failed++
		}
	}
	if f != cli.FormatTable {
		return cli.WriteObject(a.Out, f, v)
	}
	var b strings.Builder
	for _, finding := range v.Findings {
		if a.Quiet && finding.Status == Pass {
			continue
		}
		fmt.Fprintf(&b, "%s  %s  %s: %s\n", mark(a, finding.Status), mover.Printable(finding.Subject), finding.Check, finding.Detail)
		if finding.Mend != "" {
			fmt.Fprintf(&b, "      mend: %s\n", finding.Mend)
		}
	}
	fmt.Fprintf(&b, "%d passed, %s, %d failed\n", v.Passed, units.Plural(int64(v.Warned), "warning", "warnings"), v.Failed)
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

// mark is a status, in colour where that is wanted.
func mark(a *cli.App, s Status) string {
	return a.Coloured(map[Status]string{Pass: cli.Green, Warn: cli.Yellow, Fail: cli.Red}[s], string(s))
}
