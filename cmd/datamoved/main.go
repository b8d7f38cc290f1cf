// Command datamoved is the service: coordinator, agent, or both; package daemon is all of it.
package main

import (
	"os"

	"datamove.dev/cmd/datamoved/daemon"
)

// version is set by the linker (-X main.version=…).
var version string

func main() { os.Exit(daemon.Main(version)) }
