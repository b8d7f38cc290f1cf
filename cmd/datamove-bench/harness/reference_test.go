package harness

import (
	"flag"
	"testing"

	"datamove.dev/test/document"
)

var update = flag.Bool("update", false, "write docs/reference/datamove-bench.md")

const referenceIntroduction = `# datamove-bench

<!-- generated from the command by make docs -->

The benchmark. [Benchmark](../guides/benchmark.md) says how it is used, and [exit codes](exit-codes.md) say how it ended.
`

// TestReference holds docs/reference/datamove-bench.md to the command.
func TestReference(t *testing.T) {
	document.Hold(t, "../../..", "docs/reference/datamove-bench.md", document.Program(referenceIntroduction, rootCommand()), *update)
}
