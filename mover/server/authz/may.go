package authz

import (
	"fmt"
	"slices"

	"datamove.dev/mover"
)

// MayCall decides whether a caller may call a method at all. Where the method acts
// on what has an owner, [Rules.MayOn] has the last word.
func (r *Rules) MayCall(c Caller, full string) Decision {
	m, known := methods[full]
	if !known {
		return deny("default", "%s is in no rule: what has no rule is denied", mover.Printable(full))
	}
	if !m.Owned {
		return r.May(c, m.Action)
	}
	if d := r.May(c, m.Action+".own"); d.Allowed {
		return d
	}
	if d := r.MayAt(c, full, c.Agent); d.Allowed {
		return d
	}
	return r.May(c, m.Action+".any")
}

// MayAt decides whether a caller may call a method about all that is meant for a node, because they are root there.
func (r *Rules) MayAt(c Caller, full, node string) Decision {
	if atNode[full] && rootOfNode(c) && r.person(c) && c.By == "" && node != "" && node == c.Agent {
		return allow("node", "%s can act as any account there", c)
	}
	return deny("default", "%s may not see all that is meant for the node %s: that is for root there", c, mover.Printable(node))
}

// Owner is the owner of a task, a dataset or another object.
type Owner struct {
	Name    string
	UID     uint32
	Project string // of a dataset: its members own it together; else ""
}

// MayOn decides whether a caller may do what a method does to something of that
// owner.
func (r *Rules) MayOn(c Caller, m Method, o Owner) Decision {
	if !m.Owned {
		return r.May(c, m.Action)
	}
	if r.owns(c, o) {
		if d := r.May(c, m.Action+".own"); d.Allowed {
			return d
		}
	}
	return r.May(c, m.Action+".any")
}

// owns compares both name and uid: nodes may differ in what they call a uid.
func (r *Rules) owns(c Caller, o Owner) bool {
	if !r.person(c) {
		return false
	}
	p, shared := r.projects[o.Project]
	return c.UID == o.UID && c.Name == o.Name || shared && member(c, p.members)
}

// May decides whether a caller may do an action.
func (r *Rules) May(c Caller, action string) Decision {
	to, known := actions[action]
	switch {
	case !known:
		return deny("default", "there is no action %s: what has no rule is denied", mover.Printable(action))
	case to == anybody:
		return allow("anybody", "any client that reaches this service may %s", action)
	case to == agents || c.Via == Agent:
		return mayAgent(c, action, to)
	case !r.person(c):
		return deny("default", "%s may not %s: use the service's socket, or a client certificate that the configuration gives to a person (users)", c, action)
	case r.administrator(c):
		return allow("administrator", "%s is root or runs the service, and may everything on its socket", c)
	case to == visible, to == everybody && !rootOfNode(c):
		return allow("everybody", "every caller may %s", action)
	}
	return r.byRole(c, action, to)
}

// MayActFor decides whether a caller may call for the person with a uid.
func (r *Rules) MayActFor(c Caller, uid uint32) Decision {
	switch {
	case uid == 0 || uid == r.uid || uid == ^uint32(0):
		return deny("default", "%s may not call for uid %d: no caller acts for root, nor for the account that runs the service", c, uid)
	case c.By != "":
		return deny("default", "%s: a caller that acts for one account can not act for another one", c)
	case rootOfNode(c) && r.person(c):
		return allow("node", "%s can act as any account there", c)
	}
	d := r.May(c, "person.act")
	if !d.Allowed && r.person(c) {
		d.Reason = fmt.Sprintf("%s may not call for uid %d: that is for root on the service's socket or on its node, and for roles that name person.act in the configuration (roles)", c, uid)
	}
	return d
}

func mayAgent(c Caller, action string, to whom) Decision {
	switch {
	case c.Via != Agent || c.Agent == "":
		return deny("agent", "%s may not %s: it is for agents with a certificate of this service, and no role gives it (datamoved --join)", c, action)
	case to != agents:
		return deny("agent", "%s may not %s for itself, only for an account on its node that has called it", c, action)
	}
	return allow("agent", "%s may %s", c, action)
}

func (r *Rules) byRole(c Caller, action string, to whom) Decision {
	switch {
	case to == atHome && c.By != "":
		return deny("default", "%s may not %s: it is about the service itself, and can not be asked for in the name of another account", c, action)
	case to == atHome && c.Via == Forwarded:
		return deny("default", "%s may not %s: it is about the service itself, and an agent can not ask for it; call the service's own socket, or use a certificate", c, action)
	}
	for _, name := range r.Roles(c) {
		if slices.ContainsFunc(r.roles[name].May, func(word string) bool { return matches(word, action) }) {
			return allow("role "+name, "%s has the role %s, which may %s", c, name, action)
		}
	}
	if to == everybody {
		return deny("default", "%s may not %s: root of a node is not root of the site; ask as another user, work without the service (--service none), or have a role that names %s and may %[2]s in the configuration (roles)",
			c, action, mover.Printable(c.Name))
	}
	return deny("default", "%s may not %s: none of their roles has it; a role with %[2]s in the configuration (roles) would allow it", c, action)
}
