package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"
)

// version is what Main was given; without it the build's own facts tell.
var version string

// BuildView is what this program was built from.
type BuildView struct {
	Schema   string `json:"schema"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the tree had changes that are not in Commit
	Date     string `json:"date,omitempty"`     // of the commit
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Cgo      bool   `json:"cgo"`
}

// BuildFacts are those of this program.
func BuildFacts() BuildView {
	v := BuildView{Schema: "datamove.version/v1", Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
