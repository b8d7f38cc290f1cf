package compare

import (
	"os/exec"
	"strconv"
)

// launching lets Open MPI, version 4 and 5, start more processes than it sees cores, and as root; others do so unasked.
var launching = []string{
	"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_rmaps_base_oversubscribe=1",
	"PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
}

// mpirun is the program that starts a program of MPI as many processes; "" where there is none.
func mpirun() string {
	for _, name := range []string{"mpirun", "mpiexec"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// ranks calls a program of MPI as n processes, or as one where there is no launcher.
func ranks(launcher string, n int, args ...string) command {
	if launcher == "" {
		return call(args...)
	}
	c := call(append([]string{launcher, "-np", strconv.Itoa(n)}, args...)...)
	c.env = launching
	return c
}
