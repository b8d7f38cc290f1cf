package driver

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/k8s"
)

// fitting makes an example one for this site: a worker for each program, sizes that two small nodes have, and no GPUs.
func fitting(text string) string {
	for pattern, with := range map[string]string{
		`(?m)^( +)(- name: \S+\n +)?image: .*$`:        `${1}${2}image: "` + k8s.Worker + `"`,
		`(?m)^( +)(command|args): \[.*$`:               `${1}args: [pause]`,
		`(?m)^ +(requests: {cpu:|limits: {nvidia).*\n`: ``,
		`storage: \d+[GT]i`:                            `storage: 20Mi`,
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return text
}

// TestExamples: each example is applied as it is, but for what fitting says, and its pods can read their datasets and write to all else.
func TestExamples(t *testing.T) {
	s := install(t)
	must(t, os.MkdirAll(filepath.Join(s.bucket, "imagenet"), 0o755))
	must(t, os.WriteFile(filepath.Join(s.bucket, "imagenet/0.tar"), []byte("images"), 0o644))
	s.dataset("public-imagenet", "archive:imagenet")
	s.Kubectl("create", "namespace", "team-vision")
	must(t, os.Mkdir(filepath.Join(s.lab, "vision"), 0o777))
	must(t, os.Chmod(filepath.Join(s.lab, "vision"), 0o777))
	files, err := filepath.Glob(module + "/deploy/examples/*.yaml")
	must(t, err)
	for _, file := range files {
		switch filepath.Base(file) {
		case "jupyterhub-values.yaml", "skypilot.yaml", "skypilot-volume.yaml": // for other programs, which make the two pods of them
			continue
		}
		text, err := os.ReadFile(file)
		must(t, err)
		s.Apply(fitting(string(text)))
	}
	s.Apply(pod("experiments", "", map[string]string{"before": claimed("experiments"), "again": claimed("experiments-again"), "imagenet": claimed("imagenet")}) +
		strings.Replace(pod("vision", "", map[string]string{"vision": claimed("vision")}), "name: vision}", "name: vision, namespace: team-vision}", 1))
	s.Eventually("all claims are bound", 2*time.Minute, s.none("pvc", `{range .items[?(@.status.phase!="Bound")]}{.metadata.name} {.status.phase} {end}`))
	s.Eventually("all pods run", 3*time.Minute, s.none("pods", `{range .items[?(@.status.phase!="Running")]}{.metadata.name} {.status.phase} {end}`))
	pods := strings.Fields(s.Kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(pods) < 5 {
		t.Errorf("only %s", pods)
	}
	for _, pod := range pods {
		mounts := s.Kubectl("get", "pod", pod, "-o", `jsonpath={range .spec.containers[0].volumeMounts[*]}{.mountPath} {end}`)
		for _, at := range strings.Fields(mounts) {
			switch {
			case strings.HasPrefix(at, "/var/run/secrets/"), at == "/code": // of a ConfigMap
			case strings.Contains(at, "dataset") || strings.Contains(at, "imagenet"):
				if out, err := s.in(pod, "read", at+"/0.tar"); err != nil || out != "images" {
					t.Errorf("%s reads %s: %q, %v", pod, at, out, err)
				}
			default:
				if out, err := s.in(pod, "write", at+"/of-"+pod, pod); err != nil {
					t.Errorf("%s writes to %s: %s, %v", pod, at, out, err)
				}
			}
		}
	}
	if out, err := s.Try("-n", "team-vision", "exec", "vision", "--", "/worker", "write", "/vision/note", "was here"); err != nil {
		t.Errorf("a directory that was there before: %s, %v", out, err)
	}
	if text, err := os.ReadFile(filepath.Join(s.lab, "vision/note")); err != nil || string(text) != "was here" {
		t.Errorf("%q, %v", text, err)
	}
}
