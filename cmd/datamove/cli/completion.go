package cli

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
)

// Bounds of a completion.
const (
	CompletionTime  = time.Second // to ask the service: a shell is waiting
	MostCompletions = 200         // that a shell is given
)

// CompleteWith makes a completion of what the service lists. Without an answer in time
// there is nothing to complete.
func CompleteWith[T any](a *App, items func(context.Context, *api.Client) iter.Seq2[T, error], text func(T) (word, about string)) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), CompletionTime)
		defer cancel()
		c, err := a.Client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = c.Close() }() // what was asked has been answered
		var words []cobra.Completion
		seen := 0
		for item, err := range items(ctx, c) {
			if seen++; err != nil || seen > 10*MostCompletions || len(words) == MostCompletions {
				break
			}
			word, about := text(item)
			if strings.HasPrefix(word, begun) && !slices.Contains(args, word) {
				words = append(words, cobra.CompletionWithDesc(Shown(word), Shown(about)))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteDatasets completes names of datasets, with a prefix.
func (a *App) CompleteDatasets(prefix string) cobra.CompletionFunc {
	return CompleteWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Dataset, error] {
		return c.Datasets(ctx, &pb.ListDatasetsRequest{})
	}, func(d *pb.Dataset) (string, string) { return prefix + d.GetName(), d.GetProject() })
}

// CompleteLocations completes dataset:NAME, and the tier of TIER:path once it is begun; the rest are files.
func (a *App) CompleteLocations() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.HasPrefix(begun, "dataset:") {
			return a.CompleteDatasets("dataset:")(cmd, args, begun)
		}
		if begun == "" || strings.ContainsAny(begun, "./~:") {
			return nil, cobra.ShellCompDirectiveDefault
		}
		tiers, _ := a.CompleteTiers()(cmd, nil, begun)
		for i, t := range tiers {
			name, level, _ := strings.Cut(t, "\t")
			tiers[i] = cobra.CompletionWithDesc(name+":", level)
		}
		return tiers, cobra.ShellCompDirectiveNoSpace
	}
}

// CompleteTiers completes names of tiers, of the service or else of the configuration.
func (a *App) CompleteTiers() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if address, err := a.Service(); err != nil || address == "" {
			var words []cobra.Completion
			conf, err := a.Config()
			if err != nil { // without a configuration there is nothing to complete
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, name := range slices.Sorted(maps.Keys(conf.Tiers)) {
				if strings.HasPrefix(name, begun) {
					words = append(words, cobra.CompletionWithDesc(name, conf.Tiers[name].Level))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		}
		words, directive := CompleteWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Tier, error] {
			answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{})
			if err != nil {
				return Every[*pb.Tier](nil)
			}
			return Every(answer.GetTiers())
		}, func(t *pb.Tier) (string, string) { return t.GetName(), t.GetLevel() })(cmd, args, begun)
		slices.Sort(words)
		return slices.Compact(words), directive // a node-local tier has a line for each node
	}
}
