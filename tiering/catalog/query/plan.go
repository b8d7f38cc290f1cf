package query

import (
	"context"
	"time"

	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

// Area is a part of what a policy is about.
type Area struct {
	Tree   catalog.Tree
	Dir    string
	Ground func() FactSource
}

// Plan asks a policy about all files of some areas. passes says what is left out; nil leaves out nothing, and it is called from many goroutines.
func (r Reader) Plan(ctx context.Context, p *policy.Program, areas []Area, now time.Time, passes func(area int, f *dataset.File) bool) (*policy.Plan, error) {
	var all *policy.Selection
	for i, area := range areas {
		of := Reader{r.Catalog, r.People, area.Ground}
		a, err := of.answer(Question{Tree: area.Tree, Dir: area.Dir, Now: now})
		if err != nil {
			return nil, err
		}
		selections, grounds := make([]*policy.Selection, workers()), make([]FactSource, workers())
		for w := range selections {
			selections[w], grounds[w] = p.Judge(now, r.People).Select(), area.Ground()
		}
		err = a.read(ctx, func(worker int, f *dataset.File) error {
			if passes == nil || !passes(i, f) {
				selections[worker].Add(i, f, grounds[worker].At(f))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, s := range selections {
			if all == nil {
				all = s
			} else {
				all.Merge(s)
			}
		}
	}
	if all == nil {
		all = p.Judge(now, r.People).Select()
	}
	return all.Plan(), nil
}

// Judged is what a policy says of one file.
func (r Reader) Judged(p *policy.Program, area Area, f *dataset.File, now time.Time) (j *policy.Judge, at *policy.Facts, v policy.Verdict) {
	j, at = p.Judge(now, r.People), area.Ground().At(f)
	return j, at, j.Decide(f, at)
}
