package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestCanNotRun: a script that starts what its tests need names what it does not find, and does not end as if they had passed.
func TestCanNotRun(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"dirname", "id", "mktemp", "rm", "tr"} {
		must.Do(t, os.Symlink(must.Get(exec.LookPath(name))(t), filepath.Join(bin, name)))
	}
	for script, lacks := range map[string]string{
		"e2e-ceph": "ceph-mon", "e2e-k8s": "containerd", "e2e-s3": "openssl", "e2e-slurm": "sbatch", "e2e-vm": "qemu-system-x86_64",
	} {
		for _, strict := range []string{"", "1"} {
			cmd := exec.Command("/bin/bash", "../"+script)
			cmd.Env = []string{"PATH=" + bin, "TMPDIR=" + t.TempDir(), "DATAMOVE_STRICT=" + strict}
			said, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 77 || !strings.Contains(string(said), lacks) {
				t.Errorf("%s without programs, strict %q: %v, %s", script, strict, err, said)
			}
		}
	}
}
