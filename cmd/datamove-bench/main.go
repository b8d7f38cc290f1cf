// Command datamove-bench measures what a cluster does, and compares datamove with its
// peers; package harness is all of it.
package main

import (
	"os"

	"datamove.dev/cmd/datamove-bench/harness"
)

// version is set by the linker (-X main.version=…).
var version string

func main() { os.Exit(harness.Main(version)) }
