package csi

import (
	"context"
	"fmt"
	"strings"

	"datamove.dev/csi/fsclient"
	"datamove.dev/csi/kube"
	"datamove.dev/csi/volume"
	"datamove.dev/mover"
)

// closedMost is how many entries of a dataset are looked at: they mostly have the same permissions.
const closedMost = 1000

// tellClosed says in an event of a pod that not every user may read what was granted to it, and how to mend that. The kubelet does not tell the user of the pod.
func (d *Driver) tellClosed(ctx context.Context, p publication, a fsclient.Attachment) {
	if d.Cluster == nil {
		return
	}
	var what, mend string
	most := 1
	switch p.id.Kind {
	case volume.Dataset, volume.Inline:
		what, most, mend = p.about.Source.Location, closedMost, "; or run chmod -R o+rX where it comes from, add it anew, and make a new claim"
	case volume.Static:
		what, mend = "directory "+p.about.Path+" of file system "+p.spec.Name, "; or change its permissions"
	default:
		return
	}
	var groups []uint32
	if p.group != nil {
		groups = append(groups, *p.group)
	}
	c, err := d.Files.Closed(ctx, a, groups, most)
	if err != nil || c == nil {
		return
	}
	d.Cluster.Tell(ctx, kube.OfPod(p.about.Pod), false, "NotForAllUsers", what+": "+closedTo(c)+mend)
}

// closedTo says which users may read something, and what a pod's securityContext needs for that.
func closedTo(c *fsclient.Closed) string {
	var ways []string
	owner, group := c.Readers()
	if owner && c.UID != 0 {
		ways = append(ways, fmt.Sprintf("runAsUser: %d", c.UID))
	}
	if group && c.GID != 0 {
		ways = append(ways, fmt.Sprintf("supplementalGroups: [%d]", c.GID))
	}
	name := mover.Printable(c.Name)
	if c.Name == "." {
		name = "it"
	}
	ways = append(ways, "root")
	return fmt.Sprintf("%s has mode %04o, owner %d and group %d: a pod reads it with %s", name, c.Mode, c.UID, c.GID, strings.Join(ways, ", or "))
}
