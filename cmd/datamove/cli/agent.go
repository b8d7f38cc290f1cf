package cli

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
	"datamove.dev/mover/units"
)

func (a *app) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "See what nodes work, and take them out of work",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.agentList(), a.agentToken(), a.agentForget(),
		a.agentChange("drain", "Give nodes no new work; what they do, they finish", func(ctx context.Context, c *api.Client, name string) (*pb.Agent, error) {
			return c.DrainAgent(ctx, &pb.DrainAgentRequest{Name: name})
		}),
		a.agentChange("undrain", "Let nodes work again", func(ctx context.Context, c *api.Client, name string) (*pb.Agent, error) {
			return c.UndrainAgent(ctx, &pb.UndrainAgentRequest{Name: name})
		}))
	return cmd
}

func (a *app) agentList() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List the nodes that move data",
		Example: `  datamove agent list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.ask(ctx, listAgents, func(c *api.Client) error { return list(a, f, agentsListing, c.Agents(ctx, &pb.ListAgentsRequest{})) })
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// agentChange makes a command that calls one method for each of its agents.
func (a *app) agentChange(verb, short string, call func(context.Context, *api.Client, string) (*pb.Agent, error)) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               verb + " [flags] NAME...",
		Short:             short,
		Example:           "  datamove agent " + verb + " n17",
		Args:              some("the name of an agent, or several; datamove agent list has them"),
		ValidArgsFunction: a.completeAgents(),
	}
	cmd.RunE = a.do(func(ctx context.Context, names []string) error {
		changed := agentsListing
		changed.what = "agents were changed"
		return a.ask(ctx, listAgents, func(c *api.Client) error {
			return eachOf(names, func(name string) (*pb.Agent, error) { return call(ctx, c, name) }, a, f, changed)
		})
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// agentsListing is how agents are listed.
var agentsListing = listing[*pb.Agent]{
	what: "agents",
	columns: []column[*pb.Agent]{
		{"NAME", 12, (*pb.Agent).GetName},
		{"STATE", 8, func(g *pb.Agent) string { return agentWord(g.GetState()) }},
		{"LEADS", -5, func(g *pb.Agent) string { return fmt.Sprint(g.GetLeads()) }},
		{"HELPS", -5, func(g *pb.Agent) string { return fmt.Sprint(g.GetHelps()) }},
		{"RATE", -10, func(g *pb.Agent) string { return units.PerSecond(g.GetBytesPerSecond()) }},
		{"SEEN", -6, func(g *pb.Agent) string { return ago(g.GetSeenTime()) }},
		{"VERSION", 10, (*pb.Agent).GetVersion},
		{"REACHES", 0, reachesText},
	},
	view: func(g *pb.Agent) any { return viewAgent(g) },
	name: (*pb.Agent).GetName,
	colour: func(g *pb.Agent) string {
		switch g.GetState() {
		case pb.AgentState_AGENT_STATE_LOST:
			return red
		case pb.AgentState_AGENT_STATE_DRAINING, pb.AgentState_AGENT_STATE_DRAINED:
			return yellow
		}
		return ""
	},
}

// agentView is an agent as JSON.
type agentView struct {
	Schema         string     `json:"schema"`
	Name           string     `json:"name"`
	State          string     `json:"state"`
	Version        string     `json:"version"`
	Address        string     `json:"address,omitempty"`
	Reaches        []string   `json:"reaches,omitempty"`
	Lacks          []string   `json:"lacks,omitempty"` // tiers of the coordinator that it does not reach
	Leads          int32      `json:"leads"`
	Helps          int32      `json:"helps"`
	BytesPerSecond float64    `json:"bytes_per_second"`
	Joined         *time.Time `json:"joined,omitempty"`
	Seen           *time.Time `json:"seen,omitempty"`
	Root           bool       `json:"root"` // can act as other users
}

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

func viewAgent(g *pb.Agent) agentView {
	return agentView{schemaAgent, g.GetName(), agentWord(g.GetState()), g.GetVersion(), g.GetAddress(), g.GetReaches(), g.GetLacks(), g.GetLeads(), g.GetHelps(),
		g.GetBytesPerSecond(), stamp(g.GetJoinTime()), stamp(g.GetSeenTime()), g.GetRoot()}
}

// tokenView is a join token as JSON.
type tokenView struct {
	Schema  string     `json:"schema"`
	Agent   string     `json:"agent"`
	Token   string     `json:"token"`
	Expires *time.Time `json:"expires,omitempty"`
}

func (a *app) agentToken() *cobra.Command {
	var f format
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "token [flags] NAME",
		Short: "Make a token with which one node can join",
		Long: `Token prints a secret with which the node NAME can join, once, until it expires. It
is shown this one time. Whoever has it can be that node: give it to nobody else.`,
		Example: "  datamove agent token --ttl 10m n18",
		Args:    exactly(1, "the NAME of the node"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return a.ask(ctx, listAgents, func(c *api.Client) error {
			req := &pb.CreateJoinTokenRequest{Name: args[0]}
			if ttl > 0 {
				req.Ttl = durationpb.New(ttl)
			}
			answer, err := c.CreateJoinToken(ctx, req)
			if err != nil {
				return err
			}
			if f != formatTable {
				return writeOne(a.out, f, tokenView{schemaToken, args[0], answer.GetToken(), stamp(answer.GetExpireTime())})
			}
			if !a.quiet {
				fmt.Fprintf(a.err, "for %s, once, until %s:\n", shown(args[0]), moment(answer.GetExpireTime()))
			}
			_, err = fmt.Fprintln(a.out, shown(answer.GetToken()))
			return err
		})
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatJSONL, formatYAML)
	parsedVar(cmd.Flags(), &ttl, "ttl", units.ParseSpan, "for how long it is good, like 10m; at most 24h (default 1h)")
	return cmd
}

const schemaAgent = "datamove.agent/v1"

const schemaToken = "datamove.token/v1"

func (a *app) completeAgents() cobra.CompletionFunc {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Agent, error] {
		return c.Agents(ctx, &pb.ListAgentsRequest{})
	}, func(g *pb.Agent) (string, string) { return g.GetName(), agentWord(g.GetState()) })
}
