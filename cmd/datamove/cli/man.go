package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Title: "DATAMOVE", Section: "1", Date: &date, Source: "datamove " + facts.Version, Manual: "datamove"}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return 0, err
	}
	found, err := os.ReadDir(dir)
	for _, e := range found {
		if strings.HasPrefix(e.Name(), "datamove") && strings.HasSuffix(e.Name(), ".1") {
			pages++
		}
	}
	return pages, err
}
