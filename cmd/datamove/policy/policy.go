// Package policy has the commands of policies: lint, schema, list, plan, run, history, undo, stop, explain, why, diff and simulate.
//
// It reads policies of files and directories; what they mean is package tiering/policy, and plans and runs are those of the service.
// test/script/policy.txt is a session.
package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/tiering/policy"
)

// Command is datamove policy.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Rules of what is to happen to files on the tiers",
		Long: `A policy is a YAML document of the kind TierPolicy: rules with clauses, and with
expressions in CEL where clauses do not suffice. The first rule that matches a file
says what is to happen to it. A new policy begins in the mode plan, in which nothing
is done. Examples are in deploy/policies. The service runs those in the directory that its
configuration names (policies).`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(lintCommand(a), schemaCommand(a), listCommand(a), planCommand(a), explainCommand(a), simulateCommand(a),
		diffCommand(a), runCommand(a), stopCommand(a), historyCommand(a), undoCommand(a), whyCommand(a))
	return cmd
}

func lintCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "lint [flags] FILE|DIR...",
		Short: "Say what is wrong with policies, with line and column",
		Long: `All that is wrong is told at once, and the exit code is 2 then. Where the
configuration has tiers, those that a policy names have to be among them. "-" is the
standard input. Of a directory it is all files that end in .yaml, as for a service.`,
		Example: `  datamove policy lint deploy/policies/*.yaml`,
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.RunE = a.Do(func(_ context.Context, args []string) error {
		c, err := a.Config()
		if err != nil {
			return err
		}
		var all []*policy.Program
		var wrong []error
		for _, file := range args {
			programs, err := lintPolicies(a, file, c.Tiers)
			all = append(all, programs...)
			wrong = append(wrong, err)
		}
		if err := errors.Join(wrong...); err != nil {
			return err
		}
		return cli.List(a, f, policiesListing(time.Now()), cli.Every(all))
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// lintPolicies reads a file, or all files of a directory as a service does.
func lintPolicies(a *cli.App, path string, tiers map[string]config.Tier) ([]*policy.Program, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return readPolicies(a, path, tiers)
	}
	return policy.ReadDir(path, func(tier string) bool { return len(tiers) == 0 || tiers[tier].Level != "" })
}

// readPolicies reads a file.
func readPolicies(a *cli.App, file string, tiers map[string]config.Tier) ([]*policy.Program, error) {
	in, name := a.In, "the standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &mover.Error{Op: "read", Location: file, Err: errors.Unwrap(err)}
		}
		defer f.Close()
		in, name = f, file
	}
	text, err := io.ReadAll(io.LimitReader(in, yamldoc.TextMost+1))
	if err != nil {
		return nil, &mover.Error{Op: "read", Location: name, Err: err}
	}
	programs, err := policy.Read(name, text)
	if err == nil && len(tiers) > 0 {
		err = policy.Strangers(programs, func(tier string) bool { return tiers[tier].Level != "" })
	}
	return programs, err
}

// policiesListing is how policies are listed.
func policiesListing(now time.Time) cli.Listing[*policy.Program] {
	schedule := func(p *policy.Program) string {
		s := p.Policy.Spec.Schedule
		if s == nil {
			return "-"
		}
		return s.Cron + " " + cmp.Or(s.TZ, "UTC")
	}
	next := func(p *policy.Program) time.Time {
		_, _, next := p.Due(now, now)
		return next
	}
	return cli.Listing[*policy.Program]{
		What: "policies",
		Columns: []cli.Column[*policy.Program]{
			{Head: "NAME", Width: 16, Text: func(p *policy.Program) string { return string(p.Policy.Metadata.Name) }},
			{Head: "MODE", Width: 7, Text: func(p *policy.Program) string { return string(cmp.Or(p.Policy.Spec.Mode, policy.ModePlan)) }},
			{Head: "RULES", Width: -5, Text: func(p *policy.Program) string { return fmt.Sprint(len(p.Policy.Spec.Rules)) }},
			{Head: "SCOPE", Width: 16, Text: func(p *policy.Program) string { return mover.Printable(strings.Join(p.Policy.Spec.Scope.Roots, ",")) }},
			{Head: "SCHEDULE", Width: 16, Text: schedule},
			{Head: "NEXT", Width: 16, Text: func(p *policy.Program) string {
				if at := next(p); !at.IsZero() {
					return at.Local().Format("2006-01-02 15:04")
				}
				return "-"
			}},
		},
		View: func(p *policy.Program) any {
			v := view{"datamove.policy/v1", string(p.Policy.Metadata.Name), p.Policy.Metadata.Owner, p.Policy.File, cmp.Or(p.Policy.Spec.Mode, policy.ModePlan),
				p.Policy.Spec.Scope.Roots, nil, nil}
			for _, r := range p.Policy.Spec.Rules {
				v.Rules = append(v.Rules, ruleView{string(r.Name), r.Action.Type})
			}
			if at := next(p); !at.IsZero() {
				v.Next = &at
			}
			return v
		},
		Name: func(p *policy.Program) string { return string(p.Policy.Metadata.Name) },
	}
}

// view is a policy as JSON.
type view struct {
	Schema string      `json:"schema"`
	Name   string      `json:"name"`
	Owner  string      `json:"owner,omitempty"`
	File   string      `json:"file"`
	Mode   policy.Mode `json:"mode"`
	Roots  []string    `json:"roots"`
	Rules  []ruleView  `json:"rules"`
	Next   *time.Time  `json:"next,omitempty"`
}

type ruleView struct {
	Name   string      `json:"name"`
	Action policy.Verb `json:"action"`
}

func schemaCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of policies, for editors",
		Example: `  datamove policy schema >tierpolicy.schema.json`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error {
		text, err := policy.Schema()
		if err == nil {
			_, err = fmt.Fprintf(a.Out, "%s\n", text)
		}
		return err
	})
	return cmd
}

// completePolicies completes names of policies, of the service or else of the configuration; files may be meant, too.
func completePolicies(a *cli.App) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
		if address, err := a.Service(); err != nil || address == "" {
			for _, p := range policiesHere(a) {
				if m := p.Policy.Metadata; strings.HasPrefix(string(m.Name), begun) {
					words = append(words, cobra.CompletionWithDesc(string(m.Name), cli.Shown(m.Owner)))
				}
			}
			return words, cobra.ShellCompDirectiveDefault
		}
		words, _ = cli.CompleteWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Policy, error] {
			answer, err := c.ListPolicies(ctx, &pb.ListPoliciesRequest{})
			if err != nil {
				return cli.Every[*pb.Policy](nil)
			}
			return cli.Every(answer.GetPolicies())
		}, func(p *pb.Policy) (string, string) { return p.GetName(), p.GetOwner() })(cmd, args, begun)
		return words, cobra.ShellCompDirectiveDefault
	}
}

// policiesHere are those of the configuration; none where they can not be read.
func policiesHere(a *cli.App) []*policy.Program {
	c, err := a.Config()
	if err != nil || c.Policies == "" {
		return nil
	}
	programs, _ := policy.ReadDir(c.Policies, func(string) bool { return true })
	return programs
}
