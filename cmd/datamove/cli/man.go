package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) manCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the manual pages into a folder",
		GroupID: groupRest,
		Example: `  datamove man ~/.local/share/man/man1`,
		Args:    exactly(1, "a folder for the pages"),
	}
	cmd.RunE = a.do(func(_ context.Context, args []string) error {
		pages, err := writeManual(a.root(), args[0])
		if err != nil || a.quiet {
			return err
		}
		_, err = fmt.Fprintf(a.out, "wrote %d pages to %s\n", pages, args[0])
		return err
	})
	return cmd
}

// writeManual writes one page per command. Pages of the same version are the same
// bytes: their date is that of the commit.
func writeManual(root *cobra.Command, dir string) (pages int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	facts := buildFacts()
	date, err := time.Parse(time.RFC3339, facts.Date)
	if err != nil {
		date = time.Unix(0, 0).UTC() // not built from a commit
	}
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	title := fmt.Sprintf(".TH \"DATAMOVE\" \"1\" \"%s\" \"datamove %s\" \"datamove\"\n.nh\n.ad l\n", date.Format("Jan 2006"), facts.Version)
	err = eachCommand(root, func(cmd *cobra.Command) error {
		pages++
		return os.WriteFile(filepath.Join(dir, dashed(cmd)+".1"), []byte(title+page(cmd)), 0o644)
	})
	return pages, err
}

// eachCommand calls do for a command and all below it that people can see.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command) error) error {
	if err := do(cmd); err != nil {
		return err
	}
	for _, below := range cmd.Commands() {
		if !below.IsAvailableCommand() {
			continue
		}
		if err := eachCommand(below, do); err != nil {
			return err
		}
	}
	return nil
}

func dashed(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page is the manual page of a command behind its title, in the macros of man(7).
func page(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(dashed(cmd)), roff(cmd.Short))
	for i, line := range strings.Split(cmd.UseLine(), " | ") {
		if i > 0 {
			line = cmd.Root().Name() + " " + line
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, "\\fB%s\\fR\n", roff(line))
	}
	b.WriteString(".SH DESCRIPTION\n" + paragraphs(cmp.Or(cmd.Long, cmd.Short)))
	b.WriteString(options("OPTIONS", cmd.NonInheritedFlags()) + options("GLOBAL OPTIONS", cmd.InheritedFlags()))
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	b.WriteString(section("EXIT STATUS", exitMeanings) + paragraphs(exitMixed))
	if !cmd.HasParent() {
		b.WriteString(section("ENVIRONMENT", manEnvironment) + section("FILES", manFiles))
	}
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
func options(title string, flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(&b, "\\fB\\-%s\\fR, ", f.Shorthand)
		}
		fmt.Fprintf(&b, "\\fB\\-\\-%s\\fR", roff(f.Name))
		if value != "" {
			fmt.Fprintf(&b, " \\fI%s\\fR", roff(value))
		}
		if usual := f.DefValue; !strings.Contains(text, "default") && !slices.Contains([]string{"", "0", "0s", "false", "[]"}, usual) {
			text += " (default " + usual + ")"
		}
		fmt.Fprintf(&b, "\n%s\n", roff(text))
	})
	if b.Len() == 0 {
		return ""
	}
	return ".SH " + title + "\n" + b.String()
}

// manEntry is a word and what it means.
type manEntry struct{ word, means string }

func section(title string, entries []manEntry) string {
	var b strings.Builder
	for _, t := range entries {
		fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(t.word), roff(t.means))
	}
	return ".SH " + title + "\n" + b.String()
}

func seeAlso(cmd *cobra.Command) string {
	var names []string
	if cmd.HasParent() {
		names = append(names, dashed(cmd.Parent()))
	}
	for _, below := range cmd.Commands() {
		if below.IsAvailableCommand() {
			names = append(names, dashed(below))
		}
	}
	for i, name := range names {
		names[i] = `\fB` + roff(name) + `\fR(1)`
	}
	if names == nil {
		return ""
	}
	return ".SH SEE ALSO\n" + strings.Join(names, ",\n") + "\n"
}

// exitMeanings are the exit codes, for people.
var exitMeanings = []manEntry{
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

const exitMixed = "Where items fail in several ways, 9 goes before 7, 7 before 5, 5 before 4, and 4 before 6."

var manEnvironment = []manEntry{
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

var manFiles = []manEntry{
	{"~/.config/datamove/config.yaml, /etc/datamove/config.yaml", "The configuration, where DATAMOVE_CONFIG and --config name none."},
	{"~/.local/state/datamove", "What commands remember: journals of what is not finished, and what each S3 store can do."},
	{"~/.aws/config, ~/.aws/credentials", "Profiles for S3."},
	{"/run/datamove/datamoved.sock", "The socket of a service on this machine."},
}
