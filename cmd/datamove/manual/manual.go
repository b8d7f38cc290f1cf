// Package manual says what datamove is, beside the texts of its commands: exit codes, environment and files. It writes the manual pages, and gives the parts of a command
// (flags, examples) that other documents have, too: docs/reference is written with it.
//
// Everything here is pure, but for [Pages.Write]. TestManual of cmd/datamove/root holds the pages to the commands, TestReference there docs/reference/cli.md and
// docs/reference/exit-codes.md.
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Entry is a word and what it means.
type Entry struct{ Word, Means string }

// ExitCodes are all of them, for people.
var ExitCodes = []Entry{
	{"0", "All that was asked for is there, at the level that was asked for."},
	{"1", "Something else."},
	{"2", "The command line, the configuration or a policy is wrong."},
	{"3", "It is not found."},
	{"4", "It is denied."},
	{"5", "There is a conflict: it is held, changed underneath, or another spelling of the name is there."},
	{"6", "Some items failed, and each is listed."},
	{"7", "A quota, a budget, the space or --max-delete is reached."},
	{"8", "An endpoint can not be reached."},
	{"9", "The verification failed."},
	{"10", "It timed out."},
	{"130", "It was interrupted; the same command goes on where it stopped."},
}

// Gravest says which code it is where items fail in several ways.
const Gravest = "Where items fail in several ways, 9 goes before 7, 7 before 5, 5 before 4, and 4 before 6."

// Environment has the variables that commands read.
var Environment = []Entry{
	{"DATAMOVE_CONFIG", "The configuration file."},
	{"DATAMOVE_SERVICE", "The address of the service; none is this process."},
	{"DATAMOVE_IDENTITY", "The certificate for a service on another machine."},
	{"XDG_STATE_HOME", "Below it commands remember what they have done; default ~/.local/state."},
	{"AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN", "The keys for S3."},
	{"AWS_PROFILE, AWS_CONFIG_FILE, AWS_SHARED_CREDENTIALS_FILE", "The profile for S3, and the files that it is looked for in."},
	{"AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL", "The S3 store; without one it is Amazon S3."},
	{"AWS_REGION, AWS_CA_BUNDLE", "The region of buckets, and the authorities that are trusted beside those of the system."},
	{"HTTP_PROXY, HTTPS_PROXY, NO_PROXY", "The proxies to S3."},
	{"NO_COLOR", "No colours."},
}

// Files has those that commands read and write beside what they are given.
var Files = []Entry{
	{"~/.config/datamove/config.yaml, /etc/datamove/config.yaml", "The configuration, where DATAMOVE_CONFIG and --config name none."},
	{"~/.local/state/datamove", "What commands remember: journals of what is not finished, and what each S3 store can do."},
	{"~/.aws/config, ~/.aws/credentials", "Profiles for S3."},
	{"/run/datamove/datamoved.sock", "The socket of a service on this machine."},
}

// Pages are the manual pages of a version.
type Pages struct {
	Version string
	Date    time.Time // of its commit, so that pages of one version are the same bytes
}

// Write writes a page for each command into a folder, and returns their number.
func (p Pages) Write(root *cobra.Command, dir string) (pages int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	title := fmt.Sprintf(".TH \"DATAMOVE\" \"1\" \"%s\" \"datamove %s\" \"datamove\"\n.nh\n.ad l\n", p.Date.Format("Jan 2006"), p.Version)
	err = Each(root, func(cmd *cobra.Command) error {
		pages++
		return os.WriteFile(filepath.Join(dir, dashed(cmd)+".1"), []byte(title+page(cmd)), 0o644)
	})
	return pages, err
}

// Each calls do for a command and all below it that people can see.
func Each(cmd *cobra.Command, do func(*cobra.Command) error) error {
	if err := do(cmd); err != nil {
		return err
	}
	for _, below := range Below(cmd) {
		if err := Each(below, do); err != nil {
			return err
		}
	}
	return nil
}

// Below are the commands directly below one that people can see.
func Below(cmd *cobra.Command) (all []*cobra.Command) {
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			all = append(all, below)
		}
	}
	return all
}

// Flag is one of a command.
type Flag struct{ Short, Long, Value, Means string }

// Flags are those of a set, by name, with what holds where they are left out.
func Flags(set *pflag.FlagSet) (all []Flag) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		if usual := f.DefValue; !strings.Contains(text, "default") && !slices.Contains([]string{"", "0", "0s", "false", "[]"}, usual) {
			text += " (default " + usual + ")"
		}
		all = append(all, Flag{f.Shorthand, f.Name, value, text})
	})
	return all
}

// Examples are those of a command. One that only has commands below it shows the first of each of these.
func Examples(cmd *cobra.Command) string {
	if cmd.Example != "" || !cmd.HasAvailableSubCommands() {
		return cmd.Example
	}
	var lines []string
	for _, below := range Below(cmd) {
		if first, _, _ := strings.Cut(strings.TrimLeft(Examples(below), "\n"), "\n"); first != "" {
			lines = append(lines, strings.TrimSuffix(first, ` \`))
		}
	}
	return strings.Join(lines, "\n")
}

// Synopses are the forms of a call.
func Synopses(cmd *cobra.Command) []string {
	forms := strings.Split(cmd.UseLine(), " | ")
	for i := range forms[1:] {
		forms[i+1] = cmd.Root().Name() + " " + forms[i+1]
	}
	return forms
}

func dashed(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is the manual page of a command behind its title, in the macros of man(7).
func page(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(dashed(cmd)), roff(cmd.Short))
	for i, form := range Synopses(cmd) {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, "\\fB%s\\fR\n", roff(form))
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(cmp.Or(cmd.Long, cmd.Short)))
	b.WriteString(options("OPTIONS", cmd.NonInheritedFlags()) + options("GLOBAL OPTIONS", cmd.InheritedFlags()))
	if examples := Examples(cmd); examples != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(examples))
	}
	b.WriteString(section("EXIT STATUS", ExitCodes) + paragraphs(Gravest) + section("ENVIRONMENT", Environment) + section("FILES", Files))
	return b.String() + seeAlso(cmd)
}

// roff escapes what groff would read as its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "\\(ga").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// paragraphs are those of a help text; what is indented stays as it is.
func paragraphs(text string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(part, " ") {
			fmt.Fprintf(&b, ".PP\n.nf\n%s\n.fi\n", roff(part))
			continue
		}
		fmt.Fprintf(&b, ".PP\n%s\n", roff(part))
	}
	return b.String()
}

// options lists flags with the names of their values.
func options(title string, set *pflag.FlagSet) string {
	var b strings.Builder
	for _, f := range Flags(set) {
		b.WriteString(".TP\n")
		if f.Short != "" {
			fmt.Fprintf(&b, "\\fB\\-%s\\fR, ", f.Short)
		}
		fmt.Fprintf(&b, "\\fB\\-\\-%s\\fR", roff(f.Long))
		if f.Value != "" {
			fmt.Fprintf(&b, " \\fI%s\\fR", roff(f.Value))
		}
		fmt.Fprintf(&b, "\n%s\n", roff(f.Means))
	}
	if b.Len() == 0 {
		return ""
	}
	return ".SH " + title + "\n" + b.String()
}

func section(title string, entries []Entry) string {
	var b strings.Builder
	for _, t := range entries {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(t.Word), roff(t.Means))
	}
	return ".SH " + title + "\n" + b.String()
}

func seeAlso(cmd *cobra.Command) string {
	var names []string
	if cmd.HasParent() {
		names = append(names, dashed(cmd.Parent()))
	}
	for _, below := range Below(cmd) {
		names = append(names, dashed(below))
	}
	for i, name := range names {
		names[i] = `\fB` + roff(name) + `\fR(1)`
	}
	if names == nil {
		return ""
	}
	return ".SH SEE ALSO\n" + strings.Join(names, ",\n") + "\n"
}
