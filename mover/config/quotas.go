package config

import "os"

// Quotas say how much of the service one account may hold. Root, and the account that runs the service, have no
// quota, unless users names them. A quota that is not there is that of the next table: of users, of groups and roles (the
// largest), then the default.
type Quotas struct {
	Default Quota            `koanf:"default"` // of an account without one of those below; none is DefaultQuota
	Users   map[string]Quota `koanf:"users"`   // of users; none is the default
	Groups  map[string]Quota `koanf:"groups"`  // of members of groups, the largest; none is the default
	Roles   map[string]Quota `koanf:"roles"`   // of members of roles, the largest; none is the default
}

// Quota is what one account may hold. What is 0 is that of the next table: of users, of groups and roles (the
// largest), the default, and DefaultQuota.
type Quota struct {
	Slots    Percent `koanf:"slots"`    // part of the tasks that an agent leads at one time
	Tasks    int64   `koanf:"tasks"`    // tasks that have not ended
	Specs    Size    `koanf:"specs"`    // bytes of the records of tasks; those that ended first are forgotten for new ones
	Leases   int64   `koanf:"leases"`   // leases, and stagings that are waited for
	Requests int64   `koanf:"requests"` // requests with an idempotency key, which is remembered for a day
	Datasets int64   `koanf:"datasets"` // names of datasets
	Journals Size    `koanf:"journals"` // bytes in the directory of its journals on an agent, by the configuration of the agent; on a small disk a tenth of it is the default
}

// DefaultQuota is what an account has where the file says nothing.
var DefaultQuota = Quota{Slots: 75, Tasks: 10_000, Specs: 32 << 20, Leases: 10_000, Requests: 100_000, Datasets: 10_000, Journals: 4 << 30}

// Of is the quota of an account with its groups and roles.
func (q *Quotas) Of(user string, groups, roles []string) Quota {
	var shared Quota
	for _, name := range groups {
		shared = shared.or(q.Groups[name], largest)
	}
	for _, name := range roles {
		shared = shared.or(q.Roles[name], largest)
	}
	return q.Users[user].or(shared, first).or(q.Default, first).or(DefaultQuota, first)
}

// Binds says whether an account has quotas. Root, and the account of this process, have some only where they are named.
func (q *Quotas) Binds(user string, uid uint32) bool {
	_, named := q.Users[user]
	return named || uid != 0 && uid != uint32(os.Geteuid())
}

// OfJournals is how much an account may have in the directory of its journals, on a disk of some size; 0 is any amount. Where the
// file says nothing, that is the default, or a tenth of a smaller disk.
func (q *Quotas) OfJournals(user string, uid uint32, disk int64) int64 {
	if !q.Binds(user, uid) {
		return 0
	}
	if said := first(int64(q.Users[user].Journals), int64(q.Default.Journals)); said != 0 {
		return said
	}
	return min(int64(DefaultQuota.Journals), disk/10)
}

// or joins two quotas, value by value.
func (q Quota) or(o Quota, join func(a, b int64) int64) Quota {
	return Quota{
		Slots: Percent(join(int64(q.Slots), int64(o.Slots))), Tasks: join(q.Tasks, o.Tasks), Specs: Size(join(int64(q.Specs), int64(o.Specs))),
		Leases: join(q.Leases, o.Leases), Requests: join(q.Requests, o.Requests), Datasets: join(q.Datasets, o.Datasets),
		Journals: Size(join(int64(q.Journals), int64(o.Journals))),
	}
}

func largest(a, b int64) int64 { return max(a, b) }

func first(a, b int64) int64 {
	if a != 0 {
		return a
	}
	return b
}

// quotaMost bounds the numbers of a quota.
const quotaMost = 1_000_000_000

// quotaRule is what an account may hold; that of groups and roles is asked for when a caller is known, and not of its tasks.
func quotaRule(ofAccount bool) *rule {
	keys := map[string]rule{
		"tasks": {number: quotaMost}, "leases": {number: quotaMost}, "requests": {number: quotaMost}, "datasets": {number: quotaMost},
		"specs": {check: checked[Size]},
	}
	if ofAccount {
		keys["slots"], keys["journals"] = rule{check: checked[Percent]}, rule{check: checked[Size]}
	}
	return &rule{keys: keys}
}

var quotasRule = rule{keys: map[string]rule{
	"default": *quotaRule(true),
	"users":   {named: account, each: quotaRule(true), most: 10_000},
	"groups":  {named: account, each: quotaRule(false)},
	"roles":   {named: name, each: quotaRule(false)},
}}
