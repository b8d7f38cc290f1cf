package coordinator

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// placement is what an agent must reach to work on a task.
type placement struct {
	node  string   // "" is any
	tiers []string // sorted
}

// route is a need as a word, for the names of flows.
func (n placement) route() string { return n.node + "|" + strings.Join(n.tiers, ",") }

// shared says whether agents on several nodes can work on it.
func (n placement) shared() bool { return n.node == "" }

// needOf finds what a spec needs. here is the node of the caller: paths that are in no
// shared tier, and node-local tiers, are meant there unless the spec names a node.
func needOf(spec *pb.TaskSpec, c *config.Config, here string) (placement, error) {
	var n placement
	for _, text := range locations(spec) {
		l, err := convert.Locate(text)
		if err != nil {
			return n, err
		}
		tier, local, err := tierOf(l, c)
		if err != nil {
			return n, err
		}
		if tier != "" && !slices.Contains(n.tiers, tier) {
			n.tiers = append(n.tiers, tier)
		}
		if local {
			n.node = cmp.Or(spec.GetNode(), here)
		}
	}
	if spec.GetNode() != "" {
		n.node = spec.GetNode()
	}
	slices.Sort(n.tiers)
	return n, nil
}

// locations are all of a spec.
func locations(spec *pb.TaskSpec) []string {
	all := append(slices.Clone(spec.GetSources()), spec.GetBurst().GetHomes()...)
	for _, l := range []string{spec.GetSource(), spec.GetTarget()} {
		if l != "" {
			all = append(all, l)
		}
	}
	return all
}

// tierOf finds the tier that a location is in, and whether it means one node only.
func tierOf(l location.Location, c *config.Config) (tier string, local bool, err error) {
	switch {
	case l.InTier():
		t, ok := c.Tiers[l.Tier]
		if !ok {
			return "", false, fmt.Errorf("%w: there is no tier %q", mover.ErrNotExist, l.Tier)
		}
		return l.Tier, t.NodeLocal, nil
	case l.IsPath():
		best := ""
		for name, t := range c.Tiers {
			if t.Path != "" && within(l.Path, t.Path) && (best == "" || len(t.Path) > len(c.Tiers[best].Path)) {
				best = name
			}
		}
		return best, best == "" || c.Tiers[best].NodeLocal, nil
	}
	return "", false, nil // a bucket is reached from everywhere
}

func within(p, dir string) bool {
	return mover.Within(strings.Trim(path.Clean(p), "/"), strings.Trim(path.Clean(dir), "/"))
}

// address is where a location is, so that two names of one place are the same. The
// node counts where each has its own.
func address(text, node string, c *config.Config) string {
	l, err := convert.Locate(text)
	if err != nil {
		return text
	}
	if l.InTier() {
		t := c.Tiers[l.Tier]
		if t.S3 != nil {
			return strings.TrimSuffix("s3://"+t.S3.Bucket+"/"+mover.Join(strings.Trim(t.S3.Prefix, "/"), l.Path), "/")
		}
		l = location.OfPath(path.Join(t.Path, l.Path))
	}
	if l.IsPath() {
		if _, local, err := tierOf(l, c); err == nil && !local {
			node = ""
		}
		return node + ":" + path.Clean(l.Path)
	}
	return strings.TrimSuffix(l.String(), "/")
}

// overlap says whether one of two addresses lies in the other. What all nodes share may lie in a directory of one node.
func overlap(a, b string) bool {
	x, p, _ := strings.Cut(a, ":")
	y, q, _ := strings.Cut(b, ":")
	if x != y && (x != "" && y != "" || x == s3Scheme || y == s3Scheme) {
		return false
	}
	return p == q || strings.HasPrefix(p, strings.TrimSuffix(q, "/")+"/") || strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/")
}

// s3Scheme is what stands in an address of a bucket before the colon, where a path has its node.
const s3Scheme = "s3"
