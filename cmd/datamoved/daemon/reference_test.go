package daemon

import (
	"flag"
	"testing"

	"datamove.dev/test/document"
)

var update = flag.Bool("update", false, "write docs/reference/datamoved.md")

const referenceIntroduction = `# datamoved

<!-- generated from the command by make docs -->

The service: coordinator and agent. [The service](../guides/service.md) says how it is used, [configuration](configuration.md) has its keys, and [exit codes](exit-codes.md) say how it ended.
`

// TestReference holds docs/reference/datamoved.md to the command.
func TestReference(t *testing.T) {
	document.Hold(t, "../../..", "docs/reference/datamoved.md", document.Program(referenceIntroduction, (&app{}).root()), *update)
}
