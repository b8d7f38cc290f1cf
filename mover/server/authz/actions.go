package authz

import "strings"

// This type is the set of callers that an action is open to without a role.
type whom int

const (
	byRole    whom = iota // none
	byName                // none; and a role has to name it, or its family: * does not give it
	atHome                // none; and a role gives it only to direct callers
	visible               // to every person
	everybody             // to every person that a node may speak for
	agents                // agents; no role gives it
	anybody               // every caller
)

// actions has every action.
var actions = map[string]whom{
	"task.submit":     everybody,
	"task.read.own":   everybody,
	"task.read.any":   byRole,
	"task.pause.own":  everybody,
	"task.pause.any":  byRole,
	"task.resume.own": everybody,
	"task.resume.any": byRole,
	"task.cancel.own": everybody,
	"task.cancel.any": byRole,
	"task.urgent":     byRole, // class restore, before which all others wait

	"dataset.read":         visible,
	"dataset.stage":        everybody,
	"dataset.purge":        everybody, // it removes with the caller's rights, as rm does
	"dataset.add.own":      everybody, // a new name is one's own
	"dataset.add.any":      byRole,
	"dataset.manifest.own": everybody, // names of files may tell more than names of datasets
	"dataset.manifest.any": byRole,
	"dataset.remove.own":   everybody,
	"dataset.remove.any":   byRole,
	"dataset.release.own":  everybody,
	"dataset.release.any":  byRole,
	"lease.take":           everybody,
	"lease.read":           visible,
	"lease.renew.own":      everybody,
	"lease.renew.any":      byRole,
	"lease.drop.own":       everybody,
	"lease.drop.any":       byRole,
	"pin.read":             visible,
	"pin.set.own":          everybody,
	"pin.set.any":          byRole,
	"pin.drop.own":         everybody,
	"pin.drop.any":         byRole,

	"tier.read":        visible,
	"agent.list":       visible,
	"agent.drain":      atHome,
	"agent.forget":     atHome,
	"agent.invite":     atHome,
	"catalog.scan":     byRole,
	"catalog.read.own": everybody,
	"catalog.read.any": byRole,
	"policy.list":      visible,
	"policy.read.own":  everybody,
	"policy.read.any":  byRole,
	"policy.plan":      byRole,
	"policy.run":       byRole,
	"burst.apply.own":  everybody, // of a team that is a project of one's own: its account has a cap
	"burst.apply.any":  byRole,
	"burst.adjust":     atHome, // of the accounts: it is for the owner of the bill
	"burst.read.own":   everybody,
	"burst.read.any":   byRole,
	"usage.read.own":   everybody,
	"usage.read.any":   byRole,
	"service.info":     visible,
	"service.health":   visible,
	"service.reflect":  visible,
	"admin.backup":     atHome,
	"admin.reload":     atHome,
	"admin.identity":   atHome,

	"project.use": byRole, // a project without being its member
	"bucket.use":  byRole, // a bucket without a project
	"person.act":  byName, // call for another person, with all that is theirs

	"enroll.join":   anybody,
	"enroll.renew":  agents,
	"link.attend":   agents,
	"link.confirm":  agents,
	"link.finish":   agents,
	"link.give":     agents,
	"link.reply":    agents,
	"link.keep":     agents,
	"link.manifest": agents,
	"link.walk":     agents,
	"link.burst":    agents,
}

// matches reports whether a word of a role (task.cancel.any, task.*, *) means an action.
func matches(word, action string) bool {
	if word == "*" {
		return actions[action] != byName
	}
	if family, ok := strings.CutSuffix(word, ".*"); ok {
		return strings.HasPrefix(action, family+".")
	}
	return word == action
}

// useful reports whether a word of a role gives anything.
func useful(word string) bool {
	for action, to := range actions {
		if to != agents && to != anybody && matches(word, action) {
			return true
		}
	}
	return false
}
