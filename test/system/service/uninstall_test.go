package service

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	crash "datamove.dev/test/crash/rig"
	"datamove.dev/test/document"
	"datamove.dev/test/loopfs"
	"datamove.dev/test/must"
)

// guide is where the lines are that a person follows.
const guide = "docs/guides/upgrade-backup-uninstall.md"

// TestUninstall does what the guide says, line by line, where a replica is leased and pinned, and another one stays: nothing of the service is left, and no file that root can not remove.
func TestUninstall(t *testing.T) {
	tier := loopfs.Mount(t, loopfs.Spec{Type: "ext4", Bytes: 64 << 20, Make: []string{"-q"}})
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	must.Do(t, os.WriteFile(file, []byte("service: unix://"+dir+"/s\ndata: "+dir+"/lib\nlisten: ['unix://"+dir+"/s']\npeers: {listen: 'off'}\nnode: n7\ntiers:\n  scratch: {level: hot, path: "+tier+
		", node_local: true}\n  archive: {level: cold, path: "+dir+"/archive}\n"), 0o600))
	for _, name := range []string{"imagenet", "other"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "archive", name, "sub"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, "archive", name, "sub", "x"), []byte(name), 0o644))
		must.Do(t, os.Symlink("sub/x", filepath.Join(dir, "archive", name, "link")))
	}
	service := crash.NewCommand(t, "datamoved")
	service.Env = []string{"DATAMOVE_CONFIG=" + file}
	daemon := service.Start(t)
	daemon.Until("it is ready", func() bool { return strings.Contains(daemon.Complained(), "msg=ready") })
	bin := filepath.Dir(must.Get(crash.Executable("datamove"))(t))
	sh := func(line string) (string, error) {
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "DATAMOVE_CONFIG=" + file, "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		return line + "\n" + string(out), err
	}
	for _, line := range []string{"datamove dataset add imagenet archive:imagenet", "datamove dataset add other archive:other",
		"datamove stage dataset:imagenet --to scratch --ttl 1h --pin 24h", "datamove stage dataset:other --to scratch"} {
		if out, err := sh(line); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.RemoveAll(filepath.Join(tier, ".datasets")); err == nil {
		t.Fatal("nothing is sealed")
	}
	here := strings.NewReplacer("/local_nvme", tier, "/var/lib/datamove", dir+"/lib", "/etc/", dir+"/none/", "/run/", dir+"/none/", "/usr/", dir+"/none/", "xargs -r datamove", "xargs -r "+bin+"/datamove")
	for _, line := range uninstalls(t) {
		if words := strings.Fields(line); words[0] == "systemctl" { // it stops, or has stopped, what runs here
			daemon.Signal(os.Interrupt)
			daemon.Wait()
			continue
		}
		links := strings.HasPrefix(line, "chattr ") // the guide says that they make it end with 1
		out, err := sh(here.Replace(strings.TrimSuffix(line, " && systemctl daemon-reload")))
		if one := new(exec.ExitError); err != nil && (!links || !errors.As(err, &one) || one.ExitCode() != 1) {
			t.Errorf("%v: %s", err, out)
		}
		if strings.HasPrefix(line, "datamove release") && strings.Contains(must.Get(sh("ls "+tier+"/.datasets"))(t), "imagenet\n") {
			t.Errorf("the replica is there: %s", out)
		}
	}
	for _, gone := range []string{filepath.Join(tier, ".datasets"), filepath.Join(tier, ".datamove-trash"), filepath.Join(dir, "lib")} {
		if _, err := os.Lstat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", gone, err)
		}
	}
}

// uninstalls are the commands of the guide, without why they are given.
func uninstalls(t *testing.T) (lines []string) {
	t.Helper()
	comment := regexp.MustCompile(` +# .*$`)
	for _, b := range must.Get(document.Read("../../..", guide))(t) {
		if !strings.Contains(b.Text, "datamove release") {
			continue
		}
		for _, c := range b.Commands() {
			lines = append(lines, comment.ReplaceAllString(strings.TrimSpace(c.Text), ""))
		}
	}
	if len(lines) < 8 {
		t.Fatalf("the guide has %q", lines)
	}
	return lines
}
