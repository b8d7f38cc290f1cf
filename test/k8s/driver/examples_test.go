package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/k8s"
	"datamove.dev/test/must"
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
	must.Do(t, os.MkdirAll(filepath.Join(s.bucket, "imagenet"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(s.bucket, "imagenet/0.tar"), []byte("images"), 0o644))
	s.dataset("public-imagenet", "archive:imagenet")
	s.Kubectl("create", "namespace", "team-vision")
	must.Do(t, os.Mkdir(filepath.Join(s.lab, "vision"), 0o777))
	must.Do(t, os.Chmod(filepath.Join(s.lab, "vision"), 0o777))
	files := must.Get(filepath.Glob(module + "/deploy/examples/*.yaml"))(t)
	for _, file := range files {
		switch filepath.Base(file) {
		case "jupyterhub-values.yaml", "skypilot.yaml", "skypilot-volume.yaml": // for other programs, which make the two pods of them
			continue
		case "bench.yaml": // ends: see bench
			continue
		}
		text := must.Get(os.ReadFile(file))(t)
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
	s.bench()
}

// bench applies the example of the load generator, for two nodes and with little to do. There is no DNS here: who joins has the address of the pod for the name of the Service.
func (s *site) bench() {
	text := must.Get(os.ReadFile(module + "/deploy/examples/bench.yaml"))(s.T)
	small := strings.NewReplacer("image: datamove.dev/datamove:v0.1.0", "image: datamove.dev/datamove:0.1.0", "--nodes=4", "--nodes=2", ": 4 #", ": 2 #", "completions: 4", "completions: 2", "--size=8GiB", "--size=4MiB",
		"--repeats=5", "--repeats=3", "storage: 500Gi", "storage: 200Mi", `cpu: "4"`, "cpu: 100m").Replace(string(text))
	first, nodes, found := strings.Cut(small, "---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: bench-nodes\n")
	if !found {
		s.Fatal("the example has no Job bench-nodes")
	}
	s.Kubectl("create", "secret", "generic", "bench", "--from-literal=secret=0123456789abcdef0123456789abcdef")
	s.Apply(first)
	address := ""
	s.Eventually("who conducts has an address", 2*time.Minute, func() (err error) {
		address, err = s.Try("get", "pods", "-l", "app=bench", "-o", "jsonpath={.items[*].status.podIP}")
		if err == nil && address == "" {
			err = errors.New("none")
		}
		return err
	})
	s.Apply("apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: bench-nodes\n" + strings.Replace(nodes, "bench:7311", address+":7311", 1))
	for job, pods := range map[string]string{"bench": "1", "bench-nodes": "2"} {
		s.Eventually("the pods of "+job+" are done", 2*time.Minute, func() error {
			out, err := s.Try("get", "job", job, "-o", "jsonpath={.status.succeeded}")
			if err == nil && out != pods {
				log, _ := s.Try("logs", "job/"+job)
				err = fmt.Errorf("%q of them: %s", out, log)
			}
			return err
		})
	}
	if log := s.Kubectl("logs", "job/bench"); !regexp.MustCompile(`(?m)^ +verify +2 +16 +3 `).MatchString(log) {
		s.Errorf("it says\n%s", log)
	}
	var left []string
	must.Do(s.T, filepath.WalkDir(s.lab, func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); name == "run.json" || strings.HasPrefix(name, "datamove-bench-") {
			left = append(left, name)
		}
		return err
	}))
	if !slices.Equal(left, []string{"run.json"}) {
		s.Errorf("%q are left", left)
	}
}
