package monitoring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/test/must"
)

const (
	root   = "../../deploy/monitoring"
	runURL = "https://datamove.dev/deploy/monitoring/RUNBOOK.md#"
)

// alert is one rule of alerts.yaml.
type alert struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func parse(t *testing.T, file string, into any) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(root, file)))(t)
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	parse(t, "alerts.yaml", &file)
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 20 {
		t.Fatalf("%d alerts", len(all))
	}
	return all
}

func TestAlertsUseWhatIsThere(t *testing.T) {
	k := learn(scraped(t) + volumesScraped(t) + checkpointsScraped(t))
	for _, a := range alerts(t) {
		for _, wrong := range k.check(a.Expr) {
			t.Errorf("%s: %s", a.Alert, wrong)
		}
	}
}

func TestAlertsAreComplete(t *testing.T) {
	seen := words{}
	for _, a := range alerts(t) {
		if !strings.HasPrefix(a.Alert, "Datamove") || seen[a.Alert] {
			t.Errorf("%q is no name for an alert, or there twice", a.Alert)
		}
		seen[a.Alert] = true
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s says nothing", a.Alert)
		}
		if got, want := a.Annotations["runbook_url"], runURL+strings.ToLower(a.Alert); got != want {
			t.Errorf("%s: runbook_url is %s, want %s", a.Alert, got, want)
		}
	}
}

// ruleTest is one test of promtool.
type ruleTest struct {
	Name        string
	InputSeries []struct{ Series string } `yaml:"input_series"`
	Alerts      []struct {
		Alertname string
		Expected  []struct {
			Labels map[string]string `yaml:"exp_labels"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

func ruleTests(t *testing.T) []ruleTest {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no tests of rules", err)
	}
	var all []ruleTest
	for _, file := range files {
		var content struct{ Tests []ruleTest }
		parse(t, filepath.Join("tests", filepath.Base(file)), &content)
		all = append(all, content.Tests...)
	}
	return all
}

// Each alert has a test in which it fires and one in which it does not, on series that
// there are.
func TestAlertsAreTested(t *testing.T) {
	k := learn(scraped(t) + volumesScraped(t) + checkpointsScraped(t))
	fires, quiet := words{}, words{}
	for _, test := range ruleTests(t) {
		for _, s := range test.InputSeries {
			for _, wrong := range k.check(s.Series) {
				t.Errorf("%s: %s", test.Name, wrong)
			}
		}
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Alertname] = true
			} else {
				quiet[a.Alertname] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !quiet[a.Alert] {
			t.Errorf("%s: fires in a test: %v, is quiet in one: %v", a.Alert, fires[a.Alert], quiet[a.Alert])
		}
	}
}
