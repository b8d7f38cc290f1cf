// Package authz decides what a caller may do. It owns the table of every method of the
// API with its action, and the rules for actions and locations. All of it is pure. A [Rules] is made of what the configuration
// says, does not change, and may be shared. After a reload there is a new one.
//
// A [Caller] is an account or an agent, and how we know it. The kernel names it on the socket of the
// service, or a client certificate does. An agent with its certificate is itself, or
// asks for a user on its node. The code that fills in a
// Caller takes uid and groups from there and from NSS, never from a request.
//
// An action is a word like task.submit. Some have an owner: task.cancel.own is for
// one's own task, task.cancel.any for that of every owner. What is not in the table
// is denied, to root as well. These are the rules, in order:
//
//   - link.* and enroll.renew are for agents, and an agent itself may nothing else.
//     enroll.join is for every caller: the token decides.
//   - Root and the uid that runs the service may do everything else when they call on
//     the socket of the service: they can read and write its files in any case.
//   - Every person may submit, see, pause and cancel tasks of their own, and see
//     tiers, agents and datasets. They may stage, take leases, and care for datasets of their own
//     and of their projects. A person is a caller on a socket of ours, or with a
//     certificate that the configuration gives to a user.
//   - Root of a node, when an agent asks for it, may only look at what is open to all persons.
//     Its tasks would be root's on every node. It may also look at all tasks that are meant for that node
//     ([Rules.MayAt]): it can become any user there. A role that names it (not a group of it) gives it more.
//   - A role gives its members the actions that it names. What is about the service
//     itself (admin.*, agent.drain, agent.invite) it gives only to a caller without an agent
//     between. A node must not speak for an administrator.
//   - Some call for another person, as the hooks of a scheduler do ([Rules.MayActFor]). These are root
//     and the uid that runs the service on its socket, root of a node, and roles that name person.act. Root of a
//     node can become any user there. All other rules apply to that person alone, which
//     is never root nor the uid that runs the service. What a role gives only to direct callers
//     is not given to a person when another caller calls for it.
//
// A burst, and the money of its team, belong to the members of the project with the name of the
// team (burst.apply.own, burst.read.own). A role can give other persons burst.apply.any and burst.read.any.
//
// A location may be used through a project by its members and by callers with
// project.use, below its roots, and below its reads to read only. The roots hold
// for all callers, for root too. Where no projects are configured, every caller may use
// every path, because the work is done with their own rights in the kernel. A
// bucket has no such rights, so it is for callers with bucket.use: root, the uid that
// runs the service, and roles that say so. A path is compared as text, by whole
// segments. The code that opens it below [Decision.Root] ensures that no symlink leads
// out of its root.
//
// TestEveryMethodHasAnAction and TestDeniedByDefault walk the methods of all
// services; TestNothingOutsideTheRoots compares [Rules.MayUse] with a walk through
// a tree.
package authz

import (
	"fmt"

	"datamove.dev/mover"
)

// Via is how we know a caller.
type Via string

// The ways to call. The zero value is no caller.
const (
	Local       Via = "local"       // the kernel told the uid of the peer on our socket
	Certificate Via = "certificate" // a client certificate of a person
	Agent       Via = "agent"       // the certificate of an agent, which asks for itself
	Forwarded   Via = "forwarded"   // an agent asks for a user on its node
)

// Caller is the account or agent that a call is from.
type Caller struct {
	Name   string   // of the account; "" when the uid has none
	UID    uint32   // as the node of the caller has it
	Groups []string // names of all groups
	Via    Via
	Agent  string // the agent, of Agent and Forwarded
	By     string // the real caller, when it calls for this person; "" is the person
	Serial string // of the certificate of an agent that asks for itself; the service's own has none
}

// String names the caller for a log and a reason.
func (c Caller) String() string {
	person := fmt.Sprintf("uid %d", c.UID)
	if c.Name != "" {
		person = fmt.Sprintf("%s (%s)", mover.Printable(c.Name), person)
	}
	if c.By != "" {
		return person + ", in a call of " + mover.Printable(c.By)
	}
	switch c.Via {
	case Local, Certificate:
		return person
	case Forwarded:
		return person + " through agent " + mover.Printable(c.Agent)
	case Agent:
		return "agent " + mover.Printable(c.Agent)
	}
	return "a caller without a name"
}

// Decision is whether a caller may, and why.
type Decision struct {
	Allowed bool
	Rule    string // that decided: anybody, everybody, administrator, agent, role NAME, project NAME, or default
	Reason  string // for people; of a denial also what would allow it
	Root    string // of a location that a project holds: work must not leave it
}

// Err is nil when the caller may, and else of kind [mover.ErrPermission].
func (d Decision) Err() error {
	if d.Allowed {
		return nil
	}
	return fmt.Errorf("%s: %w", d.Reason, mover.ErrPermission)
}

func allow(rule, format string, args ...any) Decision {
	return Decision{Allowed: true, Rule: rule, Reason: fmt.Sprintf(format, args...)}
}

func deny(rule, format string, args ...any) Decision {
	return Decision{Rule: rule, Reason: fmt.Sprintf(format, args...)}
}
