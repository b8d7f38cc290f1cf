package burstbuffer

import (
	"context"
	"fmt"
	"strconv"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/dataset/datasetclient"
	"datamove.dev/tiering/slurm"
)

// namesake is another Slurm cluster with labels that look like those of this one, since neither has a name in the configuration; "" is none.
func (c *Controller) namesake(labels map[string]string) string {
	name := labels[slurm.NameLabel]
	if c.Config.Slurm.Cluster != "" || labels[slurm.ClusterLabel] != "" || c.Name == "" || name == c.Name {
		return ""
	}
	return name
}

// others says whether something is another cluster's, for a job of the same number.
func (w *work) others(labels map[string]string) bool {
	return w.own.Others(labels) || w.namesake(labels) != ""
}

// unique is an error where another Slurm cluster without a name in the configuration has asked for something for a job of the same number: what is asked for one of
// them counts for the other one.
func (w *work) unique(ctx context.Context) error {
	if w.Name == "" || w.own.Cluster != "" {
		return nil
	}
	client, err := w.stage.Client(ctx)
	if err != nil {
		return err
	}
	of := map[string]string{slurm.Label: strconv.FormatUint(uint64(w.Job), 10)}
	for t, err := range datasetclient.Tasks(ctx, client, &datamovev1.ListTasksRequest{Brief: true, Labels: of}) {
		if err != nil {
			return err
		}
		if name := w.namesake(t.GetSpec().GetLabels()); name != "" {
			return w.confused(name, "task "+t.GetId())
		}
	}
	for l, err := range client.Leases(ctx, &datamovev1.ListLeasesRequest{Labels: of}) {
		if err != nil {
			return err
		}
		if name := w.namesake(l.GetLabels()); name != "" {
			return w.confused(name, "lease "+l.GetId())
		}
	}
	return nil
}

func (w *work) confused(name, by string) error {
	return fmt.Errorf("%w: Slurm cluster %s has a job %d on this coordinator, too (%s), and it would be taken for this one of %s: set slurm.cluster in the configuration of datamove to the name of the cluster, on all machines of both, and release the job",
		mover.ErrRefused, mover.Printable(name), w.Job, by, mover.Printable(w.Name))
}
