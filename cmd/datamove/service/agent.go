package service

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover/units"
)

const (
	schemaAgent = "datamove.agent/v1"
	schemaToken = "datamove.token/v1"
)

func agentCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "See what nodes work, and take them out of work",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(agentListCommand(a), agentTokenCommand(a), agentForgetCommand(a),
		agentChangeCommand(a, "drain", "Give nodes no new work; what they do, they finish", func(ctx context.Context, c *api.Client, name string) (*pb.Agent, error) {
			return c.DrainAgent(ctx, &pb.DrainAgentRequest{Name: name})
		}),
		agentChangeCommand(a, "undrain", "Let nodes work again", func(ctx context.Context, c *api.Client, name string) (*pb.Agent, error) {
			return c.UndrainAgent(ctx, &pb.UndrainAgentRequest{Name: name})
		}))
	return cmd
}

func agentListCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List the nodes that move data",
		Example: `  datamove agent list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		return a.AskService(ctx, cli.AgentList, func(c *api.Client) error {
			return cli.List(a, f, agentsListing, c.Agents(ctx, &pb.ListAgentsRequest{}))
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// agentChangeCommand makes a command that calls one method for each of its agents.
func agentChangeCommand(a *cli.App, verb, short string, call func(context.Context, *api.Client, string) (*pb.Agent, error)) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               verb + " [flags] NAME...",
		Short:             short,
		Example:           "  datamove agent " + verb + " n17",
		Args:              cli.AtLeastOne("the name of an agent, or several; datamove agent list has them"),
		ValidArgsFunction: CompleteAgents(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, names []string) error {
		changed := agentsListing
		changed.What = "agents were changed"
		return a.AskService(ctx, cli.AgentList, func(c *api.Client) error {
			return cli.EachOf(names, func(name string) (*pb.Agent, error) { return call(ctx, c, name) }, a, f, changed)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// agentsListing is how agents are listed.
var agentsListing = cli.Listing[*pb.Agent]{
	What: "agents",
	Columns: []cli.Column[*pb.Agent]{
		{Head: "NAME", Width: 12, Text: (*pb.Agent).GetName},
		{Head: "STATE", Width: 8, Text: func(g *pb.Agent) string { return agentWord(g.GetState()) }},
		{Head: "LEADS", Width: -5, Text: func(g *pb.Agent) string { return fmt.Sprint(g.GetLeads()) }},
		{Head: "HELPS", Width: -5, Text: func(g *pb.Agent) string { return fmt.Sprint(g.GetHelps()) }},
		{Head: "RATE", Width: -10, Text: func(g *pb.Agent) string { return units.PerSecond(g.GetBytesPerSecond()) }},
		{Head: "SEEN", Width: -6, Text: func(g *pb.Agent) string { return cli.Ago(g.GetSeenTime()) }},
		{Head: "VERSION", Width: 10, Text: (*pb.Agent).GetVersion},
		{Head: "REACHES", Width: 0, Text: reachesText},
	},
	View: viewAgent,
	Name: (*pb.Agent).GetName,
	Colour: func(g *pb.Agent) string {
		switch g.GetState() {
		case pb.AgentState_AGENT_STATE_LOST:
			return cli.Red
		case pb.AgentState_AGENT_STATE_DRAINING, pb.AgentState_AGENT_STATE_DRAINED:
			return cli.Yellow
		}
		return ""
	},
}

// viewAgent is an agent as JSON. It lacks tiers of the coordinator that it does not reach; as root it can act as other users.
var viewAgent = cli.View[*pb.Agent]("schema:"+schemaAgent+
	" name state version address? reaches? lacks? leads helps bytes_per_second joined=join_time? seen=seen_time? root", nil)

// reachesText is what an agent reaches, and what of the coordinator's tiers it does not.
func reachesText(g *pb.Agent) string {
	text := strings.Join(g.GetReaches(), ", ")
	switch lacks := strings.Join(g.GetLacks(), ", "); {
	case lacks == "":
		return text
	case text == "":
		return "no tier: lacks " + lacks
	default:
		return text + "; lacks " + lacks
	}
}

// tokenView is a join token as JSON.
type tokenView struct {
	Schema  string     `json:"schema"`
	Agent   string     `json:"agent"`
	Token   string     `json:"token"`
	Expires *time.Time `json:"expires,omitempty"`
}

func agentTokenCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token [flags] NAME",
		Short: "Make a token with which one node can join",
		Long: `Token prints a secret with which the node NAME can join, once, until it expires. It
is shown this one time, and admits any holder as that node: keep it secret.`,
		Example: "  datamove agent token --ttl 10m n18",
		Args:    cli.Exactly(1, "the NAME of the node"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, cli.AgentList, func(c *api.Client) error {
			req := &pb.CreateJoinTokenRequest{Name: args[0]}
			if ttl > 0 {
				req.Ttl = durationpb.New(ttl)
			}
			answer, err := c.CreateJoinToken(ctx, req)
			if err != nil {
				return err
			}
			if f != cli.FormatTable {
				return cli.WriteOne(a.Out, f, tokenView{schemaToken, args[0], answer.GetToken(), cli.Stamp(answer.GetExpireTime())})
			}
			if !a.Quiet {
				fmt.Fprintf(a.Err, "for %s, once, until %s:\n", cli.Shown(args[0]), cli.Moment(answer.GetExpireTime()))
			}
			_, err = fmt.Fprintln(a.Out, cli.Shown(answer.GetToken()))
			return err
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	cli.ParsedVar(cmd.Flags(), &ttl, "ttl", units.ParseSpan, "for how long it is good, like 10m; at most 24h (default 1h)")
	return cmd
}

// CompleteAgents completes names of agents.
func CompleteAgents(a *cli.App) cobra.CompletionFunc {
	return cli.CompleteWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Agent, error] {
		return c.Agents(ctx, &pb.ListAgentsRequest{})
	}, func(g *pb.Agent) (string, string) { return g.GetName(), agentWord(g.GetState()) })
}

func agentWord(s pb.AgentState) string { return cli.Word(s, "AGENT_STATE_") }
