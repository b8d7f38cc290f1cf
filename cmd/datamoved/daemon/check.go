package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server"
	"datamove.dev/mover/units"
)

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Name every mistake in the configuration, and say whether the service answers",
		Long: `Check reads the configuration as the service would, and names every mistake with
its line and key. It says where the service listens and keeps its state, and whether
one answers there. Only mistakes are an error.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(a.check)
	return cmd
}

func (a *app) check(ctx context.Context, _ []string) error {
	conf, err := a.load()
	if err != nil {
		return err
	}
	for _, p := range conf.Warnings() {
		fmt.Fprintf(a.err, "warning: %s\n", p)
	}
	rules, err := rulesOf(conf)
	if err == nil {
		err = twice(conf.HSM)
	}
	if err != nil {
		return err
	}
	at, err := a.place(conf)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "configuration  %s is fine: %d tiers, %d projects, %d roles, %d limits\n",
		mover.Printable(cmp.Or(conf.File, "none")), len(conf.Tiers), len(conf.Projects), len(conf.Roles), len(conf.Limits))
	fmt.Fprintf(a.out, "node           %s\n", at.node)
	fmt.Fprintf(a.out, "data           %s\n", mover.Printable(at.data))
	fmt.Fprintf(a.out, "listen         %s\n", strings.Join(at.listen, ", "))
	if at.page != "" {
		shows := "metrics only: no role has the member viewer"
		if len(rules.Roles(server.Viewer)) > 0 {
			shows = "metrics, and the page to read, for all accounts of this machine"
		}
		fmt.Fprintf(a.out, "page           http://%s, %s\n", at.page, shows)
	}
	if at.scrape != "" {
		fmt.Fprintf(a.out, "scrape         http://%s, metrics and health, without a login\n", at.scrape)
	}
	for _, c := range conf.HSM {
		fmt.Fprintf(a.out, "hsm            archive %d of %s in %s\n", c.Archive, mover.Printable(c.Mount), c.To)
	}
	_, err = fmt.Fprintf(a.out, "service        %s\n", answerAt(ctx, at.listen))
	return err
}

// answerAt says what answers on the first of the sockets.
func answerAt(ctx context.Context, listen []string) string {
	i := slices.IndexFunc(listen, func(address string) bool { return strings.HasPrefix(address, "unix://") })
	if i < 0 {
		return "not asked: there is no unix socket"
	}
	c, err := api.Dial(ctx, listen[i], api.Options{})
	if err != nil {
		return "does not answer: " + err.Error()
	}
	defer c.Close()
	info, err := c.GetInfo(ctx, &datamovev1.GetInfoRequest{})
	if err != nil {
		return "does not answer: " + err.Error()
	}
	return fmt.Sprintf("datamoved %s answers: %s, %s running, %s queued", mover.Printable(info.GetVersion()),
		units.Plural(int64(info.GetAgents()), "agent", "agents"), units.Plural(info.GetTasksRunning(), "task", "tasks"), units.Count(info.GetTasksQueued()))
}
