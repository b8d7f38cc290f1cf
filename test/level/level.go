// Package level says which tests run together: [Of] gives the level of a package.
//
// A hermetic package needs Go alone: memory, files of its own, goroutines. A system package starts real programs, servers and kernels' facilities, as root, and runs
// whether its results are cached or not. A soak package takes minutes or hours. test/runner runs one level of the module; test/arch holds the tables against the tree.
package level

import "strings"

// Level is where a package's tests run.
type Level string

// The levels; CI runs the first two.
const (
	Hermetic Level = "hermetic" // make test
	System   Level = "system"   // make system
	Soak     Level = "soak"     // make soak, and targets of their own
)

// packages are those that are not hermetic, and those that are below one of them, by the folder below the module's root.
var packages = map[string]Level{
	"test/crash":      System, // kills of real processes
	"test/deploy":     System, // helm, kubeconform, systemd, and the programs' own answers
	"test/e2e":        System,
	"test/fabric":     System, // network namespaces, with DATAMOVE_SOAK=1
	"test/hostile":    System, // a hostile world around the command
	"test/monitoring": System, // promtool, and a service
	"test/power":      System, // loop devices
	"test/slurm":      System, // a real Slurm
	"test/system":     System,

	"test/system/browser": System, // Chromium

	"test/fabric/model":   Hermetic,
	"test/fabric/pages":   Hermetic,
	"test/fabric/verdict": Hermetic,

	"test/k8s": Soak, // make e2e-k8s
	"test/vm":  Soak, // make e2e-vm
}

// mixed are packages that need programs, servers or root for some of their tests, and are hermetic otherwise. They run with the hermetic ones, where those tests
// are skipped with a reason. The table may only shrink: what needs a process moves to a system package.
var mixed = map[string]bool{
	"bench/hardware":               true,
	"bench/loadgen":                true,
	"bench/workload":               true,
	"cmd/datamove-bench/harness":   true,
	"cmd/datamove-csi/driver":      true,
	"cmd/datamove/doctor":          true,
	"cmd/datamoved/daemon":         true,
	"csi":                          true,
	"csi/fsworker":                 true,
	"lustre/client":                true,
	"lustre/localfs":               true,
	"mover/agent/sandbox":          true,
	"mover/coordinator/state":      true,
	"mover/backend/posix":          true,
	"mover/backend/s3":             true,
	"mover/archive":                true,
	"test/aws":                     true,
	"test/cluster":                 true,
	"tiering/burst/lifecycle":      true,
	"tiering/burst/link":           true,
	"tiering/checkpoint/replicate": true,
}

// Of is the level of a package, by its folder below the module's root.
func Of(folder string) Level {
	for dir := folder; dir != "" && dir != "."; {
		if l, ok := packages[dir]; ok {
			return l
		}
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			break
		}
		dir = dir[:i]
	}
	return Hermetic
}

// Mixed reports whether some tests of a hermetic package start programs or servers, or need root.
func Mixed(folder string) bool { return mixed[folder] }

// builds are hermetic packages that build programs of ours and start them. The go tool knows nothing of these, and what it has cached may be of others. It knows of
// those that test binaries become, and of s3dev, whose sources package s3test reads.
var builds = map[string]bool{"mover/agent/sandbox": true}

// Builds reports whether a hermetic package starts programs that it has built.
func Builds(folder string) bool { return builds[folder] }

// disk are hermetic packages whose tests are about what file systems of disks do, or have not been tried without one; the files of all others may be in memory.
var disk = map[string]bool{
	"bench/hardware":      true, // direct reads and writes
	"bench/compare":       true, // the cache of pages
	"bench/loadgen":       true,
	"csi":                 true, // mounts
	"lustre/localfs":      true, // projects
	"lustre/detect":       true,
	"mover/agent/sandbox": true, // what a program gets of its parent's files
	"mover/backend/posix": true,

	// The copies of programs that these make may outlive them.
	"cmd/datamove/root":             true,
	"cmd/datamove-bench/harness":    true,
	"cmd/datamove-csi/driver":       true,
	"cmd/datamoved/daemon":          true,
	"tiering/slurm/burstbuffer":     true,
	"tiering/dataset/datasetclient": true,
}

// Disk reports whether the files of a package's tests have to be on a disk.
func Disk(folder string) bool { return disk[folder] }
