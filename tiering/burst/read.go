package burst

import (
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/checkpoint"
)

// kindName is what a document calls itself.
const kindName = "Burst"

// Read reads the bursts in a text, and says all that is wrong with them: yamldoc.Problems, which are mover.ErrUsage. file is its name, for people.
func Read(file string, text []byte) ([]*Burst, error) {
	r := &yamldoc.Reader{File: file}
	var all []*Burst
	for _, doc := range r.Documents(text) {
		b := &Burst{File: file}
		r.Into(doc, "", b)
		if text, err := yaml.Marshal(doc); err != nil || len(text) > yamldoc.TextMost {
			r.Add(doc, "", "can not be kept: it is too long when it is written out")
		} else {
			b.Text = string(text)
		}
		if b.Kind != "" && b.Kind != kindName {
			r.Add(doc, "kind", "want %s, and not %q", kindName, b.Kind)
		}
		c := checker{r, doc}
		c.burst(b)
		if twice := slices.IndexFunc(all, func(a *Burst) bool { return a.Metadata.Name == b.Metadata.Name }); twice >= 0 && b.Metadata.Name != "" {
			r.Add(doc, "metadata.name", "%s is the name of the burst in line %d, too", b.Metadata.Name, all[twice].At.Line)
		}
		all = append(all, b)
	}
	if len(all) == 0 && len(r.Problems) == 0 {
		r.Add(nil, "", "there is no burst in it")
	}
	return all, r.Err()
}

// checker says what is wrong with what was read.
type checker struct {
	r   *yamldoc.Reader
	doc *yaml.Node
}

// wrong notes what is wrong with a field that is there, unless it is noted that it could not be read.
func (c checker) wrong(field, format string, args ...any) {
	if !c.r.Within(field) {
		c.r.Add(find(c.doc, field), field, format, args...)
	}
}

// find is where a field, as "spec.data[1].to", stands; the nearest table or list that there is.
func find(n *yaml.Node, field string) *yaml.Node {
	for _, step := range strings.FieldsFunc(field, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		next := child(n, step)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func child(n *yaml.Node, step string) *yaml.Node {
	var at int
	if _, err := fmt.Sscanf(step, "%d", &at); err == nil && n.Kind == yaml.SequenceNode && at < len(n.Content) {
		return n.Content[at]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1]
		}
	}
	return nil
}

// The forms of names in AWS, as its API reference gives them.
var (
	regionForm   = mover.Pattern(`^[a-z]{2}(-[a-z]{2,12}){1,2}-[1-9][0-9]?$`)
	subnetForm   = mover.Pattern(`^subnet-[0-9a-f]{8,17}$`)
	groupForm    = mover.Pattern(`^sg-[0-9a-f]{8,17}$`)
	keyForm      = mover.Pattern(`^arn:aws[a-z-]*:kms:([a-z0-9-]+):[0-9]{12}:key/[0-9a-zA-Z-]+$`)
	roleForm     = mover.Pattern(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$`)
	instanceForm = mover.Pattern(`^[a-z][a-z0-9-]{0,15}\.[a-z0-9-]{2,16}$`)
	labelForm    = mover.Pattern(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`) // of the keys and values of tags
)

// wordForm is what kinds of jobs are called.
var wordForm = mover.Pattern(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// priorities, the least first.
var priorities = []string{"low", "normal", "high", "urgent"}

// Bounds of numbers, far beyond what there is.
const (
	gpusMost      = 1_000_000
	instancesMost = 100_000
	listMost      = 64 // entries of a list
	keyMost       = 1024
	labelsMost    = 32
	labelMost     = 128
	roleMost      = 600
)

func (c checker) burst(b *Burst) {
	s := &b.Spec
	c.labels(b.Metadata.Labels)
	c.job(&s.Job)
	c.cloud(&s.Cloud)
	if _, known := egress[s.Link.Kind]; !known && s.Link.Kind != "" {
		c.wrong("spec.link.kind", "unknown word %q; want directConnect, internet or vpn", s.Link.Kind)
	}
	if s.Cap < 0 {
		c.wrong("spec.cap", "want money, like $5,000")
	}
	if n := len(s.Data) + len(s.Checkpoints) + len(s.Results); n == 0 || n > listMost {
		c.wrong("spec", "has %d directories in data, checkpoints and results; want 1 to %d", n, listMost)
	}
	c.directories(b)
	if longest := b.Location(Path(strings.Repeat("x", 64))); len(longest) > keyMost {
		c.wrong("spec.cloud.prefix", "is too long")
	}
}

func (c checker) labels(labels map[string]string) {
	if len(labels) > labelsMost {
		c.wrong("metadata.labels", "are %d; want at most %d", len(labels), labelsMost)
	}
	for key, value := range labels {
		if len(key) < 1 || len(key) > labelMost || len(value) > 2*labelMost || !labelForm().MatchString(key+value) || mover.Printable(key+value) != key+value ||
			strings.HasPrefix(strings.ToLower(key), "aws:") || strings.HasPrefix(key, TagPrefix) {
			c.wrong("metadata.labels."+mover.Printable(key), "AWS takes letters, digits, spaces and _ . : / = + - @ in a tag, and no aws: at its beginning; %s is ours", TagPrefix)
		}
	}
}

func (c checker) job(j *Job) {
	if j.Kind != "" && !wordForm().MatchString(j.Kind) {
		c.wrong("spec.job.kind", "%q: want a word, like training", j.Kind)
	}
	if j.Priority != "" && !slices.Contains(priorities, j.Priority) {
		c.wrong("spec.job.priority", "unknown word %q; want %s", j.Priority, strings.Join(priorities, ", "))
	}
	if j.GPUs > gpusMost {
		c.wrong("spec.job.gpus", "want at most %d", gpusMost)
	}
	if j.Instances.Count > instancesMost {
		c.wrong("spec.job.instances.count", "want at most %d", instancesMost)
	}
	if i := j.Instances; i.Type != "" && !instanceForm().MatchString(i.Type) {
		c.wrong("spec.job.instances.type", "%q is no type of an instance, like p5.48xlarge", i.Type)
	} else if (i.Type == "") != (i.Count == 0) {
		c.wrong("spec.job.instances", "want both type and count")
	}
}

func (c checker) cloud(w *Cloud) {
	if tier, err := location.Parse(w.Tier + ":"); w.Tier != "" && (err != nil || !tier.InTier()) {
		c.wrong("spec.cloud.tier", "%q is no tier of a configuration, like cloud", w.Tier)
	}
	if w.Region != "" && !regionForm().MatchString(w.Region) {
		c.wrong("spec.cloud.region", "%q is no region of AWS, like us-east-1", w.Region)
	}
	if m := keyForm().FindStringSubmatch(w.KMSKey); w.KMSKey != "" && (m == nil || m[1] != w.Region) {
		c.wrong("spec.cloud.kmsKey", "%q is not the ARN of a key in %s", w.KMSKey, w.Region)
	}
	if w.Role != "" && (len(w.Role) > roleMost || !roleForm().MatchString(w.Role)) {
		c.wrong("spec.cloud.role", "%q is not the ARN of a role, like arn:aws:iam::123456789012:role/burst", w.Role)
	}
	if f := w.FileSystem; f != nil {
		c.fileSystem(f)
	}
}

func (c checker) fileSystem(f *FileSystem) {
	const at = "spec.cloud.fileSystem"
	switch f.Type {
	case Scratch2:
		if f.Throughput != 0 {
			c.wrong(at+".throughput", "is of %s; a file system of %s has 200 MB/s per TiB", Persistent2, Scratch2)
		}
		if f.EFA {
			c.wrong(at+".efa", "is of %s only", Persistent2)
		}
	case Persistent2:
		if !slices.Contains(throughputs, f.Throughput) {
			c.wrong(at+".throughput", "want MB/s per TiB: 125, 250, 500 or 1000")
		}
	default:
		if f.Type != "" {
			c.wrong(at+".type", "unknown word %q; want %s or %s", f.Type, Persistent2, Scratch2)
		}
	}
	if f.Subnet != "" && !subnetForm().MatchString(f.Subnet) {
		c.wrong(at+".subnet", "%q is no subnet, like subnet-0123456789abcdef0", f.Subnet)
	}
	for i, g := range f.SecurityGroups {
		if !groupForm().MatchString(g) {
			c.wrong(fmt.Sprintf("%s.securityGroups[%d]", at, i), "%q is no security group, like sg-0123456789abcdef0", g)
		}
	}
	if f.Capacity > 0 {
		if _, err := capacityOf(int64(f.Capacity)); err != nil {
			c.wrong(at+".capacity", "%v", err)
		}
	}
}

// directories holds to it that no directory of a burst is within another one, there and where they come home, and that locations can be read.
func (c checker) directories(b *Burst) {
	fields, homes := map[string]Path{}, map[string]string{}
	stands := map[string]string{} // as it is written
	take := func(field string, path Path, where string) {
		for other, p := range fields {
			if path != "" && (mover.Within(string(path), string(p)) || mover.Within(string(p), string(path))) {
				c.wrong(field, "%q and %q, which is %s, are one in the other", path, p, other)
			}
		}
		fields[field] = path
		at := field[:strings.LastIndexByte(field, '.')] + "." + where
		text := c.text(at)
		if text == "" {
			return
		}
		l, err := location.Parse(text)
		if err != nil {
			c.wrong(at, "%v", err)
			return
		}
		if mover.Printable(text) != text {
			c.wrong(at, "%q has characters that can not be printed", text)
		}
		if where != "home" {
			return
		}
		l.TrailingSlash = false
		here := strings.TrimSuffix(strings.Replace(l.String(), ":", "/", 1), "/")
		for other, there := range homes {
			if mover.Within(here, there) || mover.Within(there, here) {
				c.wrong(at, "%q and %q, which is %s, are one in the other: what comes home of one would take the place of the other", text, stands[other], other)
			}
		}
		homes[at], stands[at] = here, text
	}
	for i, d := range b.Spec.Data {
		take(fmt.Sprintf("spec.data[%d].to", i), d.To, "from")
		if (d.Size == 0) != (d.Files == 0) {
			c.wrong(fmt.Sprintf("spec.data[%d]", i), "want both size and files, or none of them")
		}
		for _, r := range d.Residency {
			if !residencyForm().MatchString(r) {
				c.wrong(fmt.Sprintf("spec.data[%d].residency", i), "%q is no region, and no beginning of one, like eu or us-east-1", r)
			}
		}
	}
	for i, k := range b.Spec.Checkpoints {
		if profiles := checkpoint.Profiles(); k.Profile != "" && !slices.Contains(profiles, checkpoint.Profile(k.Profile)) {
			c.wrong(fmt.Sprintf("spec.checkpoints[%d].profile", i), "unknown word %q; want one of %v", k.Profile, profiles)
		}
		take(fmt.Sprintf("spec.checkpoints[%d].path", i), k.Path, "home")
	}
	for i, k := range b.Spec.Results {
		take(fmt.Sprintf("spec.results[%d].path", i), k.Path, "home")
	}
}

// text is what stands at a field.
func (c checker) text(field string) string {
	if n := find(c.doc, field); n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}
