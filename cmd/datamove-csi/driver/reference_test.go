package driver

import (
	"flag"
	"testing"

	"datamove.dev/test/document"
)

var update = flag.Bool("update", false, "write docs/reference/datamove-csi.md")

const referenceIntroduction = `# datamove-csi

<!-- generated from the command by make docs -->

The CSI driver. [Kubernetes](../guides/kubernetes.md) says how it is used; the chart of Helm sets its options.
`

// TestReference holds docs/reference/datamove-csi.md to the command.
func TestReference(t *testing.T) {
	document.Hold(t, "../../..", "docs/reference/datamove-csi.md", document.Program(referenceIntroduction, command()), *update)
}
