package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/doctor"
	"datamove.dev/cmd/datamove/units"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
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
	cmd := &cobra.Command{
		Use:     "doctor [flags] [LOCATION...]",
		Short:   "Check what copies depend on, and say how to mend it",
		GroupID: groupRest,
		Long: `Doctor checks the configuration, the limits of this process, and every tier, or
the locations that are named: file systems (type, space, inodes, rights, extended
attributes, O_DIRECT, reflinks, what interrupted runs left) and S3 endpoints
(reach, certificate, clock, rights, speed, checksums, conditional writes, uploads
that nobody finished).

To try a place it writes a little there and removes it again. The exit code is 1
when a check fails.`,
		Example: `  datamove doctor
  datamove doctor /scratch s3://archive/team-a`,
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		v := doctorView{Schema: "datamove.doctor/v1", Findings: a.examine(ctx, args)}
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
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatYAML)
	return cmd
}

// examine does all checks that make sense: with a broken configuration, those that
// need none.
func (a *app) examine(ctx context.Context, args []string) []doctor.Finding {
	conf, err := a.config()
	found := append(doctor.Configuration(conf, err), doctor.Limits()...)
	found = append(found, doctor.State(a.stateDir()))
	if err == nil && len(args) == 0 {
		for _, name := range slices.Sorted(maps.Keys(conf.Tiers)) {
			args = append(args, name+":")
		}
	}
	for _, arg := range args {
		found = append(found, a.examineLocation(ctx, conf, arg)...)
	}
	return found
}

// stateDir is where journals are kept.
func (a *app) stateDir() string {
	if dir := a.env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "datamove")
	}
	return filepath.Join(cmp.Or(a.env("HOME"), os.TempDir()), ".local", "state", "datamove")
}

func (a *app) examineLocation(ctx context.Context, conf *config.Config, arg string) []doctor.Finding {
	l, err := a.locate(arg)
	if err != nil {
		return []doctor.Finding{{Subject: arg, Check: "location", Status: doctor.Fail, Detail: err.Error(), Mend: "mend the location, or the configuration"}}
	}
	if l.Scheme == location.POSIX {
		return doctor.Folder(l.Path)
	}
	o, err := a.bucket(l)
	if err != nil {
		return nil // the configuration has its findings
	}
	var found []doctor.Finding
	if file, ok := config.CredentialsFile(o.Credentials); ok {
		found = append(found, doctor.CredentialsFile(file))
	}
	endpoint := cmp.Or(o.Endpoint, a.env("AWS_ENDPOINT_URL_S3"), a.env("AWS_ENDPOINT_URL"))
	if endpoint == "" {
		endpoint = "https://s3." + cmp.Or(o.Region, a.env("AWS_REGION"), a.env("AWS_DEFAULT_REGION"), "us-east-1") + ".amazonaws.com"
	}
	if found = append(found, doctor.Endpoint(ctx, endpoint, o.CABundle)...); doctor.Failed(found) {
		return found
	}
	return append(found, doctor.Bucket(ctx, arg, func(ctx context.Context, stateDir string) (mover.Place, error) {
		return a.open(ctx, l, local.OpenOptions{Write: true, StateDir: stateDir})
	})...)
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

// mark is a status, in colour where that is wanted (no-color.org).
func (a *app) mark(s doctor.Status) string {
	if _, ok := a.terminal(a.out); !ok || a.env("NO_COLOR") != "" {
		return string(s)
	}
	colour := map[doctor.Status]string{doctor.Pass: "32", doctor.Warn: "33", doctor.Fail: "31"}[s]
	return "\x1b[" + colour + "m" + string(s) + "\x1b[0m"
}
