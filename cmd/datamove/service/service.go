// Package service has the commands for those that run the service: service, agent, usage, config and audit.
//
// The configuration and the audit log are read here; all else is asked of the service. cmd/datamove/root TestFormats prints each list in each format.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/units"
)

const (
	schemaService = "datamove.service/v1"
	schemaReload  = "datamove.reload/v1"
)

// Commands are service, and those of what it has: agents, usage, its configuration and its audit log.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{serviceCommand(a), agentCommand(a), usageCommand(a), configCommand(a), auditCommand(a)}
}

func serviceCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "See what the service is, and care for it",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(infoCommand(a), pageCommand(a), reloadCommand(a), backupCommand(a), identityCommand(a))
	return cmd
}

// viewService is what a service is, as JSON. The caller is as the service sees it; full is why it takes no new work.
var viewService = cli.View[*pb.Info]("schema:"+schemaService+
	" version node started=start_time? term tasks_queued tasks_running agents caller=caller.name uid=caller.uid roles[] projects[] full?", nil)

func infoCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:     "info [flags]",
		Short:   "Print the version and state of the service, and the identity of the caller",
		Example: `  datamove service info`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		return a.AskService(ctx, "", func(c *api.Client) error {
			i, err := c.GetInfo(ctx, &pb.GetInfoRequest{})
			if err != nil {
				return err
			}
			if f != cli.FormatTable {
				return cli.WriteOne(a.Out, f, viewService(i))
			}
			return printService(a.Out, i)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

func printService(w io.Writer, i *pb.Info) error {
	since := "-"
	if i.GetStartTime() != nil {
		since = i.GetStartTime().AsTime().Local().Format("2006-01-02 15:04:05")
	}
	fmt.Fprintf(w, "service   datamoved %s on %s, since %s, term %d\n", cli.Shown(i.GetVersion()), cli.Shown(i.GetNode()), since, i.GetTerm())
	fmt.Fprintf(w, "tasks     %s queued, %s running\n", units.Count(i.GetTasksQueued()), units.Count(i.GetTasksRunning()))
	fmt.Fprintf(w, "agents    %d\n", i.GetAgents())
	fmt.Fprintf(w, "you are   %s (uid %d)\n", cli.Shown(cli.OrDash(i.GetCaller().GetName())), i.GetCaller().GetUid())
	fmt.Fprintf(w, "roles     %s\n", cli.Shown(cli.OrDash(strings.Join(i.GetRoles(), ", "))))
	fmt.Fprintf(w, "projects  %s\n", cli.Shown(cli.OrDash(strings.Join(i.GetProjects(), ", "))))
	if i.GetFull() != "" {
		fmt.Fprintf(w, "full      %s\n", cli.Shown(i.GetFull()))
	}
	_, err := fmt.Fprintln(w, "page      datamove service page shows it to your browser")
	return err
}

// reloadView is what a reload has changed, as JSON.
type reloadView struct {
	Schema  string       `json:"schema"`
	Changed []changeView `json:"changed"`
}

type changeView struct {
	Key     string `json:"key"`
	Restart bool   `json:"restart"` // it counts from the next start on
}

func reloadCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "reload [flags]",
		Short: "Have the service read its configuration again",
		Long: `Reload prints the keys and the policies that have changed, and which keys count only
when the service starts again. A mistake in the configuration changes nothing.`,
		Example: `  datamove service reload`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		return a.AskService(ctx, "", func(c *api.Client) error {
			answer, err := c.Reload(ctx, &pb.ReloadRequest{})
			if err != nil {
				return err
			}
			v := reloadView{schemaReload, []changeView{}}
			for _, key := range answer.GetChanged() {
				v.Changed = append(v.Changed, changeView{key, config.NeedsRestart(key)})
			}
			if f != cli.FormatTable {
				return cli.WriteOne(a.Out, f, v)
			}
			if a.Quiet {
				return nil
			}
			return v.table(a.Out)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

func (v *reloadView) table(w io.Writer) error {
	if len(v.Changed) == 0 {
		_, err := fmt.Fprintln(w, "nothing has changed")
		return err
	}
	for _, c := range v.Changed {
		when := ""
		if c.Restart {
			when = "  (when the service starts again)"
		}
		if _, err := fmt.Fprintf(w, "changed %s%s\n", cli.Shown(c.Key), when); err != nil {
			return err
		}
	}
	return nil
}

func backupCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the ledger of the service to a file",
		Long: `Backup writes the ledger as it is at one moment, with all tasks, datasets, leases
and pins, to FILE, which must not exist and appears when it is whole. The service
goes on meanwhile. datamoved restore reads it. On the machine of the service,
datamoved backup takes manifests and certificates as well.`,
		Example: "  datamove service backup /backup/ledger-$(date +%F)",
		Args:    cli.Exactly(1, "FILE"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, "", func(c *api.Client) error {
			n, err := cli.WriteWhole(args[0], 0o600, func(w io.Writer) (int64, error) { return receive(ctx, c, w) })
			if err != nil || a.Quiet {
				return err
			}
			_, err = fmt.Fprintf(a.Out, "wrote %s, %s\n", mover.Printable(args[0]), units.Bytes(n))
			return err
		})
	})
	return cmd
}

// receive writes the ledger that the service sends.
func receive(ctx context.Context, c *api.Client, w io.Writer) (n int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks, err := c.Backup(ctx, &pb.BackupRequest{})
	for err == nil {
		var chunk *pb.BackupChunk
		if chunk, err = chunks.Recv(); err != nil {
			break
		}
		var m int
		m, err = w.Write(chunk.GetData())
		n += int64(m)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
