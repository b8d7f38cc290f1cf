package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// Build builds a command of this module, like ./cmd/datamove, into dir, static and
// small enough for a guest, and returns its path. It is run in a folder of the module.
func Build(dir, pkg string) (string, error) {
	return toolchain(filepath.Join(dir, path.Base(pkg)), "build", pkg)
}

// BuildTest builds the test binary of a package as Build does.
func BuildTest(dir, pkg string) (string, error) {
	return toolchain(filepath.Join(dir, path.Base(pkg)+".test"), "test", "-c", pkg)
}

func toolchain(out, verb string, args ...string) (string, error) {
	args = append([]string{verb, "-trimpath", "-ldflags", "-s -w", "-o", out}, args...)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%q: %w\n%s", cmd.Args, err, said)
	}
	return out, nil
}
