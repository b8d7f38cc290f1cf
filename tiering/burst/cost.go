package burst

import (
	"time"

	"datamove.dev/tiering/burst/pricing"
)

// Cost is what a day of a burst has cost, as Cost Explorer has it.
type Cost struct {
	Day   time.Time     `json:"day"`   // it begins, in UTC
	Burst string        `json:"burst"` // the ID of its record
	Money pricing.Money `json:"money"`
	Final bool          `json:"final,omitempty"` // AWS will not change it any more
}

// Billed is what AWS says that a team has spent on a day.
type Billed struct {
	Team  Name
	Day   time.Time
	Money pricing.Money
}

// costLate is how old a day is of which Cost Explorer has all, about: it hears of things up to a day later. What it has is an estimate until the month is billed, which a later look replaces.
const costLate = 48 * time.Hour

// Bill adds up costs by team and day, in the order in which they came: those of records, which are by ID, and but for days of which AWS may not have heard all.
func Bill(costs []Cost, records map[string]*Record, now time.Time) (all []Billed, err error) {
	type day struct {
		team Name
		on   time.Time
	}
	at := map[day]int{}
	for _, c := range costs {
		r := records[c.Burst]
		if r == nil || !c.Final && now.Sub(c.Day) < costLate {
			continue
		}
		b, err := r.Burst()
		if err != nil {
			return nil, err
		}
		d := day{b.Spec.Team, c.Day}
		i, known := at[d]
		if !known {
			i, at[d] = len(all), len(all)
			all = append(all, Billed{Team: d.team, Day: d.on})
		}
		all[i].Money += c.Money
	}
	return all, nil
}
