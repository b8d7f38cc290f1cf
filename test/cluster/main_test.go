// Package cluster has the tests of the whole service in virtual time: what happens in a
// cluster is done to a coordinator and its agents. The rig says what is real of them.
// What needs accounts, seals, processes or real servers is in test/system/service.
package cluster

import (
	"testing"

	"datamove.dev/test/cluster/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }
