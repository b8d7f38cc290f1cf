// Command datamove copies, synchronises and verifies trees of files between POSIX file
// systems and S3; package cli is all of it.
package main

import (
	"os"

	"datamove.dev/cmd/datamove/cli"
)

// version is set by the linker (-X main.version=…).
var version string

func main() { os.Exit(cli.Main(version)) }
