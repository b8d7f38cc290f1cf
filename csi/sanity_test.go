package csi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// unsound are what csi-sanity 5.6.0 gets wrong, and where it is tested instead.
var unsound = []string{
	// It compares messages with reflect.DeepEqual, and so what protobuf keeps in them for itself. TestScratchRoom looks at topologies.
	"should succeed when creating a snapshot with accessibility requirements",
}

// inapplicable are what a type of volume can not be asked, though the driver can do it for others.
var inapplicable = map[volume.Kind][]string{
	// It is only read, is as large as it is, begins with nothing else, and is listed where it is: by the mover.
	volume.Dataset: {"Snapshot", "ExpandVolume", "ModifyVolume", "existing source", "source snapshot", "source volume", "different capacity", "presence of new volumes"},
}

// withheld is what csi-sanity leaves out, and why.
var withheld = map[string]string{
	"GroupControllerService not supported":              "a snapshot of several volumes at one moment: file systems have none",
	"ControllerPublishVolume not supported":             "nothing has to be attached to a node",
	"ControllerUnpublishVolume not supported":           "nothing has to be attached to a node",
	"Controller Publish, UnpublishVolume not supported": "nothing has to be attached to a node",
}

// TestSanity: what the community's tests of drivers ask, for each type of volume.
func TestSanity(t *testing.T) {
	program, err := exec.LookPath("csi-sanity")
	if err != nil || !seed.Soak() {
		t.Skip("elsewhere: make soak: needs csi-sanity: test/setup soak installs it")
	}
	for _, kind := range []volume.Kind{volume.Project, volume.Scratch, volume.Dataset} {
		t.Run(string(kind), func(t *testing.T) {
			r := rigged(t)
			r.separately()
			parameters := fmt.Sprintf("{type: %s}", kind)
			if kind == volume.Dataset {
				r.staging()
				r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"*"}, Sources: []string{"dataset:train"}})
				parameters = "{type: dataset, dataset: train, tier: scratch}"
			}
			dir := t.TempDir()
			reaper, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); r.driver.Reap(reaper, time.Minute) }()
			defer func() { stop(); <-ended }()
			for name, text := range map[string]string{"parameters": parameters, "mutable": map[volume.Kind]string{volume.Project: `{trash: 1h}`}[kind]} {
				must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			args := []string{"--csi.endpoint=unix://" + r.socket, "--csi.mountdir=" + filepath.Join(r.pods, "mount"), "--csi.stagingdir=" + filepath.Join(r.pods, "staging"), "--csi.testvolumesize=41943040", "--csi.testvolumeexpandsize=83886080",
				"--csi.testvolumeparameters=" + filepath.Join(dir, "parameters"), "--csi.testvolumemutableparameters=" + filepath.Join(dir, "mutable"), "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.skip=" + strings.Join(append(unsound, inapplicable[kind]...), "|")}
			out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, skipped := range regexp.MustCompile(`(?m)^ *\[SKIPPED\] (?:in \[.*)?(.*)$`).FindAllStringSubmatch(string(out), -1) {
				if why := skipped[1]; why != "" && withheld[why] == "" {
					t.Errorf("csi-sanity left out: %s", why)
				}
			}
			t.Logf("%s", regexp.MustCompile(`Ran .* Specs|.*Passed.*`).FindAllString(string(out), -1))
		})
	}
}
