package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover/config/yamldoc"
)

// Policy is one document.
type Policy struct {
	At       yamldoc.Position
	Kind     string   `yaml:"kind" declare:"required"` // TierPolicy
	Metadata Metadata `yaml:"metadata" declare:"required"`
	Spec     Spec     `yaml:"spec" declare:"required"`

	File string // that it was read from
	Text string // of the document, without its comments' places: it reads as the same policy

	places yamldoc.Positions
}

// Digest names what a policy says: SHA-256, in hex.
func (p *Policy) Digest() string {
	sum := sha256.Sum256([]byte(p.Text))
	return hex.EncodeToString(sum[:])
}

// Metadata says what a policy is called, and which owner it has.
type Metadata struct {
	Name   Name              `yaml:"name" declare:"required"` // name of the policy; no two of a service have the same
	Owner  string            `yaml:"owner"`                   // user or group that is told of runs which stop or wait; "" is none
	Labels map[string]string `yaml:"labels"`                  // texts of the site's choice by name; nil is none
}

// Spec is what a policy does.
type Spec struct {
	Mode     Mode              `yaml:"mode"` // what a run does
	Scope    Scope             `yaml:"scope" declare:"required"`
	Schedule *Schedule         `yaml:"schedule"` // nil is no run at a time
	Trigger  []Trigger         `yaml:"trigger"`  // nil is no run by what happens
	Source   Source            `yaml:"source"`
	Vars     map[string]Values `yaml:"vars"`                     // lists of texts for expressions, by name; nil is none
	Classes  []Class           `yaml:"classes"`                  // nil is none
	Rules    []Rule            `yaml:"rules" declare:"required"` // looked at in their order; the first that matches a file decides, and a file without one is kept
	Order    Order             `yaml:"order"`
	Limits   Limits            `yaml:"limits"`
	Safety   Safety            `yaml:"safety"`
	Report   Report            `yaml:"report"`
}

// Values is a list of texts that expressions can use by its name.
type Values []string

// Mode says what a run of a policy does.
type Mode string

// The modes. Without one it is ModePlan.
const (
	ModePlan    Mode = "plan"    // lists what would be done
	ModeCanary  Mode = "canary"  // does it for a small part of the files
	ModeEnforce Mode = "enforce" // does it
)

var modes = map[string]string{string(ModePlan): "", string(ModeCanary): "", string(ModeEnforce): ""}

func (m *Mode) Read(r *yamldoc.Reader, n *yaml.Node, field string) { *m = Mode(r.One(n, field, modes)) }

// Scope is which files a policy is about.
type Scope struct {
	Roots         []string `yaml:"roots" declare:"required"` // TIER:path
	Exclude       []Glob   `yaml:"exclude"`                  // names that are left alone; nil is none
	OneFilesystem bool     `yaml:"oneFilesystem"`            // whether file systems that are mounted below a root are left alone
}

// Schedule says when a policy runs by itself.
type Schedule struct {
	At      yamldoc.Position
	Cron    string  `yaml:"cron" declare:"required"` // when a run begins: five fields, or @daily and the like
	TZ      string  `yaml:"tz"`                      // time zone; "" is UTC
	Window  Span    `yaml:"window"`                  // time after the begin of a run from which on no more actions begin; 0 is no end
	Jitter  Span    `yaml:"jitter"`                  // the begin is up to that much later; 0 is at once
	Missed  Missed  `yaml:"missed"`                  // what becomes of a run that was due while the service was down
	Overlap Overlap `yaml:"overlap"`                 // what becomes of a run that is due while another goes on
}

// Missed says what happens to a run that was due while the service was down.
type Missed string

// The ways. Without one it is RunOnce.
const (
	RunOnce  Missed = "runOnce" // it runs as soon as the service is up, once
	SkipRuns Missed = "skip"    // it is left out
)

func (m *Missed) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*m = Missed(r.One(n, field, map[string]string{string(RunOnce): "", string(SkipRuns): ""}))
}

// Overlap says what happens when it is time for a run while one goes on.
type Overlap string

// The only way. Without one it is Forbid.
const (
	Forbid Overlap = "forbid" // the later run is left out
)

func (o *Overlap) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*o = Overlap(r.One(n, field, map[string]string{string(Forbid): ""}))
}

// Trigger has a policy run when something happens. It is a watermark, of a tier or a part of it, or an event.
type Trigger struct {
	At      yamldoc.Position
	Tier    string  `yaml:"tier"`    // tier with the watermark; "" is an event
	Pool    string  `yaml:"pool"`    // pool of its file system; "" is all of the tier
	OST     string  `yaml:"ost"`     // number of an OST, or any; "" is all of the tier
	Project string  `yaml:"project"` // project with the quota that is meant; "" is all of the tier
	Measure Measure `yaml:"measure"` // what is full
	High    Percent `yaml:"high"`    // fullness above which the policy runs; 0 is an event
	Low     Percent `yaml:"low"`     // fullness at which the run ends; 0 is an event
	HoldFor Span    `yaml:"holdFor"` // time that it has to be above; 0 is at once
	Event   Event   `yaml:"event"`   // what happens; "" is a watermark
}

// String says what has to happen, for people.
func (t Trigger) String() string {
	if t.Event != "" {
		return "at " + string(t.Event)
	}
	what := "tier " + t.Tier
	for _, part := range [][2]string{{"pool", t.Pool}, {"OST", t.OST}, {"project", t.Project}} {
		if part[1] != "" {
			what += ", " + part[0] + " " + part[1]
		}
	}
	if t.Measure == OfInodes {
		what += ", inodes"
	}
	return fmt.Sprintf("above %g%% of %s", float64(t.High), what)
}

// Measure is what a watermark looks at.
type Measure string

// The measures. Without one it is OfBytes.
const (
	OfBytes  Measure = "bytes"  // room
	OfInodes Measure = "inodes" // files
)

func (m *Measure) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*m = Measure(r.One(n, field, map[string]string{string(OfBytes): "", string(OfInodes): ""}))
}

// Event is what happens.
type Event string

// The events.
const (
	CheckpointComplete Event = "checkpoint.complete" // nothing of it changes any more
	CheckpointVerified Event = "checkpoint.verified" // a copy of it was compared
	TaskDone           Event = "task.done"           // a task has come to its end
)

func (e *Event) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*e = Event(r.One(n, field, map[string]string{string(CheckpointComplete): "", string(CheckpointVerified): "", string(TaskDone): ""}))
}

// Source says how old facts may be.
type Source struct {
	Staleness Span  `yaml:"maxStaleness"` // age of the facts of the catalog; 0 is 24h
	OnStale   Stale `yaml:"onStale"`      // what becomes of a run with older ones
}

// Stale says what happens when they are older.
type Stale string

// The ways. Without one it is Rescan.
const (
	Rescan Stale = "rescan" // the tier is scanned first
	Refuse Stale = "refuse" // nothing is done
)

func (s *Stale) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*s = Stale(r.One(n, field, map[string]string{string(Rescan): "", string(Refuse): ""}))
}

// Class is a named match.
type Class struct {
	At    yamldoc.Position
	Name  Name   `yaml:"name" declare:"required"` // name, for class and notClass of a match behind it
	Match *Match `yaml:"match"`                   // nil is all files
	Any   bool   `yaml:"any"`                     // whether one of the clauses of match is enough
	Where *Where `yaml:"where"`                   // nil is none
}

// Rule is what is to happen to files that match it.
type Rule struct {
	At     yamldoc.Position
	Name   Name   `yaml:"name" declare:"required"`   // name, for reports
	Match  *Match `yaml:"match"`                     // nil is all files
	Any    bool   `yaml:"any"`                       // whether one of the clauses of match is enough
	Where  *Where `yaml:"where"`                     // nil is none
	Action Action `yaml:"action" declare:"required"` // what is done: the word of an action, or a table
}

// Where is an expression in CEL (cel.dev) that is true or false, as size > 1000000 && ext != ".pt".
type Where struct {
	At   yamldoc.Position
	Text string
}

func (w *Where) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	w.At = yamldoc.PositionOf(n)
	switch n.Style {
	case yaml.LiteralStyle, yaml.FoldedStyle:
		w.At = yamldoc.Position{Line: n.Line + 1, Column: 1}
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		w.At.Column++
	}
	r.Scalar(n, field, func(text []byte) error { w.Text = string(text); return nil })
}

// Order says which files are first when not all can be.
type Order struct {
	By     By     `yaml:"by"`     // what files are ordered by
	Weight *Where `yaml:"weight"` // expression that is a number, with by: weight; the largest is first; nil is none
}

// By is a way to order.
type By string

// The ways. Without one it is ByAge.
const (
	ByAge    By = "age"    // the oldest is first
	BySize   By = "size"   // the largest is first
	ByWeight By = "weight" // that with the largest weight is first
)

func (b *By) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*b = By(r.One(n, field, map[string]string{string(ByAge): "", string(BySize): "", string(ByWeight): ""}))
}

// Limits bound one run.
type Limits struct {
	Bytes            Bytes    `yaml:"bytes"`            // bytes of its files; 0 is no limit
	Files            Count    `yaml:"files"`            // number of its files; 0 is no limit
	Rate             Rate     `yaml:"rate"`             // bandwidth of its copies; 0 is no limit
	OpsPerSec        Count    `yaml:"opsPerSec"`        // calls to tiers in a second; 0 is no limit
	ErrorPct         *Percent `yaml:"errorPct"`         // part of its files that may fail before it is stopped; nil is 5
	DeleteFraction   Percent  `yaml:"deleteFraction"`   // part of the files of the scope that it may remove; 0 is no limit
	PerOwnerFraction Percent  `yaml:"perOwnerFraction"` // part of the files of one owner that it may remove; 0 is no limit
}

// Safety is what stands between a verdict and what can not be taken back.
type Safety struct {
	Recheck    Recheck   `yaml:"recheck"`    // what is compared just before an action
	Grace      *Span     `yaml:"grace"`      // time that the catalog has to know a file before it is removed; nil is 24h
	Quarantine Span      `yaml:"quarantine"` // time for which a removal can be undone; 0 is 7d
	Canary     Percent   `yaml:"canary"`     // part of the files, in the mode canary; 0 is 0.1
	Approval   *Approval `yaml:"approval"`   // nil is without a person
}

// Recheck says what is compared just before.
type Recheck string

// The only way. Without one it is Identity.
const (
	Identity Recheck = "identity" // device, inode, size, mtime and ctime, or ETag
)

func (c *Recheck) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*c = Recheck(r.One(n, field, map[string]string{string(Identity): ""}))
}

// Approval says when a person has to agree.
type Approval struct {
	WhenDeleting Bytes  `yaml:"whenDeleting"` // bytes above which a run that removes waits; 0 is each such run
	By           string `yaml:"by"`           // a user or a role, or owner for the owner of the policy; "" is any that may approve
}

// Report says which users are told of a run before it.
type Report struct {
	Preview Span `yaml:"preview"` // time before a run at which owners are told by mail what it takes away; 0 is not told
}

// Tiers yields the tiers that a policy names, with the fields that do.
func (p *Policy) Tiers() iter.Seq2[string, string] {
	return func(yield func(field, tier string) bool) {
		put := func(location, format string, args ...any) bool {
			location, _ = OnPeer(location)
			tier, _, _ := strings.Cut(location, ":")
			return tier == "" || yield(fmt.Sprintf(format, args...), tier)
		}
		for i, root := range p.Spec.Scope.Roots {
			if !put(root, "spec.scope.roots[%d]", i) {
				return
			}
		}
		for i, t := range p.Spec.Trigger {
			if !put(t.Tier, "spec.trigger[%d].tier", i) {
				return
			}
		}
		for i, r := range p.Spec.Rules {
			for _, to := range slices.Concat(r.Action.To, r.Action.In) {
				if !put(to, "spec.rules[%d].action", i) {
					return
				}
			}
		}
	}
}
