package csi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"datamove.dev/csi/kube"
	"datamove.dev/csi/volume"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/dataset/datasetclient"
)

// Cluster is what Kubernetes is told: *kube.Cluster tells it.
type Cluster interface {
	// Tell makes an event.
	Tell(ctx context.Context, about kube.About, bad bool, reason, message string)
	// Claims are those with a volume of a driver, and a handle that begins with a prefix.
	Claims(ctx context.Context, driver, prefix string) ([]kube.Claim, error)
	// Annotate changes annotations of a claim; "" takes one away.
	Annotate(ctx context.Context, of volume.Claim, annotations map[string]string) error
}

// Annotations of claims of datasets, which say what is staged for them, how far, and what is wrong.
const (
	stagedOn  = Name + "/staged-on" // nodes on which pods have it
	stagingTo = Name + "/staging"   // where it is on its way, and how far
	problem   = Name + "/problem"   // where it could not be staged, and why
	version   = Name + "/version"   // digest of the dataset that its pods read; of one that is not pinned, those that they have
)

// tellStaging says in events of a pod how the staging of what it waits for goes, and how long it waits.
func (d *Driver) tellStaging(ctx context.Context, about volume.Attributes, source string, away bool, err error) {
	pod := about.Pod
	if d.Cluster == nil {
		return
	}
	var u *datasetclient.Underway
	switch {
	case err == nil && away:
		d.Cluster.Tell(ctx, kube.OfPod(pod), false, "Staged", source+" is on this node as it was before; the coordinator can not be reached, and is told of it later")
	case err == nil && !strings.HasPrefix(source, "dataset:"):
		d.Cluster.Tell(ctx, kube.OfPod(pod), false, "Staged", source+" is on this node as it is there now; "+unversioned)
	case err == nil:
		d.Cluster.Tell(ctx, kube.OfPod(pod), false, "Staged", source+" is on this node")
	case errors.As(err, &u):
		d.Cluster.Tell(ctx, kube.OfPod(pod), false, "Staging", fmt.Sprintf("%s: %s (task %s; the pod waits for it for %s at most, its deadline)", source, u.How, u.Task, units.Duration(about.Deadline)))
	default:
		d.Cluster.Tell(ctx, kube.OfPod(pod), true, "StagingFailed", source+": "+err.Error())
	}
}

// tellPinned says in an event of a claim which version its pods will read.
func (d *Driver) tellPinned(ctx context.Context, p *volume.Parameters, name string) {
	dataset, _ := p.Source.Dataset()
	d.tellClaim(ctx, p, name, false, "VersionPinned",
		p.Source.Location+" is what all pods of the claim read, also when the dataset is added anew; dataset: "+dataset+"@latest asks for the newest version")
}

// unversioned is what pods read of a source that is no dataset.
const unversioned = "it has no version: each start of a pod brings what is there then, also for pods of the node that run; datamove dataset add gives it versions"

// tellUnversioned says in an event of a claim that its pods may read different things.
func (d *Driver) tellUnversioned(ctx context.Context, p *volume.Parameters, name string) {
	d.tellClaim(ctx, p, name, true, "NoVersion", p.Source.Location+": "+unversioned)
}

// tellClaim makes an event of the claim that a volume is made for. The provisioner names a volume after the UID of its claim.
func (d *Driver) tellClaim(ctx context.Context, p *volume.Parameters, name string, bad bool, reason, message string) {
	uid, ok := strings.CutPrefix(name, "pvc-")
	if d.Cluster == nil || !ok || p.For.Name == "" {
		return
	}
	d.Cluster.Tell(ctx, kube.About{Kind: "PersistentVolumeClaim", Namespace: p.For.Namespace, Name: p.For.Name, UID: uid}, bad, reason, message)
}

// versioned is a source with the version that a pod has of it.
func versioned(s volume.Source, digest string) string {
	if dataset, _ := s.Dataset(); dataset != "" && digest != "" {
		s = s.At(digest)
	}
	return s.Location
}

// Annotate keeps the annotations of claims of datasets true, until ctx is over.
func (d *Driver) Annotate(ctx context.Context, every time.Duration) {
	for {
		if err := d.annotate(ctx); err != nil && ctx.Err() == nil {
			d.Logger.WarnContext(ctx, "claims can not be annotated", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}

func (d *Driver) annotate(ctx context.Context) error {
	claims, err := d.Cluster.Claims(ctx, Name, volume.ID{Kind: volume.Dataset}.String())
	if err != nil || len(claims) == 0 {
		return err
	}
	view, err := d.Staging.Look(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range claims {
		id, err := volume.ParseID(c.Volume)
		if err != nil {
			continue // the driver mounts no volume with such an ID
		}
		about, err := volume.ParseAttributes(id.Kind, c.Attributes)
		said := map[string]string{stagedOn: strings.Join(view.On(ofVolume(id)), ", ")}
		if err != nil {
			said[problem] = err.Error()
		} else {
			_, digest := about.Source.Dataset()
			said[version] = cmp.Or(digest, strings.Join(view.Versions(ofVolume(id)), ", "))
			source := about.Source.Location
			said[stagingTo] = strings.Join(view.Coming(source), "; ")
			said[problem] = strings.Join(view.Failed(source), "; ")
		}
		errs = append(errs, d.Cluster.Annotate(ctx, c.Claim, said))
	}
	return errors.Join(errs...)
}
