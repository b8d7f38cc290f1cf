package authz

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// MayUse decides whether a caller may read a location, or write there, and pay for
// it with a project. It is asked for every location of a request: sources, target,
// and where backups go. A dataset is no location: ask for that of its replica.
func (r *Rules) MayUse(c Caller, project, at string, write bool) Decision {
	if !r.person(c) {
		return deny("default", "%s may not use any location: use the service's socket, or a client certificate that the configuration gives to a person (users)", c)
	}
	a, err := r.area(at)
	if err != nil {
		return deny("default", "%v", err)
	}
	if len(r.projects) == 0 {
		return r.useAlone(c, project, a)
	}
	p, known := r.projects[project]
	switch {
	case project == "":
		return deny("default", "no project is named, and every location is used through one; yours: %s", list(r.Projects(c)))
	case !known || !member(c, p.members) && !r.May(c, "project.use").Allowed:
		return deny("default", "%s is not a member of a project %s; yours: %s. Its members in the configuration (projects) may use it",
			c, mover.Printable(project), list(r.Projects(c)))
	}
	return p.use(project, a, write)
}

// useAlone decides where there are no projects.
func (r *Rules) useAlone(c Caller, project string, a area) Decision {
	bucket := r.May(c, "bucket.use")
	switch {
	case project != "":
		return deny("default", "there is no project %s, because there are none in the configuration: leave it out", mover.Printable(project))
	case a.store == files:
		return allow("everybody", "without projects all accounts may use paths, as far as the kernel lets them")
	case bucket.Allowed:
		return bucket
	}
	return deny("default", "%s may not use %s: without projects, buckets are for root, the account that runs the service, and roles with bucket.use; a project with this root (projects) would allow it",
		c, mover.Printable(a.String()))
}

// use decides for a member.
func (p project) use(name string, a area, write bool) Decision {
	at := mover.Printable(a.String())
	if root, ok := holder(p.roots, a); ok {
		return below(root, allow("project "+name, "%s is below the root %s of the project %s", at, mover.Printable(root.String()), name))
	}
	root, readable := holder(p.reads, a)
	switch {
	case readable && !write:
		return below(root, allow("project "+name, "%s is below %s, which the project %s may read", at, mover.Printable(root.String()), name))
	case readable:
		return deny("project "+name, "%s is below %s, which the project %s may only read; a root in the configuration (projects.%[3]s.roots) would allow it",
			at, mover.Printable(root.String()), name)
	}
	return deny("project "+name, "%s is not below a root of the project %s, which has: %s; another root in the configuration (projects.%[2]s.roots) would allow it",
		at, name, list(names(p.roots)))
}

// RootOf returns the directory of a project that a path is below of: work must not leave
// it. It is "" where there are no projects, and of what is no path.
func (r *Rules) RootOf(project, at string) (string, error) {
	a, err := r.area(at)
	if err != nil || a.store != files || len(r.projects) == 0 {
		return "", err
	}
	p := r.projects[project]
	for _, roots := range [][]area{p.roots, p.reads} {
		if root, ok := holder(roots, a); ok {
			return root.String(), nil
		}
	}
	return "", fmt.Errorf("%w: %s is not below a root of the project %s any more", mover.ErrPermission, mover.Printable(at), mover.Printable(project))
}

// ProjectOf returns the project that has a root around a location, the innermost of them; "" when none has.
func (r *Rules) ProjectOf(at string) string {
	a, err := r.area(at)
	if err != nil {
		return ""
	}
	best, of := -1, ""
	for name, p := range r.projects {
		for _, root := range p.roots {
			if n := len(root.path); root.holds(a) && (n > best || n == best && name < of) {
				best, of = n, name
			}
		}
	}
	return of
}

// holder returns the first of the roots that holds a.
func holder(roots []area, a area) (area, bool) {
	i := slices.IndexFunc(roots, func(root area) bool { return root.holds(a) })
	if i < 0 {
		return area{}, false
	}
	return roots[i], true
}

func below(root area, d Decision) Decision {
	d.Root = root.String()
	return d
}

func names(areas []area) []string {
	var all []string
	for _, a := range areas {
		all = append(all, mover.Printable(a.String()))
	}
	return all
}

// list prints the first few of many.
func list(words []string) string {
	switch {
	case len(words) == 0:
		return "none"
	case len(words) > 8:
		return strings.Join(words[:8], ", ") + ", …"
	}
	return strings.Join(words, ", ")
}
