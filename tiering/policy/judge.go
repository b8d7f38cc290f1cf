package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset"
)

// Program is a policy that can be asked. It does not change.
type Program struct {
	Policy  *Policy
	env     *environment
	classes []class
	rules   []rule
	exclude []Glob
	weight  *expression // nil orders as By says
	enough  Tally       // that is removed; the zero one is never enough
}

// Enough is the program with an end: what comes in its order after so many bytes and files are to go stays.
func (p *Program) Enough(t Tally) *Program {
	q := *p
	q.enough = t
	return &q
}

type rule struct {
	matcher
	action *Action
	name   string
}

// kindName is what a document calls itself.
const kindName = "TierPolicy"

// Read reads the policies in a text, and says all that is wrong with them: yamldoc.Problems, which are mover.ErrUsage. file is its name, for people.
func Read(file string, text []byte) ([]*Program, error) {
	r := &yamldoc.Reader{File: file}
	var all []*Program
	names := map[Name]int{}
	for _, doc := range r.Documents(text) {
		p := &Policy{File: file, places: yamldoc.Positions{}}
		r.Places = p.places
		if text, err := yaml.Marshal(doc); err == nil {
			p.Text = string(text)
		}
		r.Into(doc, "", p)
		if p.Kind != "" && p.Kind != kindName {
			r.Add(doc, "kind", "want %s, and not %q", kindName, p.Kind)
		}
		if line, twice := names[p.Metadata.Name]; twice && p.Metadata.Name != "" {
			r.Add(doc, "metadata.name", "%s is the name of the policy in line %d, too", p.Metadata.Name, line)
		}
		names[p.Metadata.Name] = doc.Line
		all = append(all, compile(r, p))
	}
	if len(all) == 0 && len(r.Problems) == 0 {
		r.Add(nil, "", "there is no policy in it")
	}
	return all, r.Err()
}

// identifier is what a variable may be called.
var identifier = mover.Pattern(`^[a-z][a-zA-Z0-9_]{0,63}$`)

// compile makes a program, as far as it can be made.
func compile(r *yamldoc.Reader, p *Policy) *Program {
	prog := &Program{Policy: p, exclude: p.Spec.Scope.Exclude}
	for name := range p.Spec.Vars {
		if _, taken := variables[name]; taken || !identifier().MatchString(name) {
			r.AddAt(p.At, "spec.vars."+name, "want a name of small letters first that is none of the variables: %s", strings.Join(slices.Sorted(maps.Keys(variables)), ", "))
			return prog
		}
	}
	env, err := newEnvironment(p.Spec.Vars)
	if err != nil {
		r.AddAt(p.At, "spec", "%v", err)
		return prog
	}
	prog.env = env
	c := &compiler{r: r, vars: p.Spec.Vars, env: env}
	c.classesOf(p.Spec.Classes)
	prog.classes = c.classes
	seen := map[Name]bool{}
	for i := range p.Spec.Rules {
		u, field := &p.Spec.Rules[i], fmt.Sprintf("spec.rules[%d]", i)
		if seen[u.Name] && u.Name != "" {
			c.add(u.At, field+".name", "%s is the name of a rule before it, too", u.Name)
		}
		seen[u.Name] = true
		if u.Action.RPO > 0 && (u.Match == nil || len(u.Match.State) == 0) {
			c.add(u.Action.At, field+".action.rpo", "is of checkpoints: want a rule that matches checkpoint: complete, verified or both")
		}
		prog.rules = append(prog.rules, rule{c.matcher(u.Match, u.Any, u.Where, field), &u.Action, string(u.Name)})
	}
	copies := slices.ContainsFunc(p.Spec.Rules, func(u Rule) bool { return u.Action.Copies() })
	for i := range p.Spec.Rules {
		p.Spec.Rules[i].Action.copied = copies
	}
	c.order(prog, p.Spec.Order)
	c.check(p)
	return prog
}

func (c *compiler) classesOf(classes []Class) {
	for i := range classes {
		k, field := &classes[i], fmt.Sprintf("spec.classes[%d]", i)
		if i == classesMost {
			c.add(k.At, field, "a policy has at most %d classes", classesMost)
			return
		}
		for _, before := range c.classes {
			if before.name == string(k.Name) {
				c.add(k.At, field+".name", "%s is the name of a class before it, too", k.Name)
			}
		}
		if k.Match == nil && k.Where == nil {
			c.add(k.At, field, "want match or where: without them it is everything")
		}
		c.classes = append(c.classes, class{string(k.Name), c.matcher(k.Match, k.Any, k.Where, field)})
	}
}

func (c *compiler) order(prog *Program, o Order) {
	switch {
	case o.Weight != nil && o.By != ByWeight && o.By != "":
		c.add(o.Weight.At, "spec.order.weight", "is for by: weight, and by is %s", o.By)
	case o.Weight != nil:
		prog.weight = c.env.number(c, o.Weight, "spec.order.weight")
	case o.By == ByWeight:
		c.add(yamldoc.Position{}, "spec.order.weight", "is missing: by is weight")
	}
}

// check looks at what fields say together.
func (c *compiler) check(p *Policy) {
	s := &p.Spec
	for field, zero := range map[string]bool{"spec.safety.quarantine": s.Safety.Quarantine == 0, "spec.safety.canary": s.Safety.Canary == 0} {
		if at, given := p.places[field]; given && zero {
			c.add(at, field, "want more than 0; without it there is a usual value")
		}
	}
	for i, t := range s.Trigger {
		c.trigger(t, fmt.Sprintf("spec.trigger[%d]", i))
	}
	if s.Schedule != nil {
		if _, err := s.Schedule.times(); err != nil {
			c.add(s.Schedule.At, "spec.schedule", "%v", err)
		}
	}
	for i, root := range s.Scope.Roots {
		tier, path, ok := strings.Cut(root, ":")
		if !ok || tier == "" || strings.Contains(tier, "/") || !mover.ValidName(strings.Trim(path, "/")) {
			field := fmt.Sprintf("spec.scope.roots[%d]", i)
			c.add(p.places.Of(field), field, "want TIER: or TIER:path, and not %q", root)
		}
	}
}

func (c *compiler) trigger(t Trigger, field string) {
	switch {
	case t.Event != "" && (t.High != 0 || t.Low != 0 || t.Tier+t.Pool+t.OST+t.Project != ""):
		c.add(t.At, field, "want an event or a watermark, and not both")
	case t.Event != "", c.r.Within(field + ".event"):
	case t.Tier == "":
		c.add(t.At, field+".tier", "is missing: whose watermark is it?")
	case t.High == 0 || t.Low == 0 || t.Low >= t.High:
		c.add(t.At, field, "want low and high, and low below high: between them nothing begins, and nothing ends")
	}
}

// Verdict is what a policy says of a file.
type Verdict struct {
	Rule int    // the first rule that matches; -1 is none
	Held string // why the file is kept whatever the rule says; "" is not
	Err  error  // an expression failed: nothing is decided, and the file is kept
}

// None reports whether nothing is to be done.
func (p *Program) None(v Verdict) bool {
	switch p.Action(v).Type {
	case Keep, Notify:
		return true
	}
	return false
}

var keep = &Action{Type: Keep}

// Action is what is to be done.
func (p *Program) Action(v Verdict) *Action {
	if v.Rule < 0 || v.Err != nil || v.Held != "" {
		return keep
	}
	return p.rules[v.Rule].action
}

// People tells names of accounts, "" of those that have none. An error is that none can be told now: the directory service of the machine does not answer.
type People interface {
	User(uid uint32) (string, error)
	Group(gid uint32) (string, error)
}

// ByReads reports whether a rule asks when a file was read.
func (p *Program) ByReads(rule int) bool { return p.rules[rule].byReads }

// ErrUnnamed is that a rule asks for the name of an account, and no name can be told now.
var ErrUnnamed = errors.New("names of accounts can not be told")

// Judge asks a program about files. It is for one goroutine.
type Judge struct {
	program *Program
	people  People
	users   map[uint32]string
	groups  map[uint32]string
	silent  error // why no name can be told; it is not asked again
	unnamed error // of this file: a rule has asked for a name that could not be told

	now  int64 // ns
	file *dataset.File
	at   *Facts
	used int64 // Facts.Used
	in   uint64
	done bool // in is known
}

// Judge makes one. People may be nil: then accounts are numbers.
func (p *Program) Judge(now time.Time, people People) *Judge {
	return &Judge{program: p, people: people, users: map[uint32]string{}, groups: map[uint32]string{}, now: now.UnixNano()}
}

// Decide says what the program says of a file. It keeps neither.
func (j *Judge) Decide(f *dataset.File, at *Facts) Verdict {
	j.look(f, at)
	for i := range j.program.exclude {
		if j.program.exclude[i].matches(f.Base, f.Name) {
			return Verdict{Rule: -1}
		}
	}
	for i := range j.program.rules {
		holds, err := j.program.rules[i].holds(j)
		switch err = cmp.Or(err, j.unnamed); { // a number is no name
		case err != nil:
			return Verdict{Rule: i, Err: err}
		case holds:
			return Verdict{Rule: i, Held: j.held(&j.program.rules[i])}
		}
	}
	return Verdict{Rule: -1}
}

// held says what forbids an action by which something may be gone; "" is nothing. It is asked here, so that a plan is true, and once more just before
// the deed.
func (j *Judge) held(r *rule) string {
	a := r.action
	removes := a.Type.Removes()
	grace := day
	if own := j.program.Policy.Spec.Safety.Grace; own != nil {
		grace = time.Duration(*own)
	}
	switch seen := time.Duration(j.now - j.file.Seen*int64(time.Second)); {
	case removes && j.at.Leased:
		return "it is leased"
	case removes && j.at.Pinned:
		return "it is pinned"
	case removes && j.at.Part != "" && (a.HSM || a.Type != Release && a.Type != Evict):
		return "it is a part of " + j.at.Part + ", which goes as one"
	case j.heldTogether(a) != "":
		return j.heldTogether(a)
	case removes && seen < grace:
		return fmt.Sprintf("it was first seen %s ago, and grace is %s", units.Duration(max(0, seen)), units.Duration(grace))
	case removes && r.byReads && j.at.Reads == mover.ReadsUnseen:
		return unseen
	case a.Type == Purge && !j.at.Ephemeral:
		return "its tier is not ephemeral"
	case !a.HSM && (a.Type == Release || a.Type == Evict) && j.at.Replicas < int(max(1, a.MinReplicas)):
		return fmt.Sprintf("%d verified replicas of it are elsewhere, where %d are needed", j.at.Replicas, max(1, a.MinReplicas))
	}
	return ""
}

// daily is what is told of a plan by when files were read, on a file system that does not record each read.
const daily = "a file system of it records one read of a file a day (relatime): a file may have been read a day later than its atime says, and is judged so"

// unseen is why a rule that asks when files were read lets nothing go.
const unseen = "its file system does not record when it is read (noatime): match by modified, or mount it with relatime"

// heldTogether says what forbids an action on a part of a checkpoint, which goes as one and not before it is complete.
func (j *Judge) heldTogether(a *Action) string {
	goes := a.Type == Migrate || a.Then == Release
	switch {
	case a.Type == Retain && j.at.Set == nil:
		return "it is in no checkpoint"
	case a.Type == Retain && len(a.In) > 0 && !slices.Contains(a.In, j.at.Tier):
		return "it keeps and lets go in " + strings.Join(a.In, ", ")
	case a.Type == Retain:
		if why := j.at.Set.Stays(a); why != "" {
			return "retention keeps its checkpoint: " + why
		}
	case a.Type == Purge && j.at.Set != nil:
		return "it is a part of a checkpoint, which goes as one: let retain decide"
	case a.Type == Purge && j.at.Tracker:
		return "it names the newest checkpoint, and stays as long as that"
	case a.Copies() && j.at.Tracker:
		return "it names the newest checkpoint, and goes after that"
	case a.Copies() && j.at.Set == nil && slices.ContainsFunc(a.To, func(to string) bool { _, is := OnPeer(to); return is }):
		return "only checkpoints are copied to the disk of another node"
	case a.Copies() && j.at.Set != nil && goes:
		return "it is a part of a checkpoint, which goes as one: replicate it, and let retain decide"
	case a.Copies() && j.at.Set != nil && j.at.Checkpoint != States[2] && j.at.Checkpoint != States[3]:
		return "its checkpoint is not complete"
	case a.Copies() && j.at.Set != nil && !slices.ContainsFunc(a.To, func(to string) bool { return !j.at.Set.There(to) }):
		return "its checkpoint is there already"
	}
	return ""
}

func (j *Judge) look(f *dataset.File, at *Facts) {
	j.file, j.at, j.done, j.unnamed = f, at, false, nil
	j.used, _ = at.Used(f)
}

// Weight is how early a file is among those that something is to be done to: the largest is first.
func (j *Judge) Weight(f *dataset.File, at *Facts) (float64, error) {
	j.look(f, at)
	switch {
	case j.program.weight != nil:
		w, err := j.program.weight.weight(j)
		return w, cmp.Or(err, j.unnamed)
	case j.program.Policy.Spec.Order.By == BySize:
		return float64(f.Size), nil
	}
	return float64(max(0, j.now-j.used)), nil
}

// namesMost bounds how many names are remembered.
const namesMost = 10_000

func (j *Judge) named(known map[uint32]string, n uint32, of func(People, uint32) (string, error)) string {
	name, ok := known[n]
	if ok {
		return name
	}
	if j.people != nil && j.silent == nil {
		name, j.silent = of(j.people, n)
	}
	if name == "" {
		name = strconv.FormatUint(uint64(n), 10)
	}
	if j.silent != nil {
		j.unnamed = fmt.Errorf("%w: %w", ErrUnnamed, j.silent)
		return name
	}
	if len(known) >= namesMost {
		clear(known)
	}
	known[n] = name
	return name
}

func (j *Judge) owner() string { return j.named(j.users, j.file.UID, People.User) }

func (j *Judge) group() string { return j.named(j.groups, j.file.GID, People.Group) }

// classes are those that the file is in, as bits. It is in no class with an expression that fails.
func (j *Judge) classes() uint64 {
	if j.done {
		return j.in
	}
	j.in, j.done = 0, true // a class sees those before it
	for i := range j.program.classes {
		if holds, err := j.program.classes[i].holds(j); err == nil && holds {
			j.in |= 1 << i
		}
	}
	return j.in
}

func (j *Judge) classNames() (names []string) {
	in := j.classes()
	for i := range j.program.classes {
		if in&(1<<i) != 0 {
			names = append(names, j.program.classes[i].name)
		}
	}
	return names
}

// Reason says why a verdict is what it is, in one line.
func (j *Judge) Reason(f *dataset.File, at *Facts, v Verdict) string {
	j.look(f, at)
	switch {
	case v.Err != nil:
		return fmt.Sprintf("kept: rule %s failed: %v", j.program.rules[v.Rule].name, v.Err)
	case v.Rule < 0:
		for _, g := range j.program.exclude {
			if g.matches(f.Base, f.Name) {
				return "kept: excluded by " + g.pattern
			}
		}
		return "kept: no rule matches"
	}
	r := &j.program.rules[v.Rule]
	if v.Held != "" {
		return fmt.Sprintf("kept: rule %s would %s it, and %s", r.name, r.action.Type.does(), v.Held)
	}
	var why []string
	for _, c := range r.clauses {
		if c.holds(j) {
			why = append(why, strings.TrimSpace(fmt.Sprintf("%s %s (%s)", c.field, c.is(j), c.want)))
		}
	}
	if r.where != nil {
		why = append(why, r.where.text)
	}
	if len(why) == 0 {
		why = []string{"everything else"}
	}
	return fmt.Sprintf("%s by rule %s: %s", r.action.Type.does(), r.name, strings.Join(why, ", "))
}

// RuleResult is what Explain says of one rule.
type RuleResult struct {
	Rule   string
	Holds  bool
	Err    error
	Clause []ClauseResult
}

// ClauseResult is one clause of it.
type ClauseResult struct {
	Field, Want, Is string
	Holds           bool
}

// Explain says of all rules, up to the one that decides, what their clauses are of a file, and when it was last used.
func (j *Judge) Explain(f *dataset.File, at *Facts) (sights []RuleResult, used string) {
	v := j.Decide(f, at)
	last, by := at.Used(f)
	used = fmt.Sprintf("%s ago, by its %s", units.Duration(time.Duration(max(0, j.now-last))), by)
	for i := range j.program.rules {
		r := &j.program.rules[i]
		s := RuleResult{Rule: r.name}
		for _, c := range r.clauses {
			s.Clause = append(s.Clause, ClauseResult{c.field, c.want, c.is(j), c.holds(j)})
		}
		if r.where != nil {
			holds, err := r.where.truth(j)
			s.Clause = append(s.Clause, ClauseResult{"where", r.where.text, strconv.FormatBool(holds), holds})
			s.Err = err
		}
		s.Holds = v.Rule == i && v.Err == nil
		sights = append(sights, s)
		if v.Rule == i {
			break
		}
	}
	return sights, used
}
