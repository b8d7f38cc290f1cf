// Package service has the tests of the whole service that need what a goroutine has not:
// processes of other accounts, seals of the file system, small disks, an S3 server, and daemons.
// They run in real time. All that needs none of these is in test/cluster.
package service

import (
	"fmt"
	"os"
	"testing"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/test/cluster/rig"
	crash "datamove.dev/test/crash/rig"
)

// TestMain is also a copy without a service, and a daemon.
func TestMain(m *testing.M) {
	crash.Be(crash.Commands{"datamove": root.Main, "datamoved": daemon.Main, "worst": worst})
	if len(os.Args) == 5 && os.Args[1] == "alone" {
		if err := copyAlone(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "alone:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == liarArg {
		if err := liar(); err != nil {
			fmt.Fprintln(os.Stderr, "liar:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.FileSystem = fileSystemOf
	rig.Be()
	crash.End(m.Run())
}

// cluster is one whose workers are processes.
type cluster struct {
	*rig.Cluster
	t testing.TB
}

func newCluster(t testing.TB, agents ...string) *cluster {
	t.Helper()
	return &cluster{rig.Processes(t, agents...), t}
}
