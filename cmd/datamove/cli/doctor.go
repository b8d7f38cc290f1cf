package cli

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
	"datamove.dev/cmd/datamove/doctor"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/config"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/remedy"
	"datamove.dev/mover/units"
)

// doctorView is what the doctor found, as JSON.
type doctorView struct {
	Schema   string           `json:"schema"`
	Findings []doctor.Finding `json:"findings"`
	Passed   int              `json:"passed"`
	Warned   int              `json:"warned"`
	Failed   int              `json:"failed"`
}

func (a *app) doctorCommand() *cobra.Command {
	var f format
	var s slurmFlags
	cmd := &cobra.Command{
		Use:   "doctor [flags] [LOCATION...]",
		Short: "Check what copies depend on, and say how to mend it",
		Long: `Doctor checks the configuration, the limits of this process, whether the service
answers where there is one and guards its replicas, and every tier, or the locations that are named: file
systems (type, space, inodes, rights, extended attributes, O_DIRECT, reflinks, what
interrupted runs left; quotas of projects, servers that are full by themselves, how new
files are striped) and S3 endpoints (reach, certificate, clock, rights, speed,
checksums, conditional writes, uploads that nobody finished).

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
	cmd.RunE = a.doApart(func(ctx context.Context, args []string) error {
		v := doctorView{Schema: "datamove.doctor/v1", Findings: a.examine(ctx, args, s)}
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
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatYAML)
	return cmd
}

// slurmFlags say whether to look at Slurm, and where.
type slurmFlags struct {
	look bool
	file string
}

// examineSlurm looks at the configuration of Slurm, which may lie on a file system that hangs.
func (a *app) examineSlurm(ctx context.Context, conf *config.Config, s slurmFlags) []doctor.Finding {
	if !s.look && s.file == "" {
		return nil
	}
	found, err := answered(ctx, tryTime, "slurm.conf", func(context.Context) ([]doctor.Finding, error) { return doctor.Slurm(s.file, a.env, conf), nil })
	if err != nil {
		return []doctor.Finding{{Subject: "slurm.conf", Check: "file", Status: doctor.Fail, Detail: err.Error(), Mend: silenceMend}}
	}
	return found
}

// examine does all checks that make sense: with a broken configuration, those that
// need none.
func (a *app) examine(ctx context.Context, args []string, s slurmFlags) []doctor.Finding {
	conf, err := a.config()
	found := append(doctor.Configuration(conf, err), doctor.Limits()...)
	found = append(found, doctor.State(a.stateDir()))
	found = append(found, a.examineService(ctx)...)
	found = append(found, a.examineSlurm(ctx, conf, s)...)
	if err == nil && len(args) == 0 {
		for _, name := range slices.Sorted(maps.Keys(conf.Tiers)) {
			args = append(args, name+":")
		}
	}
	var buckets sync.Mutex // are looked at one by one: their speed is measured
	each := make([][]doctor.Finding, len(args))
	inParallel(len(args), func(i int) { each[i] = a.examineLocation(ctx, conf, args[i], &buckets) })
	return slices.Concat(append([][]doctor.Finding{found}, each...)...)
}

// examineService asks the service for its name, where there is one.
func (a *app) examineService(ctx context.Context) []doctor.Finding {
	address, err := a.service()
	if err != nil || address == "" {
		return nil // the configuration has its findings
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	f := doctor.Finding{Subject: address, Check: "service", Status: doctor.Fail}
	c, err := a.dial(ctx, address, "systemctl start datamoved; or --service none, to work in this process")
	if err != nil {
		f.Detail, f.Mend = shown(err.Error()), remedy.About(err)
		return []doctor.Finding{f}
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	i, err := c.GetInfo(ctx, &pb.GetInfoRequest{})
	if err != nil {
		f.Detail, f.Mend = shown(err.Error()), "look at its log: journalctl -u datamoved"
		return []doctor.Finding{f}
	}
	f.Status = doctor.Pass
	f.Detail = shown(fmt.Sprintf("datamoved %s on %s answers, you are %s to it", i.GetVersion(), i.GetNode(), known(i.GetCaller().GetName())))
	if i.GetAgents() == 0 {
		f.Status, f.Detail, f.Mend = doctor.Warn, f.Detail+", and it has no agent to do anything", "datamove agent list; and on a node, datamoved --join"
	}
	if i.GetFull() != "" {
		f.Status, f.Detail, f.Mend = doctor.Fail, shown(i.GetFull()), "make room on the disk of the service; or cancel tasks: datamove task cancel"
	}
	return append([]doctor.Finding{f}, examineReplicas(ctx, c)...)
}

// doctorTime is how long a service may take to answer.
const doctorTime = 10 * time.Second

func (a *app) examineLocation(ctx context.Context, conf *config.Config, arg string, buckets *sync.Mutex) []doctor.Finding {
	l, err := answered(ctx, answerTime, arg, func(context.Context) (location.Location, error) { return a.locate(arg) })
	if err != nil {
		return []doctor.Finding{{Subject: arg, Check: "location", Status: doctor.Fail, Detail: err.Error(), Mend: "mend the location, or the configuration"}}
	}
	if l.IsPath() {
		return a.examineFolder(ctx, l.Path)
	}
	buckets.Lock()
	defer buckets.Unlock()
	o, err := a.bucket(l)
	if err != nil {
		return nil // the configuration has its findings
	}
	var found []doctor.Finding
	if file, ok := config.CredentialsFile(o.Credentials); ok {
		found = append(found, doctor.CredentialsFile(file))
	}
	if o, err = o.Resolved(ctx); err != nil {
		return append(found, doctor.Finding{Subject: arg, Check: "environment", Status: doctor.Fail, Detail: shown(err.Error()), Mend: "mend AWS_PROFILE, or the files that AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name, usually in ~/.aws"})
	}
	endpoint := cmp.Or(o.Endpoint, s3.AmazonEndpoint(cmp.Or(o.Region, s3.DefaultRegion)).String())
	if found = append(found, doctor.Endpoint(ctx, endpoint, o.CABundle)...); doctor.Failed(found) {
		return found
	}
	var busy atomic.Int64
	again := retry.Options{Notify: func(error) { busy.Add(1) }}
	found = append(found, doctor.Bucket(ctx, arg, func(ctx context.Context, stateDir string) (place mover.Backend, err error) {
		err = retry.Opening(ctx, again, l.String(), func() (err error) {
			place, err = a.open(ctx, l, engine.OpenOptions{Write: true, StateDir: stateDir})
			return err
		})
		if err != nil {
			return nil, err
		}
		return retry.New(place, again), nil
	})...)
	if n := busy.Load(); n > 0 {
		found = append(found, doctor.Finding{Subject: arg, Check: "answers", Status: doctor.Warn, Detail: fmt.Sprintf("%s failed for a time, and went well or were given up when they were tried again", units.Plural(n, "call", "calls")),
			Mend: "look at the load and the log of the server"})
	}
	return found
}

// tryTime is how long a folder may take that is written to and synced.
const tryTime = time.Minute

// examineFolder looks at a folder, and asks its file system what only that knows. One
// that hangs is found out by a look, before anything is tried in it.
func (a *app) examineFolder(ctx context.Context, dir string) []doctor.Finding {
	_, err := answered(ctx, answerTime, dir, func(context.Context) (struct{}, error) {
		_, _ = os.Stat(dir) // what is wrong with it is said below
		return struct{}{}, nil
	})
	var found, more []doctor.Finding
	if err == nil {
		found, err = answered(ctx, tryTime, dir, func(context.Context) ([]doctor.Finding, error) { return doctor.Folder(dir), nil })
	}
	if err == nil {
		more, err = question(ctx, a, dir, func(ctx context.Context, m *mounted) ([]doctor.Finding, error) {
			if !m.dir {
				return nil, nil
			}
			return doctor.FileSystem(ctx, dir, m.System, m.fd), nil
		})
	}
	if s := (*silence)(nil); errors.As(err, &s) {
		more = []doctor.Finding{{Subject: dir, Check: "folder", Status: doctor.Fail, Detail: s.short(), Mend: silenceMend}}
	}
	return append(found, more...) // that it can not be opened has been said
}

// print writes the findings, one line each, and what to do below those that are
// not fine.
func (v *doctorView) print(a *app, f format) error {
	for _, finding := range v.Findings {
		switch finding.Status {
		case doctor.Pass:
			v.Passed++
		case doctor.Warn:
			v.Warned++
		case doctor.Fail:
			v.Failed++
		}
	}
	if f != formatTable {
		return writeObject(a.out, f, v)
	}
	var b strings.Builder
	for _, finding := range v.Findings {
		if a.quiet && finding.Status == doctor.Pass {
			continue
		}
		fmt.Fprintf(&b, "%s  %s  %s: %s\n", a.mark(finding.Status), mover.Printable(finding.Subject), finding.Check, finding.Detail)
		if finding.Mend != "" {
			fmt.Fprintf(&b, "      mend: %s\n", finding.Mend)
		}
	}
	fmt.Fprintf(&b, "%d passed, %s, %d failed\n", v.Passed, units.Plural(int64(v.Warned), "warning", "warnings"), v.Failed)
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// mark is a status, in colour where that is wanted.
func (a *app) mark(s doctor.Status) string {
	return a.coloured(map[doctor.Status]string{doctor.Pass: green, doctor.Warn: yellow, doctor.Fail: red}[s], string(s))
}
