// Package quota decides how much of the service one account may hold.
//
// Its words: a [Resource] is what is counted of an account; [Limits] say how much of each
// there may be; what an account has no limit for it may hold any amount of.
//
// Everything here is pure. What an account holds is counted by the ledger, and what the
// configuration says of an account is found by config; the service asks [Check] in the change
// that would add something. TestCheck is the promise: no answer of nil leads beyond a limit.
package quota

import (
	"fmt"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// Resource is what an account holds of the service.
type Resource string

// The resources. Their names are keys of the configuration.
const (
	Slots    Resource = "slots"    // percent of the tasks that an agent leads at one time
	Tasks    Resource = "tasks"    // tasks that have not ended
	Specs    Resource = "specs"    // bytes of the records of tasks, until these are forgotten
	Leases   Resource = "leases"   // leases, and stagings that are waited for
	Requests Resource = "requests" // idempotency keys that are remembered beside those of tasks
	Datasets Resource = "datasets" // their names
	Journals Resource = "journals" // bytes in the directory of its journals on an agent
)

// All are the resources, in the order in which they are told.
var All = []Resource{Slots, Tasks, Specs, Leases, Requests, Datasets, Journals}

// Limits are the most that an account may hold. A resource that is absent has no limit.
type Limits map[Resource]int64

// Bytes says whether a resource is counted in bytes.
func (r Resource) Bytes() bool { return r == Specs || r == Journals }

// Text prints an amount of a resource.
func (r Resource) Text(n int64) string {
	switch {
	case r == Slots:
		return fmt.Sprintf("%d%%", n)
	case r.Bytes():
		return units.Bytes(n)
	}
	return units.Count(n)
}

// remedies say how an account comes below its limit.
var remedies = map[Resource]string{
	Slots:    "wait for a task of yours to end, or cancel one",
	Tasks:    "wait for tasks to end, or cancel some (datamove task cancel)",
	Specs:    "cancel tasks (datamove task cancel), or ask for less in each",
	Leases:   "drop leases (datamove lease drop), or let them end",
	Requests: "wait a day, or make requests without an idempotency key",
	Datasets: "remove datasets (datamove dataset remove)",
	Journals: "remove what lies there beside journals, or end or cancel tasks",
}

// Check says whether an account that holds used of a resource may hold want more.
func Check(account string, r Resource, used, want int64, limits Limits) error {
	limit, limited := limits[r]
	if !limited || want <= 0 || used <= limit && want <= limit-used {
		return nil
	}
	return r.refused("quota "+string(r), account, fmt.Sprintf("%s of %s, and asks for %s more", r.Text(used), r.Text(limit), r.Text(want)))
}

// Over says why an account that has used of a resource in a place may use no more of it: that was counted, and not asked for.
func Over(account string, r Resource, place string, used int64, limits Limits) error {
	limit, limited := limits[r]
	if !limited || used <= limit {
		return nil
	}
	return r.refused(place, account, fmt.Sprintf("%s of %s", r.Text(used), r.Text(limit)))
}

func (r Resource) refused(place, account, has string) error {
	account = mover.Printable(account)
	return &mover.Error{Op: "hold", Location: place, Err: mover.OverQuota(fmt.Errorf("%w: %s has %s; %s, or ask the operator for more (quotas.users.%s.%s in the configuration)",
		mover.ErrRefused, account, has, remedies[r], account, string(r)))}
}

// Slots is how many of the slots of an agent one account may have: a part of them, and one at least.
func (l Limits) Slots(of int) int {
	percent, limited := l[Slots]
	if !limited {
		return of
	}
	return max(int(int64(of)*percent/100), min(of, 1))
}
