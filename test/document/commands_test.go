package document

import (
	"testing"

	"github.com/spf13/cobra"
)

// TestProgram: each command has a chapter with what it does, its options and its examples; what is hidden has none.
func TestProgram(t *testing.T) {
	root := &cobra.Command{Use: "p", Short: "Do", DisableFlagsInUseLine: true}
	root.PersistentFlags().String("all", "", "of all, as `NAME`")
	below := &cobra.Command{Use: "a X | a --all", Long: "A does\n* this.\n\n  as it is", Example: "\n  p a x\n  p a y\n", Run: func(*cobra.Command, []string) {}, DisableFlagsInUseLine: true}
	below.Flags().IntP("number", "n", 3, "number of <them>")
	root.AddCommand(below, &cobra.Command{Use: "b", Hidden: true, Run: func(*cobra.Command, []string) {}})
	const want = "intro\n\n## p\n\n```text\np\n```\n\nDo.\n\n| option | meaning |\n|---|---|\n| `--all NAME` | of all, as NAME |\n" +
		"\n## p a\n\n```text\np a X\np a --all\n```\n\nA does \\* this.\n\n```text\n  as it is\n```\n\n| option | meaning |\n|---|---|\n| `-n`, `--number int` | number of \\<them> (default 3) |\n\n```sh\np a x\np a y\n```\n"
	if got := Program("intro\n", root); got != want {
		t.Errorf("%q, want\n%q", got, want)
	}
}
