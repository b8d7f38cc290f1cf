package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

const schemaForgotten = "datamove.forgotten/v1"

func agentForgetCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var yes, revoke bool
	cmd := &cobra.Command{
		Use:   "forget [flags] NAME...",
		Short: "Drop nodes that are gone, or not to be trusted, and refuse their certificates",
		Long: `Forget drops what the service knows of a node: the node itself, the replicas on its
own disks and the leases on them. Tasks that could be done there only fail, also those
that are paused. What lies on its disks is beyond reach, and stays there. It is for a
node that is gone for good, and for one with a stolen certificate: all that it was
given so far is refused from now on, and so are its join tokens. The same name joins
again with a new token: start datamoved there with it.

A node that is connected is refused; --revoke cuts it off. It asks, or wants --yes.`,
		Example: `  datamove agent forget --yes n17
  datamove agent forget --revoke n17`,
		Args:              cli.AtLeastOne("the name of an agent, or several; datamove agent list has them"),
		ValidArgsFunction: CompleteAgents(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, names []string) error {
		shownNames := make([]string, len(names))
		for i, name := range names {
			shownNames[i] = mover.Printable(name)
		}
		all := strings.Join(shownNames, ", ")
		if err := a.Confirm("Forget "+all+", and what is on disks of its own", all, yes); err != nil {
			return err
		}
		return a.AskService(ctx, cli.AgentList, func(c *api.Client) error {
			return cli.EachOf(names, func(name string) (*forgotten, error) {
				went, err := api.Once(ctx, c, c.ForgetAgent, &pb.ForgetAgentRequest{Name: name, Revoke: revoke})
				if errors.Is(err, mover.ErrHeld) {
					err = cli.Advise(err, "--revoke, if it is not to be trusted any more")
				}
				return &forgotten{name, went}, err
			}, a, f, forgottenListing)
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.ListFormats...)
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&revoke, "revoke", false, "also nodes that are connected: they are cut off")
	return cmd
}

// forgotten is a node that is not known any more.
type forgotten struct {
	name string
	went *pb.ForgetAgentResponse
}

// forgottenListing is how nodes that were forgotten are listed.
var forgottenListing = cli.Listing[*forgotten]{
	What: "agents", None: "no agent was forgotten",
	Columns: []cli.Column[*forgotten]{
		{Head: "FORGOTTEN", Width: 12, Text: func(f *forgotten) string { return f.name }},
		{Head: "REPLICAS", Width: -8, Text: func(f *forgotten) string { return fmt.Sprint(f.went.GetReplicas()) }},
		{Head: "SIZE", Width: -9, Text: func(f *forgotten) string { return units.Bytes(f.went.GetReplicaBytes()) }},
		{Head: "LEASES", Width: -6, Text: func(f *forgotten) string { return fmt.Sprint(f.went.GetLeases()) }},
		{Head: "TASKS", Width: -5, Text: func(f *forgotten) string { return fmt.Sprint(f.went.GetTasks()) }},
	},
	View: func(f *forgotten) any {
		return forgottenView{schemaForgotten, f.name, f.went.GetReplicas(), f.went.GetReplicaBytes(), f.went.GetLeases(), f.went.GetTasks()}
	},
	Name: func(f *forgotten) string { return f.name },
}

// forgottenView is a node that was forgotten as JSON: what went with it.
type forgottenView struct {
	Schema       string `json:"schema"`
	Name         string `json:"name"`
	Replicas     int64  `json:"replicas"`
	ReplicaBytes int64  `json:"replica_bytes"`
	Leases       int64  `json:"leases"`
	Tasks        int64  `json:"tasks"` // that could be done there only, and have failed
}
