package policy

import (
	"reflect"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/lustre"

	"datamove.dev/mover/config/yamldoc"
)

// Verb is what an action does.
type Verb string

// The verbs.
const (
	Keep      Verb = "keep"      // do nothing
	Notify    Verb = "notify"    // keep, and send a message
	Stage     Verb = "stage"     // bring a replica to a faster tier
	Archive   Verb = "archive"   // write a replica to a colder tier
	Replicate Verb = "replicate" // write replicas to other tiers
	Migrate   Verb = "migrate"   // archive, and release then
	Release   Verb = "release"   // give back fast space, where a verified replica exists
	Purge     Verb = "purge"     // remove what is on an ephemeral tier
	Evict     Verb = "evict"     // remove a cached replica, where another copy is known
	Retain    Verb = "retain"    // of checkpoints: keep some, and let the others go
	SetLayout Verb = "setLayout" // restripe
)

// does is what it does to a file, for people.
func (v Verb) does() string {
	if v == Retain {
		return "expire"
	}
	return string(v)
}

// Removes reports whether something may be gone by it.
func (v Verb) Removes() bool {
	return slices.Contains([]Verb{Migrate, Release, Purge, Evict, Retain}, v)
}

// Action is what a rule does to a file.
type Action struct {
	At   yamldoc.Position
	Type Verb `yaml:"type" declare:"required"` // what is done

	To          []string `yaml:"to"`          // tiers, or TIER:path; TIER@peer is the disk of another node than the file is on
	Verify      Verify   `yaml:"verify"`      // how a copy is checked
	Then        Verb     `yaml:"then"`        // release, once it is archived; "" is nothing
	MinReplicas Count    `yaml:"minReplicas"` // verified replicas elsewhere that a release needs; 0 is 1
	HSM         bool     `yaml:"hsm"`         // whether files are released that are in the archive (HSM) of their file system, and not replicas
	Class       Rank     `yaml:"class"`       // class of the tasks; "" is tier, or checkpoint for checkpoints
	RPO         Span     `yaml:"rpo"`         // age of a checkpoint that is not at the target yet, from which on a message is sent; 0 is no message

	KeepLast           Count    `yaml:"keepLast"`           // newest checkpoints that stay
	KeepEvery          Count    `yaml:"keepEvery"`          // checkpoints with a step that is a multiple of it stay; 0 is none
	KeepTagged         *bool    `yaml:"keepTagged"`         // whether checkpoints with a tag stay; nil is true
	NeverBelowVerified Count    `yaml:"neverBelowVerified"` // verified checkpoints that stay, at least 2; 0 is 2
	In                 []string `yaml:"in"`                 // tiers on which checkpoints go; none is all of the scope
	copied             bool     // the policy copies to other tiers, too

	Layout  string   `yaml:"layout"`  // layout of the files, as datamove layout set takes it
	Message string   `yaml:"message"` // text of the message; "" is the verdict alone
	Who     []string `yaml:"who"`     // recipients: users, roles, webhook:NAME of the configuration; none is the log of the service alone
}

// OnPeer reports whether a place is on the disk of another node than what is copied there, and names it without that: nvme@peer:path is nvme:path of that node.
func OnPeer(to string) (location string, is bool) {
	tier, path, has := strings.Cut(to, ":")
	if tier, is = strings.CutSuffix(tier, "@peer"); has {
		tier += ":" + path
	}
	return tier, is
}

// Target is what an action is to bring to, as a location: a tier alone is its root.
func Target(to string) string {
	if to == "" || strings.Contains(to, ":") {
		return to
	}
	return to + ":"
}

// Copied reports whether the policy of a retain copies to other tiers, too: then the newest checkpoint stays that is on another tier.
func (a *Action) Copied() bool { return a.copied }

// Copies reports whether an action copies files.
func (a *Action) Copies() bool {
	return slices.Contains([]Verb{Stage, Archive, Replicate, Migrate}, a.Type)
}

// Rank is the class of the tasks that an action makes.
type Rank string

var ranks = map[string]string{"checkpoint": "", "stage": "", "replicate": "", "tier": "", "scrub": ""}

func (c *Rank) Read(r *yamldoc.Reader, n *yaml.Node, field string) { *c = Rank(r.One(n, field, ranks)) }

// Verify is how well what was copied has to be checked.
type Verify string

// The levels. Without one it is ByServer.
const (
	ByServer  Verify = "server" // the store has compared checksums
	ByReading Verify = "read"   // it was read again
)

func (v *Verify) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*v = Verify(r.One(n, field, map[string]string{string(ByServer): "", string(ByReading): ""}))
}

// takes are the fields of each verb; those that are needed end in '!'.
var takes = map[Verb]string{
	Keep: "", Notify: "who message",
	Stage: "to! verify class", Archive: "to! verify then minReplicas class rpo", Replicate: "to! verify class rpo",
	Migrate: "to! verify minReplicas class", Release: "minReplicas hsm", Purge: "", Evict: "",
	Retain: "keepLast! keepEvery keepTagged neverBelowVerified in", SetLayout: "layout!",
}

func (v *Verb) Read(r *yamldoc.Reader, n *yaml.Node, field string) { *v = Verb(r.One(n, field, verbs)) }

var verbs = func() map[string]string {
	all := map[string]string{}
	for v := range takes {
		all[string(v)] = ""
	}
	return all
}()

// Read implements yamldoc.Own: a verb alone, or a table.
func (a *Action) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	a.At = yamldoc.PositionOf(n)
	if n.Kind == yaml.ScalarNode {
		a.Type.Read(r, n, field)
		a.needs(r, n, field)
		return
	}
	r.Table(n, field, a)
	if n.Kind == yaml.MappingNode && a.Type != "" {
		a.fields(r, n, field)
		a.needs(r, n, field)
	}
}

// fields refuses those that the verb does not have.
func (a *Action) fields(r *yamldoc.Reader, n *yaml.Node, field string) {
	known := yamldoc.Fields(reflect.TypeFor[Action]())
	for i := 0; i < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if _, is := known[name]; is && name != "type" && !slices.Contains(a.takes(), name) {
			what := "only: " + strings.Join(a.takes(), ", ")
			if len(a.takes()) == 0 {
				what = "no other field"
			}
			r.Add(n.Content[i], yamldoc.Join(field, name), "%s does not have it; it has %s", a.Type, what)
		}
	}
	switch {
	case a.Then != "" && a.Then != Release:
		r.Add(n, yamldoc.Join(field, "then"), "want release, and not %s", a.Then)
	case a.HSM && a.MinReplicas > 0:
		r.Add(n, yamldoc.Join(field, "minReplicas"), "hsm has the copy in the archive of the file system, and asks for no other")
	case a.Type == SetLayout && a.Layout != "":
		if _, _, err := lustre.ParseWanted(a.Layout); err != nil {
			r.Add(n, yamldoc.Join(field, "layout"), "%v", err)
		}
	case a.Type == Retain && a.NeverBelowVerified == 1:
		r.Add(n, yamldoc.Join(field, "neverBelowVerified"), "want 2 or more: the last but one is the way back when the last is bad")
	}
}

func (a *Action) takes() []string { return strings.Fields(strings.ReplaceAll(takes[a.Type], "!", "")) }

// needs names those that are missing.
func (a *Action) needs(r *yamldoc.Reader, n *yaml.Node, field string) {
	known, own := yamldoc.Fields(reflect.TypeFor[Action]()), reflect.ValueOf(a).Elem()
	for name := range strings.FieldsSeq(takes[a.Type]) {
		name, needed := strings.CutSuffix(name, "!")
		if needed && own.Field(known[name]).IsZero() && !r.Within(yamldoc.Join(field, name)) {
			r.Add(n, yamldoc.Join(field, name), "%s needs it", a.Type)
		}
	}
}
