package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
)

// TestDatasets: what is in a bucket is on the node before a pod starts, once for all its pods, read-only; events and annotations
// say so; and it is nobody's who was not granted it.
func TestDatasets(t *testing.T) {
	s := install(t)
	must.Do(t, os.MkdirAll(filepath.Join(s.bucket, "train"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(s.bucket, "train/sample"), []byte("a sample"), 0o644))
	s.dataset("train", "archive:train")
	train := ""
	for _, class := range []string{"train", "train-later"} { // the second one waits until the scheduler has chosen a node, by the room there
		train += fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %[1]s}, spec: {storageClassName: %[1]s, accessModes: [ReadOnlyMany], resources: {requests: {storage: 10Ti}}}}\n---\n", class)
	}
	s.Apply(train + pod("later", "nodeSelector: {kubernetes.io/hostname: node2},", map[string]string{"train": claimed("train-later")}) + pod("one", "nodeName: node2,", map[string]string{"train": claimed("train")}) +
		pod("inline", "nodeName: node2,", map[string]string{"train": "csi: {driver: csi.datamove.dev, readOnly: true, volumeAttributes: {dataset: train, tier: cache}}"}) +
		pod("denied", "nodeName: node2,", map[string]string{"other": "csi: {driver: csi.datamove.dev, readOnly: true, volumeAttributes: {dataset: other}}"}))
	for _, name := range []string{"one", "later", "inline"} {
		s.runs(name)
		if out, err := s.in(name, "read", "/train/sample"); err != nil || out != "a sample" {
			t.Errorf("%q, %v", out, err)
		}
		if out, err := s.in(name, "write", "/train/sample", "mine"); err == nil || !strings.Contains(out+err.Error(), "EROFS") {
			t.Errorf("it was changed: %s, %v", out, err)
		}
	}
	s.Eventually("events and annotations say it", time.Minute, func() error {
		events, err := s.Try("get", "events", "-o", `jsonpath={range .items[*]}{.involvedObject.name} {.reason} {.message}{"\n"}{end}`)
		if err != nil {
			return err
		}
		on, err := s.Try("get", "pvc", "train", "-o", `jsonpath={.metadata.annotations.csi\.datamove\.dev/staged-on}`)
		if err != nil {
			return err
		}
		version, err := s.Try("get", "pvc", "train", "-o", `jsonpath={.metadata.annotations.csi\.datamove\.dev/version}`)
		switch {
		case err != nil:
			return err
		case len(version) != 64, !strings.Contains(events, "one Staged dataset:train@"+version+" is on this node"), !strings.Contains(events, "denied FailedMount") || !strings.Contains(events, "no grant"):
			return errors.New(events)
		case on != "node2":
			return fmt.Errorf("it is said to be on %q", on)
		}
		return nil
	})
	must.Do(t, os.WriteFile(filepath.Join(s.bucket, "train/sample"), []byte("another one"), 0o644))
	s.dataset("train", "archive:train")
	s.Apply(pod("two", "nodeName: node2,", map[string]string{"train": claimed("train")}) +
		pod("newest", "nodeName: node2,", map[string]string{"train": "csi: {driver: csi.datamove.dev, readOnly: true, volumeAttributes: {dataset: train, tier: cache}}"}))
	for name, want := range map[string]string{"two": "a sample", "newest": "another one"} {
		s.runs(name)
		if out, err := s.in(name, "read", "/train/sample"); err != nil || out != want {
			t.Errorf("%s, after the dataset was added anew: %q, %v", name, out, err)
		}
	}
	s.withoutCoordinator()
	if out, err := s.Try("get", "pod", "denied", "-o", "jsonpath={.status.phase}"); err != nil || out != "Pending" {
		t.Errorf("a dataset that nobody granted: %s, %v", out, err)
	}
}

// withoutCoordinator: a pod whose dataset its node had before starts while the coordinator is away, which hears of it later.
func (s *site) withoutCoordinator() {
	s.Helper()
	on := func(want string) func() error {
		return func() error {
			out, err := s.Try("get", "pvc", "train", "-o", `jsonpath={.metadata.annotations.csi\.datamove\.dev/staged-on}`)
			if err == nil && out != want {
				err = fmt.Errorf("it is said to be on %q", out)
			}
			return err
		}
	}
	scaled := func(to string) {
		s.Kubectl("-n", "datamove", "scale", "statefulset/datamove-coordinator", "--replicas="+to)
	}
	s.Kubectl("delete", "pod", "one", "two")
	s.Eventually("no pod has it", time.Minute, on(""))
	scaled("0")
	s.Eventually("the coordinator is away", time.Minute, func() error {
		out, err := s.Try("-n", "datamove", "get", "pods", "-l", "app.kubernetes.io/component=coordinator", "-o", "name")
		if err == nil && out != "" {
			err = errors.New(out)
		}
		return err
	})
	s.Apply(pod("away", "nodeName: node2,", map[string]string{"train": claimed("train")}))
	s.runs("away")
	if out, err := s.in("away", "read", "/train/sample"); err != nil || out != "a sample" {
		s.Errorf("without the coordinator: %q, %v", out, err)
	}
	scaled("1")
	s.Eventually("the coordinator has heard of it", 3*time.Minute, on("node2"))
}
