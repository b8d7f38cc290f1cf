package kube

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"datamove.dev/csi/volume"
)

// Claim is a PersistentVolumeClaim with a volume of a driver.
type Claim struct {
	volume.Claim
	UID        string
	Volume     string            // its handle
	Attributes map[string]string // of its volume
}

// About is the claim.
func (c *Claim) About() About {
	return About{"PersistentVolumeClaim", c.Namespace, c.Name, c.UID}
}

// Claims returns the claims with a volume of a driver that has a handle which begins with a prefix.
func (c *Cluster) Claims(ctx context.Context, driver, prefix string) ([]Claim, error) {
	volumes, err := c.core.PersistentVolumes().List(ctx, cached)
	if err != nil {
		return nil, err
	}
	var all []Claim
	for i := range volumes.Items {
		spec := &volumes.Items[i].Spec
		if spec.CSI == nil || spec.ClaimRef == nil || spec.CSI.Driver != driver || volumes.Items[i].Status.Phase != corev1.VolumeBound {
			continue
		}
		if strings.HasPrefix(spec.CSI.VolumeHandle, prefix) {
			all = append(all, Claim{volume.Claim{Namespace: spec.ClaimRef.Namespace, Name: spec.ClaimRef.Name}, string(spec.ClaimRef.UID), spec.CSI.VolumeHandle, spec.CSI.VolumeAttributes})
		}
	}
	return all, nil
}

// annotationMost is how many bytes a claim is told in one annotation: all of an object have 256 KiB together (TotalAnnotationSizeLimitB of
// k8s.io/apimachinery, pkg/api/validation/objectmeta.go), and one that names the nodes of a large cluster would have more.
const annotationMost = 32 << 10

// Annotate gives a claim annotations; "" takes one away. What it has already is not written, and of a long one its beginning is.
func (c *Cluster) Annotate(ctx context.Context, of volume.Claim, annotations map[string]string) error {
	for name, value := range annotations {
		annotations[name] = cut(value, annotationMost)
	}
	claim, err := c.core.PersistentVolumeClaims(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{ResourceVersion: "0"})
	if err == nil {
		had := maps.Clone(claim.Annotations)
		maps.DeleteFunc(annotations, func(name, value string) bool { return had[name] == value })
		if len(annotations) == 0 {
			return nil
		}
		_, err = c.core.PersistentVolumeClaims(of.Namespace).Patch(ctx, of.Name, types.MergePatchType, patch(annotations), metav1.PatchOptions{})
	}
	if errors.IsNotFound(err) {
		return nil
	}
	return err
}

// patch is RFC 7386: null removes.
func patch(annotations map[string]string) []byte {
	values := map[string]any{}
	for name, value := range annotations {
		values[name] = value
		if value == "" {
			values[name] = nil
		}
	}
	b, _ := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": values}}) // of maps and text
	return b
}
