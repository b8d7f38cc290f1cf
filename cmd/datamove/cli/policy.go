package cli

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

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/tiering/policy"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
)

func (a *app) policyCommand() *cobra.Command {
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
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.policyLintCommand(), a.policySchemaCommand(), a.policyListCommand(), a.policyPlanCommand(), a.policyExplainCommand(), a.policySimulateCommand(),
		a.policyDiffCommand(), a.policyRunCommand(), a.policyStopCommand(), a.policyHistoryCommand(), a.policyUndoCommand(), a.policyWhyCommand())
	return cmd
}

func (a *app) policyLintCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "lint [flags] FILE|DIR...",
		Short: "Say what is wrong with policies, with line and column",
		Long: `All that is wrong is told at once, and the exit code is 2 then. Where the
configuration has tiers, those that a policy names have to be among them. "-" is the
standard input. Of a directory it is all files that end in .yaml, as for a service.`,
		Example: `  datamove policy lint deploy/policies/*.yaml`,
		Args:    cobra.MinimumNArgs(1),
	}
	cmd.RunE = a.do(func(_ context.Context, args []string) error {
		c, err := a.config()
		if err != nil {
			return err
		}
		var all []*policy.Program
		var wrong []error
		for _, file := range args {
			programs, err := a.lintPolicies(file, c.Tiers)
			all = append(all, programs...)
			wrong = append(wrong, err)
		}
		if err := errors.Join(wrong...); err != nil {
			return err
		}
		return list(a, f, policiesListing(time.Now()), every(all))
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// lintPolicies reads a file, or all files of a directory as a service does.
func (a *app) lintPolicies(path string, tiers map[string]config.Tier) ([]*policy.Program, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return a.readPolicies(path, tiers)
	}
	return policy.ReadDir(path, func(tier string) bool { return len(tiers) == 0 || tiers[tier].Level != "" })
}

// readPolicies reads a file.
func (a *app) readPolicies(file string, tiers map[string]config.Tier) ([]*policy.Program, error) {
	in, name := a.in, "the standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, &mover.Error{Op: "read", Place: file, Err: errors.Unwrap(err)}
		}
		defer f.Close()
		in, name = f, file
	}
	text, err := io.ReadAll(io.LimitReader(in, yamldoc.TextMost+1))
	if err != nil {
		return nil, &mover.Error{Op: "read", Place: name, Err: err}
	}
	programs, err := policy.Read(name, text)
	if err == nil && len(tiers) > 0 {
		err = policy.Strangers(programs, func(tier string) bool { return tiers[tier].Level != "" })
	}
	return programs, err
}

// policiesListing is how policies are listed.
func policiesListing(now time.Time) listing[*policy.Program] {
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
	return listing[*policy.Program]{
		what: "policies",
		columns: []column[*policy.Program]{
			{"NAME", 16, func(p *policy.Program) string { return string(p.Policy.Metadata.Name) }},
			{"MODE", 7, func(p *policy.Program) string { return string(cmp.Or(p.Policy.Spec.Mode, policy.ModePlan)) }},
			{"RULES", -5, func(p *policy.Program) string { return fmt.Sprint(len(p.Policy.Spec.Rules)) }},
			{"SCOPE", 16, func(p *policy.Program) string { return mover.Printable(strings.Join(p.Policy.Spec.Scope.Roots, ",")) }},
			{"SCHEDULE", 16, schedule},
			{"NEXT", 16, func(p *policy.Program) string {
				if at := next(p); !at.IsZero() {
					return at.Local().Format("2006-01-02 15:04")
				}
				return "-"
			}},
		},
		view: func(p *policy.Program) any {
			v := policyView{"datamove.policy/v1", string(p.Policy.Metadata.Name), p.Policy.Metadata.Owner, p.Policy.File, cmp.Or(p.Policy.Spec.Mode, policy.ModePlan),
				p.Policy.Spec.Scope.Roots, nil, nil}
			for _, r := range p.Policy.Spec.Rules {
				v.Rules = append(v.Rules, ruleView{string(r.Name), r.Action.Type})
			}
			if at := next(p); !at.IsZero() {
				v.Next = &at
			}
			return v
		},
		name: func(p *policy.Program) string { return string(p.Policy.Metadata.Name) },
	}
}

// policyView is a policy as JSON.
type policyView struct {
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

func (a *app) policySchemaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of policies, for editors",
		Example: `  datamove policy schema >tierpolicy.schema.json`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error {
		text, err := policy.Schema()
		if err == nil {
			_, err = fmt.Fprintf(a.out, "%s\n", text)
		}
		return err
	})
	return cmd
}

// completePolicies completes names of policies, of the service or else of the configuration; files may be meant, too.
func (a *app) completePolicies() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) (words []cobra.Completion, _ cobra.ShellCompDirective) {
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
