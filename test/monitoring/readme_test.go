package monitoring

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"datamove.dev/csi/metrics"
	"datamove.dev/mover/telemetry"
	"datamove.dev/test/document"
	"datamove.dev/tiering/checkpoint/replicate"
)

var update = flag.Bool("update", false, "write the table of docs/reference/metrics.md")

// markdown is the table of mover/telemetry, and those of others, for people.
func markdown() string {
	var b strings.Builder
	fmt.Fprint(&b, "| name | type | unit | labels | told by | meaning |\n|---|---|---|---|---|---|\n")
	for _, r := range telemetry.Table() {
		var labels []string
		for _, l := range r.Labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", r.Name, r.Type, r.Unit, strings.Join(labels, " "), r.From, r.Meaning)
	}
	fmt.Fprint(&b, "\nThe CSI driver, `datamove-csi`, has metrics of its own:\n\n| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, r := range metrics.Table {
		var labels []string
		for _, l := range r.Labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Name, r.Type, strings.Join(labels, " "), r.Meaning)
	}
	fmt.Fprint(&b, "\n`datamove checkpoint watch --metrics FILE` has metrics of its own:\n\n| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range replicate.Metrics {
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", m.Name, m.Type, strings.Join(m.Labels, "` `"), m.Meaning)
	}
	return b.String()
}

func TestReadmeHasEveryMetric(t *testing.T) {
	document.HoldTable(t, "../..", "docs/reference/metrics.md", "mover/telemetry", markdown(), *update)
}
