package authz

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// Input is what rules are made of. The zero value is a service without a
// configuration, run by root.
type Input struct {
	UID      uint32             // that runs the service
	Tiers    map[string]string  // the path of each tier; "" is a bucket
	Projects map[string]Project // none: paths are for everybody
	Roles    map[string]Role
	Users    map[string]string // people by the common name of their certificate
}

// Project is a set of members, and the locations where they may work.
type Project struct {
	Roots   []string // locations
	Reads   []string // locations to read only
	Members []string // NAME or @GROUP
}

// Role is what its members may beside what everybody may.
type Role struct {
	Members []string // NAME or @GROUP
	May     []string // actions; a.* is a family, * is all but person.act
}

// Rules decide. New makes them.
type Rules struct {
	uid      uint32
	tiers    map[string]string // paths without their first slash
	buckets  map[string]bool   // tiers without a path
	projects map[string]project
	roles    map[string]Role
	users    map[string]string
	people   map[string]bool // the values of users
}

type project struct {
	roots, reads []area
	members      []string
}

// New makes rules. Its errors are of kind [mover.ErrUsage], and name the key of the
// configuration: a root that means nothing, a word of a role that gives nothing.
func New(in Input) (*Rules, error) {
	r := &Rules{uid: in.UID, tiers: map[string]string{}, buckets: map[string]bool{}, projects: map[string]project{},
		roles: maps.Clone(in.Roles), users: maps.Clone(in.Users), people: map[string]bool{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(in.Tiers)) {
		errs = append(errs, r.addTier(name, in.Tiers[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Projects)) {
		errs = append(errs, r.addProject(name, in.Projects[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(in.Roles)) {
		errs = append(errs, checkRole(name, in.Roles[name]))
	}
	for _, person := range in.Users {
		if person != "" {
			r.people[person] = true
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Rules) addTier(name, path string) error {
	if path == "" {
		r.buckets[name] = true
		return nil
	}
	if !strings.HasPrefix(path, "/") { // or it would be read as something else than a path
		return fmt.Errorf("tiers.%s.path: %w: %s does not begin with a slash", name, mover.ErrUsage, mover.Printable(path))
	}
	a, err := r.area(path)
	if err != nil {
		return fmt.Errorf("tiers.%s.path: %w", name, err)
	}
	r.tiers[name] = a.path
	return nil
}

func (r *Rules) addProject(name string, in Project) error {
	roots, err := r.areas("projects."+name+".roots", in.Roots)
	reads, rerr := r.areas("projects."+name+".reads", in.Reads)
	r.projects[name] = project{roots, reads, slices.Clone(in.Members)}
	return errors.Join(err, rerr)
}

func (r *Rules) areas(key string, locations []string) ([]area, error) {
	var found []area
	for i, at := range locations {
		a, err := r.area(at)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		found = append(found, a)
	}
	return found, nil
}

func checkRole(name string, in Role) error {
	for i, word := range in.May {
		if !useful(word) {
			return fmt.Errorf("roles.%s.may[%d]: %w: there is no action %s that a role could give", name, i, mover.ErrUsage, mover.Printable(word))
		}
	}
	return nil
}

// Person returns the user with the client certificate of that common name.
func (r *Rules) Person(commonName string) (name string, ok bool) {
	name = r.users[commonName]
	return name, name != ""
}

// Projects returns the projects of which the caller is a member, sorted.
func (r *Rules) Projects(c Caller) []string {
	var of []string
	for name, p := range r.projects {
		if r.person(c) && member(c, p.members) {
			of = append(of, name)
		}
	}
	slices.Sort(of)
	return of
}

// Roles returns the roles of the caller, sorted.
func (r *Rules) Roles(c Caller) []string {
	var of []string
	for name, role := range r.roles {
		if r.person(c) && member(c, role.Members) {
			of = append(of, name)
		}
	}
	slices.Sort(of)
	return of
}

// person reports whether the caller is a person: on a socket of ours, or with a
// certificate that the configuration gives to a user.
func (r *Rules) person(c Caller) bool {
	switch c.Via {
	case Local:
		return true
	case Certificate:
		return c.By != "" || r.people[c.Name] // a person that another caller calls for needs none
	case Forwarded:
		return c.Agent != ""
	}
	return false
}

// administrator reports whether the caller can read and write our files in any case.
// Only the kernel of this machine can say so.
func (r *Rules) administrator(c Caller) bool {
	return c.Via == Local && c.By == "" && (c.UID == 0 || c.UID == r.uid)
}

// rootOfNode reports whether an agent asks for a user that would be root on
// every node.
func rootOfNode(c Caller) bool {
	return c.Via == Forwarded && c.UID == 0
}

// member reports whether the caller is one of the members. Root of a node must be
// named: which groups it has is its own affair.
func member(c Caller, members []string) bool {
	if rootOfNode(c) {
		c.Groups = nil
	}
	return slices.ContainsFunc(members, func(m string) bool {
		if group, ok := strings.CutPrefix(m, "@"); ok {
			return group != "" && slices.Contains(c.Groups, group)
		}
		return m != "" && m == c.Name
	})
}
