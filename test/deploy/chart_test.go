package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	chart    = "../../deploy/helm/datamove"
	plain    = "../../deploy/kubernetes"
	examples = "../../deploy/examples"
)

// helm runs it, and returns what it printed.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("helm")
	if err != nil && *update {
		t.Fatal("helm is missing, and nothing is written without it: test/setup tools")
	}
	if err != nil {
		t.Skip("helm is missing: test/setup tools")
	}
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), "GOGC=off", "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir(), "KUBECONFIG=/dev/null")
	var errors strings.Builder
	c.Stderr = &errors
	out, err := c.Output()
	return string(out) + errors.String(), err
}

// settings are the files of values that everything is tried with; "" is none.
func settings(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("values/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v, %v", files, err)
	}
	return append([]string{"", filepath.Join(plain, "values.yaml")}, files...)
}

// named has the chart take keys of the relay that are there, by the names that it gives its own: to make them is four fifths of what helm takes.
var named = []string{"--set", "driver.relay.controllerSecret=datamove-relay-controller,driver.relay.nodeSecret=datamove-relay-node"}

// flags are those for a file of values. Keys are made for the chart's own values alone.
func flags(values string) []string {
	if values == "" {
		return nil
	}
	if text, _ := os.ReadFile(values); strings.Contains(string(text), "controllerSecret") { // helm says why it can not be read
		return []string{"-f", values}
	}
	return slices.Concat([]string{"-f", values}, named)
}

// with is what the chart makes of its own values and one setting.
func with(t *testing.T, flag, setting string) (string, error) {
	t.Helper()
	return helm(t, slices.Concat([]string{"template", "datamove", chart}, named, []string{flag, setting})...)
}

// rendered are the results of render, by the file of values.
var rendered sync.Map

// render is what the chart makes of values.
func render(t *testing.T, values string) string {
	t.Helper()
	if out, is := rendered.Load(values); is {
		return out.(string)
	}
	out := renderAgain(t, values)
	rendered.Store(values, out)
	return out
}

func renderAgain(t *testing.T, values string) string {
	t.Helper()
	out, err := helm(t, slices.Concat([]string{"template", "datamove", chart, "-n", "datamove"}, flags(values))...)
	if err != nil {
		t.Fatalf("%s: %v: %s", values, err, out)
	}
	return out
}

func TestLint(t *testing.T) {
	for _, values := range settings(t) {
		if out, err := helm(t, slices.Concat([]string{"lint", chart, "--strict"}, flags(values))...); err != nil {
			t.Errorf("%s: %v: %s", values, err, out)
		}
	}
}

// What is not known, or can not go together, is refused with a word that says what.
func TestRefused(t *testing.T) {
	for _, row := range []struct{ set, says string }{
		{"driver.nodes.hostNetwork=false", "nodes"},
		{"kubeletRoot=var/lib/kubelet", "kubeletRoot"},
		{"driver.config.fileSystem.x.root=/x", "fileSystem"},
		{"driver.config.fileSystems.x.root=/x", "use"},
		{"driver.relay.controllerSecret=", "both, or neither"},
		{"mover.coordinator.enabled=false,mover.coordinator.pin=" + strings.Repeat("a", 52), "mover.coordinator.address is needed"},
		{"mover.coordinator.enabled=false,mover.coordinator.address=head:7643", "mover.coordinator.pin is needed"},
		{"mover.config.listen={unix:///x}", "mover.config.listen is set by the chart"},
		{"storageClasses[0].name=x", "parameters"},
		{"storageClasses[0].name=x,storageClasses[0].parameters.type=project,storageClasses[0].parameters.uid=7", "uid"},
		{"image.digest=latest", "digest"},
		{"driver.seLinuxMount=true", "mountPerVolume"},
		{"driver.seLinuxMount=true,driver.config.fileSystems.lab.use=project,driver.config.fileSystems.lab.kind=lustre,driver.config.fileSystems.lab.root=/lab", "file system lab is mounted once"},
		{"mover.coordinator.hostNetwork=true,mover.agent.hostNetwork=true,mover.agent.httpPort=7644", "give the agent another one"},
		{"mover.httpPort=7644", "httpPort"},
		{"seLinuxOptions.typ=spc_t", "typ"},
	} {
		out, err := with(t, "--set", row.set)
		if err == nil || !strings.Contains(out, row.says) {
			t.Errorf("%s: %v: %s", row.set, err, out)
		}
	}
}

// The same values make the same objects, but for the keys of the relay, which a cluster keeps.
func TestSame(t *testing.T) {
	for _, values := range settings(t) {
		a, b := withoutSecrets(render(t, values)), withoutSecrets(renderAgain(t, values))
		if !slices.Equal(a, b) {
			t.Errorf("%s: twice the same gives two results", values)
		}
	}
}

func withoutSecrets(text string) []string {
	return slices.DeleteFunc(split(text), func(d string) bool { return strings.Contains(d, "\nkind: Secret\n") })
}

// split parts a file into its documents.
func split(text string) []string {
	var all []string
	for d := range strings.SplitSeq("\n"+text, "\n---") {
		if strings.TrimSpace(d) != "" {
			all = append(all, "\n"+strings.TrimSpace(d)+"\n")
		}
	}
	return all
}
