package burstbuffer

import (
	"maps"
	"path"
	"slices"
	"strings"

	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// Paths are the variables that the script of a job finds in its environment, as lines NAME=VALUE, sorted. It calls no service: Slurm's
// controller waits for it. On the nodes the task prolog says what is really there.
func (c *Controller) Paths(job uint32) (lines []string, err error) {
	w, err := c.begin(job)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	dir := w.directory()
	if dir != "" {
		vars[slurm.VarDir] = dir
	}
	deeds, err := w.foreseeable()
	if err != nil {
		return nil, err
	}
	for _, d := range deeds {
		name := path.Clean(strings.TrimPrefix(d.request.To[0].Path, "/"))
		if strings.Contains(name, "%") {
			continue // its name is known on the node alone
		}
		vars[slurm.VarIn+slurm.Variable(name)] = path.Join(dir, name)
		at := w.staged.Paths[d.name]
		if !d.dataset {
			at = w.seen(d.from)
		}
		if at != "" {
			vars[slurm.VarWarm+slurm.Variable(name)] = at
		}
	}
	w.checkpoints(vars, dir)
	for _, v := range w.Asked.Variables() {
		vars[v.Name] = path.Join(dir, v.At.Path) + "/"
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !strings.ContainsAny(vars[name], "\n\r\x00") {
			lines = append(lines, name+"="+vars[name])
		}
	}
	return lines, nil
}

// checkpoints are the variables of those. The task prolog looks which is the newest where they have gone.
func (w *work) checkpoints(vars map[string]string, dir string) {
	for r := range w.Asked.Of(directive.Checkpoint) {
		from, err := w.values.Expand(r.From)
		if err != nil || strings.Contains(r.From.String(), "%A") {
			continue // it is known on the node alone
		}
		at, saved := w.seen(from), ""
		if w.tiers.OfJob(r.From) {
			at = path.Join(dir, from.Path)
			for _, to := range r.To {
				if to, err := w.values.Expand(to); err == nil && saved == "" && !strings.Contains(to.String(), "%A") {
					saved = w.seen(to)
				}
			}
		} else {
			saved = at
		}
		if at == "" {
			continue
		}
		name := slurm.Variable(strings.Trim(from.Path, "/"))
		if _, first := vars[slurm.VarCheckpoint]; !first {
			vars[slurm.VarCheckpoint] = at
		}
		vars[slurm.VarCheckpointOf+name] = at
		if saved != "" {
			vars[slurm.VarSaved+name], vars[slurm.VarProfile+name] = saved, string(r.Profile)
		}
	}
}

// directory is the job's on its nodes; "" is none.
func (w *work) directory() string {
	tier, err := w.Config.ScratchTier()
	if err != nil {
		return ""
	}
	return path.Join(w.Config.Tiers[tier].Path, slurm.Jobs, w.own.Dir())
}
