package cli

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/lustre"
	"datamove.dev/tiering/policy"
)

const (
	completeTime = time.Second // to ask the service: a shell is waiting
	mostWords    = 200         // that a shell is given
)

// complete lets the shell complete the values of flags, in cmd and all below it.
func (a *app) complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		var words cobra.CompletionFunc
		switch f.Name {
		case "to", "from", "tier":
			words = a.completeTiers
		case "node":
			words = a.completeAgents
		case "pool":
			words = a.completePools
		case "dataset":
			words = a.completeDatasets("")
		case "state":
			words = cobra.FixedCompletions((&chosen[pb.TaskState]{choices: stateChoices}).words(), cobra.ShellCompDirectiveNoFileComp)
		}
		if c, ok := f.Value.(interface{ words() []string }); ok {
			words = cobra.FixedCompletions(c.words(), cobra.ShellCompDirectiveNoFileComp)
		}
		if words != nil {
			// It fails only for a flag that is not there, or has a function already.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, words)
		}
	})
	for _, below := range cmd.Commands() {
		a.complete(below)
	}
}

// completeWith makes a completion of what the service lists. Without an answer in time
// there is nothing to complete.
func completeWith[T any](a *app, items func(context.Context, *api.Client) iter.Seq2[T, error], text func(T) (word, about string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		c, err := a.client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Close() }() // what was asked has been answered
		var words []cobra.Completion
		seen := 0
		for item, err := range items(ctx, c) {
			if seen++; err != nil || seen > 10*mostWords || len(words) == mostWords {
				break
			}
			word, about := text(item)
			if strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
				words = append(words, cobra.CompletionWithDesc(shown(word), shown(about)))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) completeTasks(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Task, error] {
		return c.Tasks(ctx, &pb.ListTasksRequest{PageSize: mostWords, Brief: true})
	}, func(t *pb.Task) (string, string) { return t.GetId(), stateWord(t.GetState()) + ": " + what(t) })(cmd, args, begun)
}

func (a *app) completeAgents(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Agent, error] {
		return c.Agents(ctx, &pb.ListAgentsRequest{})
	}, func(g *pb.Agent) (string, string) { return g.GetName(), agentWord(g.GetState()) })(cmd, args, begun)
}

func (a *app) completeLeases(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Lease, error] {
		return c.Leases(ctx, &pb.ListLeasesRequest{})
	}, func(l *pb.Lease) (string, string) { return l.GetId(), l.GetHolder() + ", " + l.GetDataset() })(cmd, args, begun)
}

// completeDatasets completes names of datasets, with a prefix.
func (a *app) completeDatasets(prefix string) cobra.CompletionFunc {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Dataset, error] {
		return c.Datasets(ctx, &pb.ListDatasetsRequest{})
	}, func(d *pb.Dataset) (string, string) { return prefix + d.GetName(), d.GetProject() })
}

// completeLocations completes dataset:NAME, and the tier of TIER:path once it is begun; the rest are files.
func (a *app) completeLocations(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.HasPrefix(begun, "dataset:") {
		return a.completeDatasets("dataset:")(cmd, args, begun)
	}
	if begun == "" || strings.ContainsAny(begun, "./~:") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	tiers, _ := a.completeTiers(cmd, nil, begun)
	for i, t := range tiers {
		name, level, _ := strings.Cut(t, "\t")
		tiers[i] = cobra.CompletionWithDesc(name+":", level)
	}
	return tiers, cobra.ShellCompDirectiveNoSpace
}

// completePolicies completes names of policies, of the service or else of the configuration; files may be meant, too.
func (a *app) completePolicies(cmd *cobra.Command, args []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	if address, err := a.service(); err != nil || address == "" {
		for _, p := range a.policiesHere() {
			if m := p.Policy.Metadata; strings.HasPrefix(string(m.Name), begun) {
				words = append(words, cobra.CompletionWithDesc(string(m.Name), shown(m.Owner)))
			}
		}
		return words, cobra.ShellCompDirectiveDefault
	}
	words, _ = completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Policy, error] {
		answer, err := c.ListPolicies(ctx, &pb.ListPoliciesRequest{})
		if err != nil {
			return every[*pb.Policy](nil)
		}
		return every(answer.GetPolicies())
	}, func(p *pb.Policy) (string, string) { return p.GetName(), p.GetOwner() })(cmd, args, begun)
	return words, cobra.ShellCompDirectiveDefault
}

// policiesHere are those of the configuration; none where they can not be read.
func (a *app) policiesHere() []*policy.Program {
	c, err := a.config()
	if err != nil || c.Policies == "" {
		return nil
	}
	programs, _ := policy.ReadDir(c.Policies, func(string) bool { return true })
	return programs
}

// completeTiers completes names of tiers, of the service or else of the configuration.
func (a *app) completeTiers(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if address, err := a.service(); err != nil || address == "" {
		var words []cobra.Completion
		rows, _ := a.tiersHere("") // without a configuration there is nothing to complete
		for _, t := range rows {
			if strings.HasPrefix(t.GetName(), begun) {
				words = append(words, cobra.CompletionWithDesc(t.GetName(), t.GetLevel()))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
	words, directive := completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Tier, error] {
		answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{})
		if err != nil {
			return every[*pb.Tier](nil)
		}
		return every(answer.GetTiers())
	}, func(t *pb.Tier) (string, string) { return t.GetName(), t.GetLevel() })(cmd, args, begun)
	slices.Sort(words)
	return slices.Compact(words), directive // a node-local tier has a line for each node
}

// completePools completes names of pools of the file system that is named, or that we are on.
func (a *app) completePools(cmd *cobra.Command, args []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	path := "."
	if len(args) > 0 {
		path = args[0]
	}
	c, err := question(ctx, a, path, func(ctx context.Context, m *mounted) (lustre.Cluster, error) {
		if m.Layout == nil {
			return lustre.Cluster{}, nil
		}
		return m.Layout.Cluster(ctx, m.fd)
	})
	for _, pool := range slices.Sorted(maps.Keys(c.Pools)) {
		if err == nil && strings.HasPrefix(pool, begun) && len(words) < mostWords {
			words = append(words, shown(pool))
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
