// Package placement answers from the configuration alone where a location is: in which tier, on which node, under which address, and what an agent
// has to reach to work on a task.
package placement

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/spelling"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
)

// Need is what an agent must reach to work on a task.
type Need struct {
	Node  string   // "" is any
	Tiers []string // sorted
}

// Route is a need as a word, for the names of flows.
func (n Need) Route() string { return n.Node + "|" + strings.Join(n.Tiers, ",") }

// Shared says whether agents on several nodes can work on it.
func (n Need) Shared() bool { return n.Node == "" }

// Of finds what a spec needs. here is the node of the caller: paths that are in no
// shared tier, and node-local tiers, are meant there unless the spec names a node.
func Of(spec *pb.TaskSpec, c *config.Config, here string) (Need, error) {
	var n Need
	for _, text := range locations(spec) {
		l, err := convert.Locate(text)
		if err != nil {
			return n, err
		}
		tier, local, err := TierOf(l, c)
		if err != nil {
			return n, err
		}
		if tier != "" && !slices.Contains(n.Tiers, tier) {
			n.Tiers = append(n.Tiers, tier)
		}
		if local {
			n.Node = cmp.Or(spec.GetNode(), here)
		}
	}
	if spec.GetNode() != "" {
		n.Node = spec.GetNode()
	}
	slices.Sort(n.Tiers)
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

// TierOf finds the tier that a location is in, and whether it means one node only.
func TierOf(l location.Location, c *config.Config) (tier string, local bool, err error) {
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

// Address is where a location is, so that two names of one place are the same. The
// node counts where each has its own.
func Address(text, node string, c *config.Config) string {
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
		if _, local, err := TierOf(l, c); err == nil && !local {
			node = ""
		}
		return node + ":" + path.Clean(l.Path)
	}
	return strings.TrimSuffix(l.String(), "/")
}

// Overlap says whether one of two addresses lies in the other. What all nodes share may lie in a directory of one node.
func Overlap(a, b string) bool {
	x, p, _ := strings.Cut(a, ":")
	y, q, _ := strings.Cut(b, ":")
	if x != y && (x != "" && y != "" || x == s3Scheme || y == s3Scheme) {
		return false
	}
	return p == q || strings.HasPrefix(p, strings.TrimSuffix(q, "/")+"/") || strings.HasPrefix(q, strings.TrimSuffix(p, "/")+"/")
}

// s3Scheme is what stands in an address of a bucket before the colon, where a path has its node.
const s3Scheme = "s3"

// NoTier is the error of a tier that the configuration does not have: a word that is wrong.
func NoTier(op, name string, c *config.Config) error {
	tiers := slices.Sorted(maps.Keys(c.Tiers))
	names := "it has " + cmp.Or(strings.Join(tiers, ", "), "none")
	if question := spelling.Question(name, tiers); question != "" {
		names = question + " " + names
	}
	return &mover.Error{Op: op, Location: "tier " + mover.Printable(name), Err: mover.Because(mover.ErrUsage, "the configuration of the service has no such tier; %s", names)}
}

// InTier reads a location that has to be in a tier, if it names one.
func InTier(text string, c *config.Config) (location.Location, error) {
	l, err := location.Parse(text)
	if _, known := c.Tiers[l.Tier]; err == nil && l.InTier() && !known {
		err = NoTier("use", l.Tier, c)
	}
	return l, err
}

// InTiers finds a location of a request that is in no tier that there is.
func InTiers(spec *pb.TaskSpec, c *config.Config) error {
	for _, text := range locations(spec) {
		if _, err := InTier(text, c); err != nil {
			return err
		}
	}
	return nil
}
