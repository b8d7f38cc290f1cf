package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// TestQuotaOnDisks sets project quotas on a real ext4 and xfs, and copies into them: also
// root, whom ext4 does not hold. A kernel that has none runs it in a guest (make e2e-vm).
func TestQuotaOnDisks(t *testing.T) {
	for _, one := range []struct {
		loopfs.Spec
		held string
	}{
		{loopfs.Spec{Type: "ext4", Make: []string{"-q", "-O", "quota,project", "-E", "quotatype=prjquota"}, Options: "prjquota", Rare: true}, "users"},
		{loopfs.Spec{Type: "xfs", Make: []string{"-q"}, Options: "prjquota", Rare: true}, "all"},
	} {
		t.Run(one.Type, func(t *testing.T) {
			root, home := loopfs.Mount(t, one.Spec), t.TempDir()
			run := func(args ...string) said {
				command := exec.Command("datamove", args...)
				command.Env = append(os.Environ(), "HOME="+home, "NO_COLOR=1", "DATAMOVE_CONFIG=", "DATAMOVE_SERVICE=")
				s := ended(command)
				t.Logf("%s\n%s%s", strings.Join(args, " "), s.out, s.err)
				return s
			}
			if s := run("quota", "show", root); s.code != 0 {
				loopfs.SkipRare(t, "this kernel has no project quotas: "+s.err)
			}
			quotaOnDisk(t, root, one.held, run)
		})
	}
}

func quotaOnDisk(t *testing.T, root, held string, run func(...string) said) {
	source, dir := filepath.Join(t.TempDir(), "big"), filepath.Join(root, "project")
	must.Do(t, os.WriteFile(source, make([]byte, 12<<20), 0o600))
	run("quota", "show", root).wants(t, 0, `note: .* is in no project`)
	run("quota", "set", "--make", "--project", "4242", "--bytes", "8MiB", "--files", "100", dir).wants(t, 0, `^4242 .* 8.00 MiB .* 100 +9\d  `+held+` +/.*/project$`)

	// Nothing of what does not fit is published.
	run("copy", "--full=fail", "--preserve=mtime", source, dir+"/big").wants(t, 7)
	if _, err := os.Stat(dir + "/big"); err == nil {
		t.Error("more was published than the project may hold")
	}
	run("quota", "set", "--bytes", "64MiB", dir).wants(t, 0, `^4242 .* 64.0 MiB .* 100 `)
	run("copy", "--full=fail", "--preserve=mtime", source, dir+"/big").wants(t, 0)

	run("quota", "set", "--soft-bytes", "4MiB", dir).wants(t, 0, `^4242 .* 4.00 MiB +64.0 MiB `)
	run("quota", "set", "--soft-bytes", "none", "--bytes", "1MiB", dir).wants(t, 0, `note: .* holds more than that already`, `^4242 +\S+ MiB +1.00 MiB +0 B `)
	run("doctor", dir).wants(t, 1, `^fail .*/project  quota: project 4242 holds`)
	run("quota", "set", "--bytes", "none", "--files", "none", dir).wants(t, 0, `^4242 +\S+ MiB +- +- +\d+ +- +- `)
}
