// Package jobenv tells a job where its data is on a machine without Slurm's hooks: a spot instance that SkyPilot has begun, a pod, a desk.
//
// It reads the requests that stand in the job's script, and gives the variables that a task prolog gives (tiering/slurm): so one script, in one container
// image, finds its data on premises and in a cloud, by the tiers of the configuration that it finds there. What is to be there has been brought before, or is
// read where all machines see it: nothing is moved here, and the only deeds are to make the job's directory and that of its checkpoints.
//
// A script is its user's, and hostile: a request is checked as Slurm's are (tiering/slurm/directive), and a value has no line of its own. TestVariables shows it, and
// test/script/s3/burst-environment.txt the same script in two places.
package jobenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/burstbuffer"
	"datamove.dev/tiering/slurm/directive"
)

// Job is a job on a machine of its own.
type Job struct {
	Config *config.Config
	Values directive.Values         // what patterns stand for; Job is the name of its directory, and has to be given
	Told   func(name string) string // what a hook has told before, which holds; nil is nothing

	tiers directive.Tiers
	dir   string
	vars  map[string]string
}

// Variables are those that a script finds, sorted by name; one that is "" is not to be set. mover.ErrUsage is a mistake in a request, and mover.ErrNotExist
// a thing that is required and is nowhere.
func (j *Job) Variables(ctx context.Context, script directive.Text) (vars [][2]string, err error) {
	j.tiers, j.vars = burstbuffer.TiersOf(j.Config), map[string]string{slurm.VarHot: "1", slurm.VarResume: ""}
	asked, err := directive.Parse(script, j.tiers)
	if err == nil {
		err = j.directory()
	}
	if err != nil {
		return nil, err
	}
	for r := range asked.Of(directive.StageIn) {
		err = errors.Join(err, j.data(r))
	}
	for r := range asked.Of(directive.Checkpoint) {
		err = errors.Join(err, j.checkpoints(r))
	}
	if err != nil {
		return nil, err
	}
	for _, v := range slurm.Resume(ctx, environ(j.vars)) {
		j.vars[v[0]] = v[1]
	}
	maps.DeleteFunc(j.vars, func(name, _ string) bool { return j.told(name) != "" })
	for _, name := range slices.Sorted(maps.Keys(j.vars)) {
		if strings.ContainsAny(j.vars[name], "\n\r\x00") {
			return nil, fmt.Errorf("%w: the path for %s has a line break in it", mover.ErrUsage, name)
		}
		vars = append(vars, [2]string{name, j.vars[name]})
	}
	return vars, nil
}

// directory makes that of the job, where the configuration has a tier for it.
func (j *Job) directory() error {
	if j.tiers.Scratch == "" {
		return nil
	}
	if name := j.Values.Job; name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\n\r\x00") {
		return fmt.Errorf("%w: %q is no name for the directory of a job", mover.ErrUsage, mover.Printable(name))
	}
	if j.dir = j.told(slurm.VarDir); filepath.IsAbs(j.dir) {
		return nil
	}
	j.dir = filepath.Join(j.Config.Tiers[j.tiers.Scratch].Path, j.Values.Job)
	j.vars[slurm.VarDir] = j.dir
	return os.MkdirAll(j.dir, 0o755)
}

// told is what a hook has said of a variable; "" is nothing.
func (j *Job) told(name string) string {
	if j.Told == nil {
		return ""
	}
	return j.Told(name)
}

// data is where something is to be read that the script wants to have staged.
func (j *Job) data(r directive.Request) error {
	from, err := j.Values.Expand(r.From)
	if err != nil {
		return err
	}
	to, err := j.Values.Expand(r.To[0])
	if err != nil || !j.tiers.OfJob(r.To[0]) {
		return err
	}
	base := path.Clean(strings.TrimPrefix(to.Path, "/"))
	if j.told(slurm.VarIn+slurm.Variable(base)) != "" {
		return nil
	}
	name, here, warm := slurm.Variable(base), filepath.Join(j.dir, base), j.path(from)
	if _, err := os.Stat(warm); warm == "" || errors.Is(err, fs.ErrNotExist) {
		warm = ""
	}
	j.vars[slurm.VarWarm+name], j.vars[slurm.VarIn+name] = warm, here
	if _, err := os.Stat(here); err == nil {
		return nil
	}
	j.vars[slurm.VarIn+name], j.vars[slurm.VarHot] = warm, "0"
	if warm == "" && r.Required {
		return fmt.Errorf("%s: %w on this machine: bring it first: datamove copy %[1]s %[3]s", mover.Printable(from.String()), mover.ErrNotExist, mover.Printable(here))
	}
	return nil
}

// checkpoints are where the script writes them, and where all machines see those that have left.
func (j *Job) checkpoints(r directive.Request) error {
	from, err := j.Values.Expand(r.From)
	if err != nil {
		return err
	}
	at, saved := j.path(from), j.path(from)
	if j.tiers.OfJob(r.From) {
		at, saved = filepath.Join(j.dir, from.Path), ""
		for _, to := range r.To {
			to, err := j.Values.Expand(to)
			if err != nil {
				return err
			}
			if p := j.path(to); saved == "" {
				saved = p
			}
		}
	}
	if at == "" {
		return nil
	}
	name := slurm.Variable(strings.Trim(from.Path, "/"))
	if j.told(slurm.VarCheckpointOf+name) != "" {
		return nil
	}
	if j.vars[slurm.VarCheckpoint] == "" {
		j.vars[slurm.VarCheckpoint] = at
	}
	j.vars[slurm.VarCheckpointOf+name] = at
	if saved != "" {
		j.vars[slurm.VarSaved+name], j.vars[slurm.VarProfile+name] = saved, string(r.Profile)
	}
	return os.MkdirAll(at, 0o755)
}

// path is that of a location which this machine sees as files; "" is none.
func (j *Job) path(l location.Location) string { return j.Config.PathOf(l) }

func environ(vars map[string]string) (all []string) {
	for name, value := range vars {
		all = append(all, name+"="+value)
	}
	return all
}
