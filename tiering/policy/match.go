package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset"
)

// Match is clauses about a file. A clause that is left out holds.
type Match struct {
	At       yamldoc.Position
	Kind     []Kind   `yaml:"kind"`              // kind of entry
	Size     *Sizes   `yaml:"size"`              // bytes of its content
	Stored   *Sizes   `yaml:"stored"`            // bytes that are allocated
	Idle     *Ages    `yaml:"idle"`              // since it was of use last: the latest of its times, of when it was first seen and last staged, and of the end of its last lease
	Accessed *Ages    `yaml:"accessed"`          // since its atime
	Modified *Ages    `yaml:"modified"`          // since its mtime
	Changed  *Ages    `yaml:"changed"`           // since its ctime
	Seen     *Ages    `yaml:"seen"`              // since it was first seen
	Owner    []string `yaml:"owner"`             // names, or numbers
	Group    []string `yaml:"group"`             // names, or numbers
	Project  []string `yaml:"project"`           // project of the configuration with the root that it is below
	Tier     []string `yaml:"tier"`              // tier that it is on
	Name     []Glob   `yaml:"name"`              // last segment of its name
	Path     []Glob   `yaml:"path"`              // name below the root of its tier
	Class    []Name   `yaml:"class"`             // classes above; one is enough
	NotClass []Name   `yaml:"notClass"`          // classes above; none holds
	Links    *Counts  `yaml:"links"`             // number of its names
	Replicas *Counts  `yaml:"replicasElsewhere"` // verified ones, on other tiers
	Pinned   *bool    `yaml:"pinned"`            // whether a pin keeps it
	Leased   *bool    `yaml:"leased"`            // whether a lease keeps it
	State    []State  `yaml:"checkpoint"`        // state of the checkpoint that it belongs to
	Not      *Match   `yaml:"not"`               // clauses that do not all hold
}

// clause is one of them, ready to be looked at.
type clause struct {
	field string
	want  string // for people
	holds func(*Judge) bool
	is    func(*Judge) string // for people
}

// matcher is clauses and an expression.
type matcher struct {
	clauses []clause
	any     bool
	byReads bool        // it asks when the file was read
	where   *expression // looked at last; nil holds
}

// holds reports whether a file matches.
func (m *matcher) holds(j *Judge) (bool, error) {
	if len(m.clauses) > 0 {
		found := !m.any
		for i := range m.clauses {
			if m.clauses[i].holds(j) == m.any {
				found = m.any
				break
			}
		}
		if !found {
			return false, nil
		}
	}
	if m.where == nil {
		return true, nil
	}
	return m.where.truth(j)
}

// classesMost bounds the classes of a policy: they are the bits of a number.
const classesMost = 64

// compiler makes matchers of what was read.
type compiler struct {
	r       *yamldoc.Reader
	vars    map[string]Values
	classes []class // those that were read so far: a class may use those before it
	env     *environment
	byReads bool // what is compiled asks when a file was read
}

type class struct {
	name string
	matcher
}

// matcher compiles a match; field is where it stands.
func (c *compiler) matcher(m *Match, any bool, where *Where, field string) (out matcher) {
	out.any = any
	c.byReads = false
	defer func() { out.byReads = c.byReads }()
	if m != nil {
		out.clauses = c.clauses(m, field+".match")
	}
	if any && len(out.clauses) < 2 {
		p := yamldoc.Position{}
		if m != nil {
			p = m.At
		}
		c.add(p, field+".any", "of one clause any and all are the same; leave it out")
	}
	if where != nil {
		out.where = c.env.boolean(c, where, field+".where")
	}
	return out
}

func (c *compiler) add(at yamldoc.Position, field, format string, args ...any) {
	c.r.AddAt(at, field, format, args...)
}

// clauses compiles those that are there, the cheap ones first.
func (c *compiler) clauses(m *Match, field string) (all []clause) {
	put := func(name, want string, holds func(*Judge) bool, is func(*Judge) string) {
		all = append(all, clause{name, want, holds, is})
	}
	truth := func(name string, want *bool, is func(*Judge) bool) {
		if want != nil {
			w := *want
			put(name, strconv.FormatBool(w), func(j *Judge) bool { return is(j) == w }, func(j *Judge) string { return strconv.FormatBool(is(j)) })
		}
	}
	number := func(name string, r *Range, of func(*Judge) int64, known mover.Facts, print func(int64) string) {
		put(name, r.text, func(j *Judge) bool { return j.file.Known.Has(known) && r.holds(of(j)) }, func(j *Judge) string {
			if !j.file.Known.Has(known) {
				return "unknown"
			}
			return print(of(j))
		})
	}
	age := func(name string, r *Ages, of func(*Judge) int64, known mover.Facts) {
		if r != nil {
			c.byReads = c.byReads || name == "idle" || name == "accessed"
			number(name, &r.Range, func(j *Judge) int64 { return max(0, j.now-of(j)) }, known, func(n int64) string { return units.Duration(time.Duration(n)) })
		}
	}
	count := func(n int64) string { return strconv.FormatInt(n, 10) }

	if len(m.Kind) > 0 {
		put("kind", listed(m.Kind, Kind.String), func(j *Judge) bool { return slices.Contains(m.Kind, Kind(j.file.Kind)) }, func(j *Judge) string { return j.file.Kind.String() })
	}
	truth("pinned", m.Pinned, func(j *Judge) bool { return j.at.Pinned })
	truth("leased", m.Leased, func(j *Judge) bool { return j.at.Leased })
	if m.Size != nil {
		number("size", &m.Size.Range, func(j *Judge) int64 { return j.file.Size }, 0, units.Bytes)
	}
	if m.Stored != nil {
		number("stored", &m.Stored.Range, func(j *Judge) int64 { return j.file.Stored }, 0, units.Bytes)
	}
	if m.Links != nil {
		number("links", &m.Links.Range, func(j *Judge) int64 { return int64(j.file.Links) }, mover.FactLinks, count)
	}
	if m.Replicas != nil {
		number("replicasElsewhere", &m.Replicas.Range, func(j *Judge) int64 { return int64(j.at.Replicas) }, 0, count)
	}
	age("idle", m.Idle, func(j *Judge) int64 { return j.used }, 0)
	age("accessed", m.Accessed, func(j *Judge) int64 { return j.at.read(j.file.Atime) }, mover.FactAtime)
	age("modified", m.Modified, func(j *Judge) int64 { return j.file.Mtime }, mover.FactMtime)
	age("changed", m.Changed, func(j *Judge) int64 { return j.file.Ctime }, mover.FactCtime)
	age("seen", m.Seen, func(j *Judge) int64 { return j.file.Seen * int64(time.Second) }, 0)
	c.people("owner", m.Owner, mover.FactOwner, func(j *Judge) uint32 { return j.file.UID }, (*Judge).owner, put)
	c.people("group", m.Group, mover.FactGroup, func(j *Judge) uint32 { return j.file.GID }, (*Judge).group, put)
	words := func(name string, want []string, of func(*Judge) string) {
		if len(want) > 0 {
			put(name, strings.Join(want, ", "), func(j *Judge) bool { return slices.Contains(want, of(j)) }, of)
		}
	}
	words("project", m.Project, func(j *Judge) string { return j.at.Project })
	words("tier", m.Tier, func(j *Judge) string { return j.at.Tier })
	if len(m.State) > 0 {
		put("checkpoint", listed(m.State, func(s State) string { return string(s) }), func(j *Judge) bool { return slices.Contains(m.State, State(j.at.Checkpoint)) },
			func(j *Judge) string { return cmp.Or(j.at.Checkpoint, "none") })
	}
	globs := func(name string, want []Glob) {
		if len(want) > 0 {
			put(name, listed(want, Glob.String), func(j *Judge) bool {
				return slices.ContainsFunc(want, func(g Glob) bool { return g.matches(j.file.Base, j.file.Name) })
			}, func(j *Judge) string { return mover.Printable(j.file.Name()) })
		}
	}
	globs("name", m.Name)
	globs("path", m.Path)
	c.classClause("class", m.Class, true, m.At, field, put)
	c.classClause("notClass", m.NotClass, false, m.At, field, put)
	if m.Not != nil {
		none := matcher{clauses: c.clauses(m.Not, field+".not")}
		put("not", "", func(j *Judge) bool { in, _ := none.holds(j); return !in }, func(*Judge) string { return "" })
	}
	return all
}

// listed is a list for people.
func listed[T any](all []T, text func(T) string) string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = text(one)
	}
	return strings.Join(words, ", ")
}

type putClause func(name, want string, holds func(*Judge) bool, is func(*Judge) string)

// people compiles a clause about numbers that have names.
func (c *compiler) people(name string, want []string, known mover.Facts, number func(*Judge) uint32, called func(*Judge) string, put putClause) {
	if len(want) == 0 {
		return
	}
	put(name, strings.Join(want, ", "), func(j *Judge) bool {
		if !j.file.Known.Has(known) {
			return false
		}
		n := strconv.FormatUint(uint64(number(j)), 10)
		return slices.Contains(want, called(j)) || slices.Contains(want, n)
	}, func(j *Judge) string {
		if !j.file.Known.Has(known) {
			return "unknown"
		}
		return called(j)
	})
}

// classClause compiles a clause about classes.
func (c *compiler) classClause(name string, want []Name, in bool, at yamldoc.Position, field string, put putClause) {
	var bits uint64
	for _, n := range want {
		i := slices.IndexFunc(c.classes, func(have class) bool { return have.name == string(n) })
		if i < 0 {
			c.add(at, field+"."+name, "there is no class %s before it", n)
			continue
		}
		bits |= 1 << i
		c.byReads = c.byReads || c.classes[i].byReads
	}
	if len(want) > 0 {
		put(name, listed(want, func(n Name) string { return string(n) }), func(j *Judge) bool { return (j.classes()&bits != 0) == in }, func(j *Judge) string { return cmp.Or(strings.Join(j.classNames(), ", "), "none") })
	}
}

// Facts are what is known of where a file is: of its directory, and of what holds it. The zero value is nothing.
type Facts struct {
	Tier, Project string
	Ephemeral     bool   // there is no promise to keep what is there: it may be purged
	Leased        bool   // a holder needs it now
	Pinned        bool   // "not before this date"
	Staged        int64  // when it was last brought there, in ns since 1970
	LeaseEnded    int64  // when the last lease on it ended
	Replicas      int    // verified ones on other tiers
	Checkpoint    string // the state of the checkpoint that it belongs to: one of States
	Set           Set    // that checkpoint; nil is none
	Tracker       bool   // it says which checkpoint is the newest
	Part          string // what it is a part of, that goes as one; "" is nothing
	Replica       string // where that is, if it is a replica, below the root of the tier
	Reads         mover.Reads
}

// read is when a file may have been read last, by its atime.
func (at *Facts) read(atime int64) int64 {
	if at.Reads == mover.ReadsDaily {
		return atime + int64(day)
	}
	return atime
}

// Set is a checkpoint that a file belongs to.
type Set interface {
	// Name is where it is, below the root of the tier.
	Name() string
	// Stays says why retention has it stay; "" is that it goes.
	Stays(a *Action) string
	// There says whether the same save of it is at a place already, verified, as far as is known.
	There(to string) bool
}

// Used is when a file was last of use to anybody, in ns since 1970, and by which of its times. What is not known of it is left out.
func (at *Facts) Used(f *dataset.File) (used int64, by string) {
	used, by = f.Seen*int64(time.Second), "first seen"
	later := func(t int64, of string) {
		if t > used {
			used, by = t, of
		}
	}
	if f.Known.Has(mover.FactAtime) {
		later(at.read(f.Atime), "atime")
	}
	if f.Known.Has(mover.FactMtime) {
		later(f.Mtime, "mtime")
	}
	if f.Known.Has(mover.FactCtime) {
		later(f.Ctime, "ctime")
	}
	later(at.Staged, "last stage")
	later(at.LeaseEnded, "last lease")
	return used, by
}
