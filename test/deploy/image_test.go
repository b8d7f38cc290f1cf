package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// TestImageGuide does what the README of the chart says of the image, as far as it goes without a cluster: its calls of make are known there, the archives that it names are made, and containerd
// imports one by the line for kubeadm.
func TestImageGuide(t *testing.T) {
	text := string(must.Get(os.ReadFile(filepath.Join(chart, "README.md")))(t))
	_, text, _ = strings.Cut(text, "## The image\n")
	text, _, _ = strings.Cut(text, "\n## ")
	makes := regexp.MustCompile("`(make image[^`]*)`").FindAllStringSubmatch(text, -1)
	for _, m := range makes {
		words := strings.Fields(m[1])
		cmd := exec.Command("make", append([]string{"-n"}, words[1:]...)...)
		cmd.Dir = "../.."
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", m[1], err, out)
		}
	}
	dir := t.TempDir()
	stand, source := filepath.Join(dir, "stand-in"), filepath.Join(dir, "main.go")
	must.Do(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600))
	build := exec.Command("go", "build", "-o", stand, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"datamove", "datamove-bench", "datamove-csi", "datamoved"} {
		must.Do(t, os.Symlink(stand, filepath.Join(dir, name+"-linux-amd64")))
	}
	made := exec.Command("go", "run", ".", "-programs", dir, "-out", filepath.Join(dir, "dist/image"), "-architectures", "amd64", "-version", "v1.2.3")
	made.Dir = "../../deploy/image"
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	archives := regexp.MustCompile(`dist/image/[\w.-]+`).FindAllString(text, -1)
	for _, name := range archives {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("the guide names %s: %v", name, err)
		}
	}
	lines := regexp.MustCompile("`(ctr -n [^`]+)`").FindStringSubmatch(text)
	if len(makes) < 3 || len(archives) < 5 || len(lines) != 2 {
		t.Fatalf("the guide has %q, %q, %q", makes, archives, lines)
	}
	socket := containerd(t, dir)
	words := append([]string{"-a", socket}, strings.Fields(lines[1])[1:]...)
	cmd := exec.Command("ctr", words...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "datamove.dev/datamove:v1.2.3") {
		t.Errorf("%s: %v: %s", lines[1], err, out)
	}
}

// containerd is one of its own, without anything of Kubernetes.
func containerd(t *testing.T, dir string) (socket string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, name := range []string{"containerd", "ctr"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("needs " + name + ": test/setup k8s installs it")
		}
	}
	socket = filepath.Join(dir, "s")
	file := filepath.Join(dir, "containerd.toml")
	must.Do(t, os.WriteFile(file, []byte("version = 2\nroot = '"+dir+"/root'\nstate = '"+dir+"/state'\ndisabled_plugins = ['io.containerd.grpc.v1.cri']\n[grpc]\naddress = '"+socket+"'\n"), 0o600))
	daemon := exec.Command("containerd", "-c", file)
	must.Do(t, daemon.Start())
	ended := make(chan struct{})
	go func() {
		_ = daemon.Wait() // killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = daemon.Process.Kill()
		<-ended
	})
	patience.Until(t, "containerd answers", nil, func() bool { return exec.Command("ctr", "-a", socket, "version").Run() == nil })
	return socket
}
