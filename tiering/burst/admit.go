package burst

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/units"
)

// Admission are the rules by which a job may burst, a file of `kind: BurstAdmission`.
type Admission struct {
	At    yamldoc.Position
	Kind  string `yaml:"kind" declare:"required"` // BurstAdmission
	Rules []Rule `yaml:"rules" declare:"required"`
}

// Rule admits a job of which all holds that it says.
type Rule struct {
	At         yamldoc.Position
	Name       Name     `yaml:"name" declare:"required"`
	Jobs       []string `yaml:"jobs" declare:"required"` // kinds
	WaitAbove  Span     `yaml:"waitAbove"`               // it would begin here later than that, or never, because its GPUs do not exist here; 0 is any
	GPUs       int64    `yaml:"gpusAtLeast"`
	Data       Size     `yaml:"dataAtLeast"` // bytes that are sent
	Priorities []string `yaml:"priorities"`  // none is any
	Teams      []string `yaml:"teams"`       // none is any
}

// DefaultAdmission is what is admitted without rules of a site: training that would begin here more than 6 hours from now, or never, and is large or of high priority.
const DefaultAdmission = `kind: BurstAdmission
rules:
  - {name: large, jobs: training, waitAbove: 6h, gpusAtLeast: 64}
  - {name: urgent, jobs: training, waitAbove: 6h, priorities: [high, urgent]}
`

// ReadAdmission reads the rules in a text, and says all that is wrong with them: yamldoc.Problems, which are mover.ErrUsage.
func ReadAdmission(file string, text []byte) (*Admission, error) {
	r := &yamldoc.Reader{File: file}
	docs := r.Documents(text)
	a := &Admission{}
	if len(docs) != 1 {
		r.Add(nil, "", "want one document of kind BurstAdmission, and not %d", len(docs))
		return nil, r.Err()
	}
	r.Into(docs[0], "", a)
	c := checker{r, docs[0]}
	if a.Kind != "BurstAdmission" && a.Kind != "" {
		c.wrong("kind", "want BurstAdmission, and not %q", a.Kind)
	}
	for i, rule := range a.Rules {
		for field, words := range map[string][]string{"jobs": rule.Jobs, "teams": rule.Teams} {
			for _, w := range words {
				if !wordForm().MatchString(w) {
					c.wrong(fmt.Sprintf("rules[%d].%s", i, field), "%q: want words, like training", w)
				}
			}
		}
		for _, p := range rule.Priorities {
			if !slices.Contains(priorities, p) {
				c.wrong(fmt.Sprintf("rules[%d].priorities", i), "unknown word %q; want %s", p, strings.Join(priorities, ", "))
			}
		}
	}
	return a, r.Err()
}

// Admitted is what the rules say of a burst.
type Admitted struct {
	By  Name     `json:"by,omitempty"`  // the first rule that admits it; "" is none
	Why []string `json:"why,omitempty"` // of each rule that does not
}

// Err is mover.ErrRefused where no rule admits it.
func (a Admitted) Err() error {
	if a.By != "" {
		return nil
	}
	return fmt.Errorf("%w: no rule admits this burst: %s", mover.ErrRefused, strings.Join(a.Why, "; "))
}

// Admit says whether a burst that sends so many bytes may be.
func (a *Admission) Admit(b *Burst, bytes int64) (verdict Admitted) {
	for _, rule := range a.Rules {
		why := rule.against(b, bytes)
		if why == "" {
			verdict.By = rule.Name
			return verdict
		}
		verdict.Why = append(verdict.Why, fmt.Sprintf("%s: %s", rule.Name, why))
	}
	return verdict
}

// against is what a rule has against a burst; "" is nothing.
func (r Rule) against(b *Burst, bytes int64) string {
	j := &b.Spec.Job
	priority := j.Priority
	if priority == "" {
		priority = "normal"
	}
	switch {
	case !slices.Contains(r.Jobs, j.Kind):
		return fmt.Sprintf("the job is %s, and not %s", j.Kind, strings.Join(r.Jobs, " or "))
	case r.WaitAbove > 0 && !j.NoneHere && j.StartsIn <= r.WaitAbove:
		return fmt.Sprintf("it begins here in %s, which is not more than %s", units.Duration(time.Duration(j.StartsIn)), r.WaitAbove)
	case j.GPUs < r.GPUs:
		return fmt.Sprintf("it has %d GPUs, fewer than %d", j.GPUs, r.GPUs)
	case bytes < int64(r.Data):
		return fmt.Sprintf("it sends %s, less than %s", units.Bytes(bytes), units.Bytes(int64(r.Data)))
	case len(r.Priorities) > 0 && !slices.Contains(r.Priorities, priority):
		return fmt.Sprintf("its priority is %s, and not %s", priority, strings.Join(r.Priorities, " or "))
	case len(r.Teams) > 0 && !slices.Contains(r.Teams, string(b.Spec.Team)):
		return fmt.Sprintf("team %s is not %s", b.Spec.Team, strings.Join(r.Teams, " or "))
	}
	return ""
}
