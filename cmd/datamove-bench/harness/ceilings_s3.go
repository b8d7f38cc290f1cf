package harness

import (
	"context"
	"fmt"
	"slices"

	"datamove.dev/bench/hardware"
	"datamove.dev/bench/multinode"
	"datamove.dev/bench/result"
	"datamove.dev/bench/workload"
)

// objects are which phases of suite s3 are which ceiling.
var objects = []struct{ phase, name, how string }{
	{"put", "s3.put", "objects of 16 KiB are put"},
	{"get", "s3.get", "and are read"},
	{"multipart", "s3.write", "objects are written in parts of 8 MiB"},
	{"range-get", "s3.read", "and are read by ranges of as much, and compared"},
}

// bucketOf is the place of a --s3.
func bucketOf(target, conf string) (*places, error) {
	p, err := newPlaces(conf, []string{target})
	if err == nil && !p.buckets {
		err = usageError{fmt.Errorf("--s3 %s: want a bucket; a directory is a --dir", target)}
	}
	return p, err
}

// ofBucket measures what an endpoint does for a bucket, alone.
func ofBucket(ctx context.Context, o hardware.Options, target string, places *places) (all []hardware.Ceiling, err error) {
	sizes := workload.Sizes{Nodes: []int{1}, Bucket: true, Ranks: o.Workers, Repeats: o.Runs, Files: 200, Phases: []string{"put", "get", "multipart", "range-get"}}.Filled()
	if o.Size > 0 {
		sizes.Bytes = max(sizes.Block, o.Size/int64(sizes.Ranks))
	}
	works, err := workload.Works([]string{"s3"}, sizes)
	if err != nil {
		return nil, err
	}
	r, err := multinode.Conduct(ctx, multinode.Plan{Targets: places.targets, Works: works, Open: places.open, Version: version})
	if err != nil {
		return nil, err
	}
	for _, one := range objects {
		var rates []float64
		unit := ""
		for i := range r.Phases {
			if p := &r.Phases[i]; p.Name == one.phase {
				rates, unit = append(rates, p.Rate()), map[result.Unit]string{result.Bytes: "B/s", result.Ops: "ops/s"}[p.Unit]
			}
		}
		slices.Sort(rates)
		all = append(all, hardware.Ceiling{Name: one.name, Unit: unit, Rate: middle(rates), Lowest: rates[0], Most: rates[len(rates)-1], Runs: len(rates),
			How: fmt.Sprintf("%d workers: %s, at %s", sizes.Ranks, one.how, target)})
	}
	return all, nil
}
