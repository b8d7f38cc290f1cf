package cli

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what Main was given; without it the build's own facts tell.
var version string

// versionView is what this program was built from.
type versionView struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the tree had changes that are not in Commit
	Date     string `json:"date,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Cgo      bool   `json:"cgo"`
}

func buildFacts() versionView {
	v := versionView{Schema: "datamove.version/v1", Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		v.Version = cmp.Or(v.Version, "unknown")
		return v
	}
	v.Version = cmp.Or(v.Version, info.Main.Version, "unknown")
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Date = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		case "CGO_ENABLED":
			v.Cgo = s.Value == "1"
		}
	}
	return v
}

func (a *app) versionCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, and what it was built from",
		Example: `  datamove version -o json`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error {
		v := buildFacts()
		if f != formatTable {
			return writeObject(a.out, f, v)
		}
		fmt.Fprintf(a.out, "datamove %s\n", v.Version)
		if v.Commit != "" {
			fmt.Fprintf(a.out, "commit   %s %s%s\n", v.Commit, v.Date, map[bool]string{true: " (modified)"}[v.Modified])
		}
		_, err := fmt.Fprintf(a.out, "built    %s %s, cgo %t\n", v.Go, v.Platform, v.Cgo)
		return err
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatYAML)
	return cmd
}
