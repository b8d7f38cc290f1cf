// Package service has the tests of the whole service that need what a goroutine has not:
// processes of other accounts, seals of the file system, small disks, and an S3 server.
// They run in real time. All that needs none of these is in test/cluster.
package service

import (
	"fmt"
	"os"
	"testing"

	"datamove.dev/test/cluster/rig"
)

// TestMain is also a copy without a service.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "alone" {
		if err := copyAlone(os.Args[2], os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, "alone:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rig.FileSystem = fileSystemOf
	rig.Main(m)
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
