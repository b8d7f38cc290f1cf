package deploy

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"datamove.dev/test/must"
)

const monitoring = "../../deploy/monitoring"

func document(t *testing.T, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

// roles are the words of a label in the rules.
var roles = regexp.MustCompile(`role=~?"([^"]+)"`)

// What is scraped by the chart has the labels that alerts and documents go by, each component its own role; and each
// monitor finds a Service, and that one pods with the port.
func TestMonitors(t *testing.T) {
	all := objects(t, "", render(t, filepath.Join("values", "full.yaml")))
	pods := parts(all)
	told := document(t, "../../docs/guides/monitoring.md")
	seen := map[string]bool{}
	for _, m := range of[*serviceMonitor](all) {
		component := m.Spec.Selector.MatchLabels["app.kubernetes.io/component"]
		set := map[string]string{}
		for _, r := range m.Spec.Endpoints[0].Relabelings {
			set[r.TargetLabel] = r.Replacement
		}
		if set["job"] != "datamove" || set["role"] != component || seen[component] {
			t.Errorf("%s: job %q, role %q", component, set["job"], set["role"])
		}
		if !strings.Contains(told, `role="`+component+`"`) {
			t.Errorf("docs/guides/monitoring.md has no role %q", component)
		}
		seen[component] = true
		services := slices.DeleteFunc(of[*corev1.Service](all), func(s *corev1.Service) bool {
			return !labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(s.Labels))
		})
		if len(services) != 1 || services[0].Spec.Ports[0].Name != m.Spec.Endpoints[0].Port {
			t.Errorf("%s: %d Services", component, len(services))
			continue
		}
		pod := pods[component]
		port := services[0].Spec.Ports[0].TargetPort.String()
		if !labels.SelectorFromSet(services[0].Spec.Selector).Matches(labels.Set(pod.Labels)) ||
			!slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port }) {
			t.Errorf("%s: its Service has no pods with the port %s", component, port)
		}
	}
	if !maps.Equal(seen, map[string]bool{"csi-controller": true, "csi-node": true, "coordinator": true, "agent": true}) {
		t.Errorf("monitors of %v", seen)
	}
	for _, m := range roles.FindAllStringSubmatch(document(t, filepath.Join(monitoring, "alerts.yaml")), -1) {
		for role := range strings.SplitSeq(m[1], "|") {
			if !seen[role] {
				t.Errorf("alerts.yaml asks for role %q, which nothing has", role)
			}
		}
	}
}

// chosen is how the documents choose pods.
var chosen = regexp.MustCompile(`kubectl -n datamove .* -l ('[^']+'|\S+)`)

// What documents choose by labels are pods of the chart.
func TestSelectorsOfDocuments(t *testing.T) {
	pods := parts(objects(t, "", render(t, "")))
	found := 0
	for _, file := range []string{filepath.Join(monitoring, "RUNBOOK.md"), filepath.Join(chart, "README.md"), filepath.Join(plain, "README.md"), filepath.Join(examples, "README.md"), "../../README.md", "../../docs/guides/kubernetes.md"} {
		for _, m := range chosen.FindAllStringSubmatch(document(t, file), -1) {
			found++
			selector, err := labels.Parse(strings.Trim(m[1], "'"))
			if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(pods)), func(p part) bool { return selector.Matches(labels.Set(p.PodTemplateSpec.Labels)) }) {
				t.Errorf("%s: -l %s chooses nothing (%v)", file, m[1], err)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d selectors", found)
	}
}
