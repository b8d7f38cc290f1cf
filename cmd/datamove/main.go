// Command datamove copies, synchronises and verifies trees of files between POSIX file
// systems and S3; package root is all of it.
package main

import (
	"os"

	"datamove.dev/cmd/datamove/root"
)

// version is set by the linker (-X main.version=…).
var version string

func main() { os.Exit(root.Main(version)) }
