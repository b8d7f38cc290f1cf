package burstbuffer

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// ground is where the jobs of these properties are.
var ground = directive.Tiers{Named: map[string]directive.Tier{
	"scratch": {Level: directive.Hot, Path: "/nvme", NodeLocal: true, Ephemeral: true},
	"project": {Level: directive.Warm, Path: "/lustre/project"},
	"archive": {Level: directive.Cold, Bucket: "archive", Prefix: "site"},
}}

// asks draws a job that may ask for what it does.
func asks(t *rapid.T) directive.Job {
	name := rapid.OneOf(rapid.StringMatching(`[a-z_.%{}:@~-]{1,6}`), rapid.SampledFrom([]string{"%j", "%u", "%x", "%a", "%A", "{node}", "_", "run-%j", "a/b", "a/{node}", "x.replaced-7-n1"}))
	at := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"/lustre/", "project:", "archive:", "s3://bucket/", "scratch:", "dataset:"}).Draw(t, "where") + name.Draw(t, "name") + rapid.SampledFrom([]string{"", "/"}).Draw(t, "slash")
	})
	line := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%s=%s to=%s", rapid.SampledFrom([]string{"stage-in", "stage-out", "checkpoint"}).Draw(t, "verb"), at.Draw(t, "from"), at.Draw(t, "to"))
	})
	var lines []string
	for _, l := range rapid.SliceOfN(line, 1, 6).Draw(t, "lines") {
		if _, err := directive.Parse(directive.Text{Script: script(append(lines, l)...)}, ground); err == nil {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		t.Skip("nothing of it may be asked for")
	}
	job := must.Get(directive.Parse(directive.Text{Script: script(lines...)}, ground))(t)
	return job
}

// TestDeeds: whatever a job asks for, and wherever it runs, what is done for it stays within its own directory, or is where it has said;
// no two deeds are taken for one, also not of another run; and several nodes replace nothing of each other.
//
//safety:6 where a job's requests may write on its nodes; changed records
func TestDeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := asks(t)
		nodes := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n1", "n2", "_", "gpu-3"}), 1, 3, rapid.ID).Draw(t, "nodes")
		word := rapid.OneOf(rapid.StringMatching(`[a-z_.]{1,5}`), rapid.SampledFrom([]string{"..", "a/b", "_", "\n", ""}))
		s := site{tiers: ground, own: slurm.Job{ID: 7, UID: 1000}, values: directive.Values{Job: "7", User: word.Draw(t, "user"), Name: word.Draw(t, "job"), Array: "3", Task: "4"}}
		record := Record{Job: 7, UID: 1000, Began: time.Unix(1, 0), Asked: job}
		w := &work{Record: record, site: s}
		var all []deed
		for _, some := range []func() ([]deed, error){func() ([]deed, error) { return s.shared(job) }, func() ([]deed, error) { return s.arriving(job, nodes) },
			func() ([]deed, error) { return s.leaving(job, nodes) }, w.marks} {
			deeds, err := some()
			if err != nil {
				continue // a value can not stand in a name
			}
			all = append(all, deeds...)
		}
		keys, asides := map[string]deed{}, map[string]bool{}
		for _, d := range all {
			if !d.dataset {
				if k := record.key(d); keys[k].request.Verb != "" {
					t.Errorf("%+v and %+v are the same", keys[k], d)
				} else {
					keys[k] = d
				}
			}
			stays(t, s, d, len(nodes))
			if at := fmt.Sprintf("%v %s %s %s", d.to.Scheme, d.to.Bucket, d.to.Tier, d.aside); d.aside != "" && asides[at] {
				t.Errorf("%+v: two copies put aside what they replace in one place", d)
			} else {
				asides[at] = true
			}
		}
		later := record
		later.Began = record.Began.Add(time.Duration(rapid.IntRange(1, 1e9).Draw(t, "later")))
		for k, d := range keys {
			if record.key(d) != k {
				t.Errorf("%+v has the keys %q and %q", d, k, record.key(d))
			}
			if _, same := keys[later.key(d)]; same {
				t.Errorf("%+v is the same in another run", d)
			}
		}
	})
}

// stays looks where a deed reads and writes.
func stays(t *rapid.T, s site, d deed, nodes int) {
	own := path.Join(slurm.Jobs, s.own.Dir())
	if strings.HasPrefix(d.name, "/") || d.name != "" && !mover.ValidName(strings.TrimSuffix(d.name, "/")) {
		t.Errorf("%+v has a name that leads elsewhere", d)
	}
	ofJob := func(l location.Location) bool { return s.tiers.OfJob(l) }
	switch d.request.Verb {
	case directive.StageIn:
		if ofJob(d.from) || (d.node != "") != ofJob(d.to) || d.node != "" && !d.dataset && !mover.Within(d.to.Path, own) {
			t.Errorf("%+v", d)
		}
	default:
		if ofJob(d.to) || (d.node != "") != ofJob(d.from) || d.node != "" && !mover.Within(d.from.Path, own) {
			t.Errorf("%+v", d)
		}
	}
	if d.to.Scheme == location.Dataset || strings.Contains("/"+d.to.Path+"/"+d.to.Prefix+"/", "/../") {
		t.Errorf("%+v goes elsewhere", d)
	}
	needs := !d.mark && d.node != "" && d.request.Verb != directive.StageIn && nodes > 1 && !d.request.PerNode()
	if (d.aside != "") != needs {
		t.Errorf("%+v of %d nodes", d, nodes)
	}
	if d.aside == "" {
		return
	}
	target := strings.TrimSuffix(s.aside(d.to), "/")
	if !strings.Contains(d.aside, d.node) || mover.Within(strings.TrimPrefix(d.aside, "/"), strings.TrimPrefix(target, "/")) {
		t.Errorf("%+v: what is put aside lies in %s", d, target)
	}
}

// TestMarks: each thing that leaves the nodes has a mark of its own, which no real deed is taken for, also on a node whose name stands
// for one that is not known.
func TestMarks(t *testing.T) {
	text := script("stage-out=scratch:out to=project:%x", "stage-out=project:a to=archive:a", "checkpoint=scratch:ckpt to=project:ckpt,archive:ckpt")
	job := must.Get(directive.Parse(directive.Text{Script: text}, ground))(t)
	w := &work{Record: Record{Job: 7, UID: 1000, Asked: job}, site: site{tiers: ground, own: slurm.Job{ID: 7, UID: 1000}, values: directive.Values{Job: "7", User: "u"}}}
	marks := must.Get(w.marks())(t)
	var keys []string
	for _, d := range marks {
		keys = append(keys, w.key(d))
	}
	slices.Sort(keys)
	if len(slices.Compact(keys)) != 3 {
		t.Errorf("%q", keys)
	}
	w.at(Place{Name: "_"})
	deeds := must.Get(w.leaving(job, []string{"_"}))(t)
	for _, d := range deeds {
		if slices.Contains(keys, w.key(d)) {
			t.Errorf("%+v is taken for its mark", d)
		}
	}
}
