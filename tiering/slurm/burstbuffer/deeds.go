package burstbuffer

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"

	"datamove.dev/mover/location"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// deed is one thing to be done for a job, on one of its nodes or where all see it.
type deed struct {
	request directive.Request
	node    string // "" is where all nodes see it
	name    string // in the job's directory; "" is of what goes elsewhere
	dataset bool   // it is staged: once for all jobs that want it, read-only; else copied, for this job alone
	from    location.Location
	to      location.Location // of what is staged the tier alone
	aside   string            // where goes what it would replace; "" replaces
	mark    bool              // it waits, and says that the deed is to come
}

// summary tells people what is done, with the names that this job has.
func (d deed) summary() string {
	r := d.request
	if d.node == "" || !d.dataset {
		r.To = []location.Location{d.to}
	}
	if r.Verb == directive.StageIn && d.node != "" {
		r.To = d.request.To
	}
	text := r.Summary()
	if d.node != "" {
		text += " on " + d.node
	}
	return text
}

// site is a job and where its data can be.
type site struct {
	tiers  directive.Tiers
	own    slurm.Job
	values directive.Values

	versions map[string]string // of datasets that are asked for without a digest; those that are not there are the newest
}

// on is the site with the values of a node.
func (s site) on(node string) site {
	s.values.Node = node
	return s
}

// dir is the job's directory on the tier of a location that is below it.
func (s site) dir(l location.Location) location.Location {
	l.Path = path.Join(slurm.Jobs, s.own.Dir(), l.Path)
	return l
}

// shared are the deeds that put data where all nodes see it.
func (s site) shared(j directive.Job) (deeds []deed, err error) {
	for r := range j.Of(directive.StageIn) {
		if s.tiers.OfJob(r.To[0]) {
			continue
		}
		d := deed{request: r}
		if d.from, d.to, err = s.expand(r.From, r.To[0]); err != nil {
			return nil, err
		}
		deeds = append(deeds, d)
	}
	return deeds, nil
}

// arriving are the deeds that put data onto nodes, into the job's directory.
func (s site) arriving(j directive.Job, nodes []string) (deeds []deed, err error) {
	for r := range j.Of(directive.StageIn) {
		if !s.tiers.OfJob(r.To[0]) {
			continue
		}
		for _, node := range nodes {
			d := deed{request: r, node: node, dataset: r.From.IsDataset()}
			if d.from, d.to, err = s.on(node).expand(r.From, r.To[0]); err != nil {
				return nil, err
			}
			if d.name = d.to.Path; d.dataset {
				d.to.Path = ""
			} else {
				d.to = s.dir(d.to)
			}
			deeds = append(deeds, d)
		}
	}
	return deeds, nil
}

// leaving are the deeds that bring away what a job has written: what is in its directory from each of its nodes. job says what to do with
// names that several of them have.
func (s site) leaving(j directive.Job, nodes []string) (deeds []deed, err error) {
	for _, r := range j.Requests {
		if r.Verb != directive.StageOut && r.Verb != directive.Checkpoint {
			continue
		}
		ofJob := s.tiers.OfJob(r.From)
		for _, target := range r.To {
			for i, node := range nodes {
				if !ofJob && i > 0 {
					break // all nodes see the same
				}
				d := deed{request: r}
				if d.from, d.to, err = s.on(node).expand(r.From, target); err != nil {
					return nil, err
				}
				if ofJob {
					d.node, d.from = node, s.dir(d.from)
				}
				if ofJob && len(nodes) > 1 && !r.PerNode() {
					d.aside = s.aside(d.to) + fmt.Sprintf(".replaced-%d-%s", s.own.ID, node)
				}
				deeds = append(deeds, d)
			}
		}
	}
	return deeds, nil
}

// names refuses what the values of a job make of the names in what leaves it, and in what it purges.
func (s site) names(j directive.Job, nodes []string) error {
	_, err := s.leaving(j, nodes)
	for r := range j.Of(directive.Purge) {
		_, wrong := s.values.Expand(r.From)
		err = errors.Join(err, wrong)
	}
	return err
}

func (s site) expand(from, to location.Location) (f, t location.Location, err error) {
	if f, err = s.values.Expand(from); err == nil {
		t, err = s.values.Expand(to)
	}
	if f.IsDataset() && f.Digest == "" {
		f.Digest = s.versions[f.Name]
	}
	return f, t, err
}

// aside begins the name of the directory beside a target for what a copy would replace there, as options of tasks have it: an absolute path, or a
// prefix in the bucket.
func (s site) aside(to location.Location) string {
	at := to.Below()
	if to.InTier() {
		t := s.tiers.Named[to.Tier]
		at = path.Join(cmp.Or(t.Path, t.Prefix), to.Path)
	}
	return strings.TrimSuffix(at, "/")
}

// holder is the holder of what a deed stages. On a file system of all nodes it is another one than on a node.
func (s site) holder(d deed) string {
	if d.node == "" {
		return s.own.Holder("warm:" + d.name)
	}
	return s.own.Holder(d.name)
}

// key is what a copy is asked for by: the same for the same copy of the same run of a job.
func (x Record) key(d deed) string {
	return fmt.Sprintf("%d/%s/%t/%q/%q/%q/%q", x.Job, x.RunID(), d.mark, d.request.Verb, d.node, d.from.String(), d.to.String())
}
