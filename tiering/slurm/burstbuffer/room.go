package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// leavesRoom refuses what is to go where nothing more can be written. Now the user can mend it, and after the end of the job it is too late.
func (c *Controller) leavesRoom(ctx context.Context, job directive.Job) error {
	if c.Room == nil {
		return nil
	}
	var errs []error
	asked := map[string]bool{}
	for _, verb := range []directive.Verb{directive.StageOut, directive.Checkpoint} {
		for r := range job.Of(verb) {
			for _, to := range r.To {
				dir := known(c.seen(to))
				if dir == "" || asked[dir] {
					continue
				}
				asked[dir] = true
				if err := c.Room(ctx, dir); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", r.Summary(), err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// spaceOf is how much of each tier a job asks for on each of its nodes.
func spaceOf(job directive.Job) map[string]int64 {
	needs := map[string]int64{}
	for _, s := range job.Scratch {
		if needs[s.Tier] += s.Bytes; needs[s.Tier] < 0 {
			needs[s.Tier] = math.MaxInt64
		}
	}
	return needs
}

// space is an error where a node of the job has not as much room as it asks for, or has promised it to other jobs: Slurm tries again. What is not held there makes room.
func (w *work) space(ctx context.Context, nodes []string) error {
	needs := spaceOf(w.Asked)
	client, err := w.stage.Client(ctx)
	if err != nil || len(needs) == 0 {
		return err
	}
	for _, tier := range slices.Sorted(maps.Keys(needs)) {
		lines, err := client.ListTiers(ctx, &datamovev1.ListTiersRequest{Name: tier})
		if err != nil {
			return err
		}
		for _, line := range lines.GetTiers() {
			total, node := line.GetTotalBytes(), line.GetNode()
			if total == 0 || !slices.Contains(nodes, node) {
				continue
			}
			free := line.GetFreeBytes() + max(0, line.GetReplicaBytes()-line.GetLeasedBytes())
			room := max(0, min(free, total-w.promised(node, tier))-mover.Kept(total, int(line.GetKeepFreePercent())))
			if room < needs[tier] {
				return fmt.Errorf("%w: %s has room for %s in %s now, and the job asks for %s on each node (#DW capacity=): it waits for room",
					mover.ErrConflict, node, units.Bytes(room), tier, units.Bytes(needs[tier]))
			}
		}
	}
	return nil
}

// reserve has the nodes of a job make its directory, and hold it to its capacity, before anything comes into it. Each node does it as it begins a task that
// copies nothing.
func (w *work) reserve(ctx context.Context, nodes []string) error {
	tier, bytes := w.tiers.Scratch, spaceOf(w.Asked)[w.tiers.Scratch]
	if bytes == 0 {
		return nil
	}
	labels := map[string]string{slurm.PartLabel: slurm.Space, slurm.CapacityLabel: strconv.FormatInt(bytes, 10)}
	for i, v := range w.Asked.Variables() {
		if i < spacesMost {
			labels[slurm.SpaceLabel+v.At.Path] = ""
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reservePatience)
	defer cancel()
	errs := make([]error, len(nodes))
	var making sync.WaitGroup
	for i, node := range nodes {
		making.Go(func() {
			at := w.dir(location.OfTier(tier, ".capacity"))
			errs[i] = w.came(ctx, "#DW capacity= on "+node, datasetclient.Order{Key: fmt.Sprintf("capacity/%d/%s/%s", w.Job, w.RunID(), node), Node: node, Labels: labels,
				From: at.Child("none").String(), To: w.dir(location.OfTier(tier, ".space")).String(), Options: &datamovev1.Options{SourceMayBeAbsent: true}})
		})
	}
	making.Wait()
	for _, err := range errs {
		if err != nil && !away(err) { // which the others do not hide
			return err
		}
	}
	return errors.Join(errs...)
}

// reservePatience is how long a node may take to make a directory: a job waits for no agent that is away.
const reservePatience = 30 * time.Second

// spacesMost is how many directories of #DW lines the nodes make; a task has not many more labels.
const spacesMost = 16

// promised is what other jobs on a node have asked for there. Of two that are about to begin the first one has it.
func (w *work) promised(node, tier string) (sum int64) {
	all, err := w.records().all(fileJob)
	if err != nil {
		w.tell("what other jobs have asked for is not known: %v", err)
	}
	for _, f := range all {
		x, err := w.Controller.Run(f.job)
		if err != nil || x.Job == w.Job || !x.Began.Before(w.Began) && !w.records().begun(x) {
			continue
		}
		var p Place
		if w.records().read(x.Job, filePlace, &p) == nil && slices.Contains(p.Nodes, node) {
			sum += min(spaceOf(x.Asked)[tier], math.MaxInt64-sum)
		}
	}
	return sum
}

// nodesTake refuses what is more than a tier takes on any node, as far as the mover knows how large it is there.
func nodesTake(ctx context.Context, client *api.Client, needs map[string]int64) error {
	for _, tier := range slices.Sorted(maps.Keys(needs)) {
		lines, err := client.ListTiers(ctx, &datamovev1.ListTiersRequest{Name: tier})
		if err != nil {
			return err
		}
		most, known := int64(0), false
		for _, line := range lines.GetTiers() {
			total := line.GetTotalBytes()
			most, known = max(most, total-mover.Kept(total, int(line.GetKeepFreePercent()))), known || total > 0
		}
		if known && needs[tier] > most {
			return fmt.Errorf("%w: the job asks for %s on each node, and %s takes %s at most on any node: ask for less, or read datasets where they are", mover.ErrRefused, units.Bytes(needs[tier]), tier, units.Bytes(most))
		}
	}
	return nil
}

// known is the part of a path that is the same for every job.
func known(name string) string {
	i := strings.IndexAny(name, "%{")
	if i < 0 {
		return name
	}
	return name[:strings.LastIndexByte(name[:i], '/')+1]
}

// seen is where all nodes see a location; "" is nowhere.
func (c *Controller) seen(l location.Location) string {
	if l.InTier() && c.Config.Tiers[l.Tier].NodeLocal {
		return ""
	}
	return c.Config.PathOf(l)
}
