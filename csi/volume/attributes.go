package volume

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Attributes are what a PersistentVolume says of a volume that the driver did not make, or
// a pod of an inline one.
type Attributes struct {
	Path     string        // Static: below the file system's root, without "." and ".."; "" is the root itself
	Source   Source        // Dataset and Inline
	Deadline time.Duration // Dataset and Inline
	Pod      Pod           // that it is mounted for; the zero Pod where Kubernetes does not say
}

// Pod is the pod that the kubelet mounts a volume for.
type Pod struct{ Namespace, Name, UID, ServiceAccount string }

// fromKubernetes are the attributes that the kubelet and the provisioner add, and where they belong. What is
// not read is known all the same. The driver asks for no tokens of service accounts, and
// drops them where the cluster sends them: they are never to be seen in a log.
var fromKubernetes = map[string]func(*Attributes, string){
	prefix + "pod.name":                            func(a *Attributes, s string) { a.Pod.Name = s },
	prefix + "pod.namespace":                       func(a *Attributes, s string) { a.Pod.Namespace = s },
	prefix + "pod.uid":                             func(a *Attributes, s string) { a.Pod.UID = s },
	prefix + "serviceAccount.name":                 func(a *Attributes, s string) { a.Pod.ServiceAccount = s },
	prefix + "serviceAccount.tokens":               nil,
	prefix + "ephemeral":                           nil,
	prefix + "pv/name":                             nil,
	prefix + "pvc/name":                            nil,
	prefix + "pvc/namespace":                       nil,
	"storage.kubernetes.io/csiProvisionerIdentity": nil,
}

// ParseAttributes reads those of a volume of a kind.
func ParseAttributes(k Kind, given map[string]string) (Attributes, error) {
	var a Attributes
	described := map[string]string{}
	for name, value := range given {
		set, known := fromKubernetes[name]
		switch {
		case set != nil:
			set(&a, value)
		case !known:
			described[name] = value
		}
	}
	switch ephemeral := given[prefix+"ephemeral"]; {
	case k == Inline && ephemeral != "true":
		return Attributes{}, fmt.Errorf("%w: an inline volume that the kubelet does not call ephemeral", mover.ErrUsage)
	case k != Inline && ephemeral == "true":
		return Attributes{}, fmt.Errorf("%w: a pod can describe volumes of type dataset only; for scratch use a generic ephemeral volume", mover.ErrUsage)
	}
	return a, a.describe(k, described)
}

// describe reads what is left when that of Kubernetes is taken away.
func (a *Attributes) describe(k Kind, given map[string]string) error {
	switch k {
	case Dataset, Inline:
		p := Parameters{Kind: Dataset, Deadline: DefaultDeadline}
		if err := p.read(given, "type"); err != nil {
			return err
		}
		if kind, said := given["type"]; said && kind != string(Dataset) {
			return fmt.Errorf("%w: attribute type is %s: a volume that is described so is of type dataset", mover.ErrUsage, quoted(kind))
		}
		a.Source, a.Deadline = p.Source, p.Deadline
		return p.whole()
	case Static:
		path, said := given["path"]
		if !said {
			return fmt.Errorf("%w: a static volume needs the attribute path: a directory below the root of its file system", mover.ErrUsage)
		}
		delete(given, "path")
		if path != "" && !mover.ValidName(path) {
			return fmt.Errorf("%w: attribute path is %s: it has to be relative, without empty, . and .. segments", mover.ErrUsage, quoted(path))
		}
		a.Path = path
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		return fmt.Errorf("%w: attribute %s is not known for a volume of kind %s", mover.ErrUsage, quoted(name), k)
	}
	return nil
}

// Context is what the driver writes into a PersistentVolume that it makes for p, and
// ParseAttributes reads.
func (p *Parameters) Context() map[string]string {
	if p.Kind != Dataset {
		return nil // all of it is in the volume
	}
	c := map[string]string{"deadline": p.Deadline.String()}
	if name, ok := strings.CutPrefix(p.Source.Location, "dataset:"); ok {
		c["dataset"] = name
		if p.Source.Latest {
			c["dataset"] += latest
		}
	} else {
		c["source"] = p.Source.Location
	}
	if p.Source.Tier != "" {
		c["tier"] = p.Source.Tier
	}
	return c
}
