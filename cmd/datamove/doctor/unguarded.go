package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// gap is why replicas of a tier are open to more accounts than those that were let in.
type gap struct{ tier, why string }

// examineReplicas warns of tiers with replicas that have no gate or are not immutable. An account that may not list them gets no warning.
func examineReplicas(ctx context.Context, c *api.Client) []Finding {
	gaps := map[gap]map[string]int64{} // replicas by node
	for r, err := range c.Replicas(ctx, &pb.ListReplicasRequest{}) {
		switch {
		case errors.Is(err, mover.ErrPermission):
			return nil
		case err != nil:
			return []Finding{{Subject: "replicas", Check: "guard", Status: Warn, Detail: cli.Shown(err.Error()), Mend: "ask again: datamove dataset replicas"}}
		case r.GetUnguarded() == "":
			continue
		}
		g := gap{r.GetTier(), r.GetUnguarded()}
		if gaps[g] == nil {
			gaps[g] = map[string]int64{}
		}
		gaps[g][r.GetNode()]++
	}
	var found []Finding
	for g, nodes := range gaps {
		found = append(found, g.finding(nodes))
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Subject+a.Detail, b.Subject+b.Detail) })
	return found
}

// nodesNamed is how many nodes a finding names.
const nodesNamed = 5

func (g gap) finding(nodes map[string]int64) Finding {
	var n int64
	for _, here := range nodes {
		n += here
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(nodes)), func(name string) bool { return name == "" })
	where := ""
	if len(names) > 0 {
		where = " of " + strings.Join(names[:min(len(names), nodesNamed)], ", ")
		if more := len(names) - nodesNamed; more > 0 {
			where += fmt.Sprintf(" and %d more", more)
		}
	}
	return Finding{
		Subject: cli.Shown(mover.Printable(g.tier) + ":"), Check: "guard", Status: Warn,
		Detail: cli.Shown(fmt.Sprintf("%s%s: accounts on the node can read it, or the account that staged it can change it: %s", units.Plural(n, "replica", "replicas"), mover.Printable(where), mover.Printable(g.why))),
		Mend:   "a file system with POSIX ACLs and immutable files, and an agent that is root with the rights of its unit (deploy/systemd); then datamove release, and stage it again",
	}
}
