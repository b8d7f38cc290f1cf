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
	Kind     string   `yaml:"kind" declare:"required"`
	Metadata Metadata `yaml:"metadata" declare:"required"`
	Spec     Spec     `yaml:"spec" declare:"required"`

	File string // that it was read from
	Text string // of the document, without its comments' places: it reads as the same policy

	places yamldoc.Places
}

// Digest names what a policy says: SHA-256, in hex.
func (p *Policy) Digest() string {
	sum := sha256.Sum256([]byte(p.Text))
	return hex.EncodeToString(sum[:])
}

// Metadata says what a policy is called, and which owner it has.
type Metadata struct {
	Name   Name              `yaml:"name" declare:"required"`
	Owner  string            `yaml:"owner"`
	Labels map[string]string `yaml:"labels"`
}

// Spec is what a policy does.
type Spec struct {
	Mode     Mode              `yaml:"mode"`
	Scope    Scope             `yaml:"scope" declare:"required"`
	Schedule *Schedule         `yaml:"schedule"`
	Trigger  []Trigger         `yaml:"trigger"`
	Source   Source            `yaml:"source"`
	Vars     map[string]Values `yaml:"vars"`
	Classes  []Class           `yaml:"classes"`
	Rules    []Rule            `yaml:"rules" declare:"required"`
	Order    Order             `yaml:"order"`
	Limits   Limits            `yaml:"limits"`
	Safety   Safety            `yaml:"safety"`
	Report   Report            `yaml:"report"`
}

// Values is a list of texts that expressions can use by its name.
type Values []string

// Mode says what a run of a policy does.
type Mode string

// The modes. A policy without one is in ModePlan.
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
	Exclude       []Glob   `yaml:"exclude"`
	OneFilesystem bool     `yaml:"oneFilesystem"`
}

// Schedule says when a policy runs by itself.
type Schedule struct {
	At      yamldoc.Position
	Cron    string  `yaml:"cron" declare:"required"` // five fields, or @daily and the like
	TZ      string  `yaml:"tz"`                      // "" is UTC
	Window  Span    `yaml:"window"`                  // after its begin no more actions begin; 0 is no end
	Jitter  Span    `yaml:"jitter"`                  // the begin is up to that much later
	Missed  Missed  `yaml:"missed"`
	Overlap Overlap `yaml:"overlap"`
}

// Missed says what happens to a run that was due while the service was down.
type Missed string

// The ways. Without one it is RunOnce.
const (
	RunOnce  Missed = "runOnce" // it runs as soon as the service is up, once
	SkipRuns Missed = "skip"
)

func (m *Missed) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*m = Missed(r.One(n, field, map[string]string{string(RunOnce): "", string(SkipRuns): ""}))
}

// Overlap says what happens when it is time for a run while one goes on.
type Overlap string

// Forbid is the only way: it leaves the later run out.
const Forbid Overlap = "forbid"

func (o *Overlap) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*o = Overlap(r.One(n, field, map[string]string{string(Forbid): ""}))
}

// Trigger has a policy run when something happens. It is a watermark, of a tier or a part of it, or an event.
type Trigger struct {
	At      yamldoc.Position
	Tier    string  `yaml:"tier"`
	Pool    string  `yaml:"pool"`    // of its file system
	OST     string  `yaml:"ost"`     // "any", or its number
	Project string  `yaml:"project"` // with the quota that is meant
	Measure Measure `yaml:"measure"`
	High    Percent `yaml:"high"`    // above it the policy runs
	Low     Percent `yaml:"low"`     // until this is reached
	HoldFor Span    `yaml:"holdFor"` // it has to be above for that long
	Event   Event   `yaml:"event"`
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

// The measures. Without one it is bytes.
const (
	OfBytes  Measure = "bytes"
	OfInodes Measure = "inodes"
)

func (m *Measure) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*m = Measure(r.One(n, field, map[string]string{string(OfBytes): "", string(OfInodes): ""}))
}

// Event is what happens.
type Event string

// The events.
const (
	CheckpointComplete Event = "checkpoint.complete"
	CheckpointVerified Event = "checkpoint.verified"
	TaskDone           Event = "task.done"
)

func (e *Event) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*e = Event(r.One(n, field, map[string]string{string(CheckpointComplete): "", string(CheckpointVerified): "", string(TaskDone): ""}))
}

// Source says how old facts may be.
type Source struct {
	Staleness Span  `yaml:"maxStaleness"` // 0 means 24h
	OnStale   Stale `yaml:"onStale"`
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
	Name  Name   `yaml:"name" declare:"required"`
	Match *Match `yaml:"match"`
	Any   bool   `yaml:"any"`
	Where *Where `yaml:"where"`
}

// Rule is what is to happen to files that match it.
type Rule struct {
	At     yamldoc.Position
	Name   Name   `yaml:"name" declare:"required"`
	Match  *Match `yaml:"match"`
	Any    bool   `yaml:"any"` // one of the clauses of Match is enough
	Where  *Where `yaml:"where"`
	Action Action `yaml:"action" declare:"required"`
}

// Where is an expression, with its place in the text.
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
	By     By     `yaml:"by"`
	Weight *Where `yaml:"weight"` // a number; the largest is first
}

// By is a way to order.
type By string

// The ways. Without one it is the oldest first.
const (
	ByAge    By = "age"
	BySize   By = "size"
	ByWeight By = "weight"
)

func (b *By) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*b = By(r.One(n, field, map[string]string{string(ByAge): "", string(BySize): "", string(ByWeight): ""}))
}

// Limits bound one run. What is 0 has no limit, but for the error percentage.
type Limits struct {
	Bytes            Bytes    `yaml:"bytes"`
	Files            Count    `yaml:"files"`
	Rate             Rate     `yaml:"rate"`
	OpsPerSec        Count    `yaml:"opsPerSec"`
	ErrorPct         *Percent `yaml:"errorPct"`         // nil means 5
	DeleteFraction   Percent  `yaml:"deleteFraction"`   // of the files of the scope
	PerOwnerFraction Percent  `yaml:"perOwnerFraction"` // of one owner's files
}

// Safety is what stands between a verdict and what can not be taken back.
type Safety struct {
	Recheck    Recheck   `yaml:"recheck"`
	Grace      *Span     `yaml:"grace"`      // a file has to be seen for that long before anything is removed; nil means 24h
	Quarantine Span      `yaml:"quarantine"` // for which what was removed can be undone; 0 means 7d
	Canary     Percent   `yaml:"canary"`     // of the files, in the mode canary; 0 means 0.1
	Approval   *Approval `yaml:"approval"`
}

// Recheck says what is compared just before.
type Recheck string

// Identity is the only way: device, inode, size, mtime and ctime, or ETag.
const Identity Recheck = "identity"

func (c *Recheck) Read(r *yamldoc.Reader, n *yaml.Node, field string) {
	*c = Recheck(r.One(n, field, map[string]string{string(Identity): ""}))
}

// Approval says when a person has to agree.
type Approval struct {
	WhenDeleting Bytes  `yaml:"whenDeleting"` // more than that
	By           string `yaml:"by"`           // a person or a role; owner is the owner of the policy
}

// Report says which users are told of a run before it.
type Report struct {
	Preview Span `yaml:"preview"` // owners see their list that long before
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
