// Package authz decides who may do what. It owns the table of every method of the
// API with the action that it is, and the rules by which a caller may do an action
// or use a location. All of it is pure: a [Rules] is made of what the configuration
// says, does not change, and may be shared; after a reload there is a new one.
//
// A [Caller] is who asks, and how we know: the kernel says so on the socket of the
// service, a client certificate does, an agent with its certificate is itself, or
// an agent says that somebody on its node asks through it. Whoever fills in a
// Caller takes uid and groups from there and from NSS, never from a request.
//
// An action is a word like task.submit. Some have an owner: task.cancel.own is for
// one's own task, task.cancel.any for that of everybody. What is not in the table
// is denied, to root as well. These are the rules, in order:
//
//   - link.* and enroll.renew are for agents, and an agent itself may nothing else.
//     enroll.join is for whoever calls: the token decides.
//   - Root and the uid that runs the service may do everything else when they call on
//     the socket of the service: they can read and write its files in any case.
//   - Every person may submit, see, pause and cancel tasks of their own, see tiers,
//     agents and datasets, stage, take leases, and care for datasets of their own
//     and of their projects. A person is who is on a socket of ours, or has a
//     certificate of which the configuration says whose it is.
//   - Root of a node, for whom an agent asks, may only look at what everybody may see:
//     its tasks would be root's on every node, and at the tasks that are meant for that node, whosever
//     they are ([Rules.MayAt]): it can be anybody there. A role that names it (not a group of it) gives it more.
//   - A role gives its members the actions that it names. What is about the service
//     itself (admin.*, agent.drain, agent.invite) it gives only to who calls
//     directly: a node must not speak for an administrator.
//   - Some call for another person, as the hooks of a scheduler do ([Rules.MayActFor]): root
//     and who runs the service on its socket, root of a node, which can be anybody there in any
//     case, and roles that name person.act. All other rules are asked for that person alone, who
//     is never root nor who runs the service; and what a role gives only to who calls directly
//     is not given to somebody for whom another one calls.
//
// A burst, and the money of its team, belong to the members of the project that has the name of the
// team, and to nobody else: burst.apply and burst.read.
//
// A location may be used through a project: by its members (and who may do
// project.use), below its roots, and below its reads to read only. The roots hold
// for everybody, for root too. Where no projects are configured, everybody may use
// every path, because the work is done with their own rights in the kernel; a
// bucket has no such rights, so it is for who may do bucket.use: root, the uid that
// runs the service, and roles that say so. A path is compared as text, by whole
// segments; that no symlink leads out of its root is left to who opens it below
// [Decision.Root].
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

// The ways to call. The zero value is nobody.
const (
	Local       Via = "local"       // the kernel told the uid of who is on our socket
	Certificate Via = "certificate" // a client certificate of a person
	Agent       Via = "agent"       // the certificate of an agent, which asks for itself
	Forwarded   Via = "forwarded"   // an agent says that somebody on its node asks
)

// Caller is who asks.
type Caller struct {
	Name   string   // of the account; "" when the uid has none
	UID    uint32   // as the node of the caller has it
	Groups []string // names of all groups
	Via    Via
	Agent  string // the agent, of Agent and Forwarded
	By     string // who really calls, for this person; "" is the person
	Serial string // of the certificate of an agent that asks for itself; the service's own has none
}

// String names the caller for a log and a reason.
func (c Caller) String() string {
	person := fmt.Sprintf("uid %d", c.UID)
	if c.Name != "" {
		person = fmt.Sprintf("%s (%s)", mover.Printable(c.Name), person)
	}
	if c.By != "" {
		return person + ", for whom " + mover.Printable(c.By) + " calls"
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
