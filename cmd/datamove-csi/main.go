// Command datamove-csi is the CSI driver csi.datamove.dev; package driver is all of it.
package main

import (
	"os"

	"datamove.dev/cmd/datamove-csi/driver"
)

// version is set by the linker (-X main.version=…).
var version string

func main() { os.Exit(driver.Main(version)) }
