package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	yaml "go.yaml.in/yaml/v3"

	"datamove.dev/test/must"
)

// promtool runs it in deploy/monitoring.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool, of the Debian package prometheus")
	}
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir, cmd.Stdin = root, strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestRulesAreValid(t *testing.T) {
	promtool(t, "", "check", "rules", "--lint-fatal", "alerts.yaml")
}

// TestRulesDoWhatTheySay runs each file of tests with the groups of rules that it is about: promtool evaluates all that it is given, for each minute of each test.
func TestRulesDoWhatTheySay(t *testing.T) {
	var rules struct{ Groups []group }
	parse(t, "alerts.yaml", &rules)
	files := must.Get(filepath.Glob(filepath.Join(root, "tests", "*.yaml")))(t)
	dir, args := t.TempDir(), []string{"test", "rules"}
	for _, file := range files {
		var content struct{ Tests []ruleTest }
		parse(t, filepath.Join("tests", filepath.Base(file)), &content)
		asked := words{}
		for _, test := range content.Tests {
			for _, a := range test.Alerts {
				asked[a.Alertname] = true
			}
		}
		about := slices.DeleteFunc(slices.Clone(rules.Groups), func(g group) bool {
			return !slices.ContainsFunc(g.Rules, func(rule map[string]any) bool { name, is := rule["alert"].(string); return is && asked[name] })
		})
		only := must.Get(yaml.Marshal(map[string]any{"groups": about}))(t)
		text := must.Get(os.ReadFile(file))(t)
		const all = "rule_files: [../alerts.yaml]"
		if !strings.Contains(string(text), all) {
			t.Fatalf("%s has no line %q", file, all)
		}
		name := filepath.Join(dir, filepath.Base(file))
		must.Do(t, os.WriteFile(name+".rules", only, 0o600))
		must.Do(t, os.WriteFile(name, []byte(strings.Replace(string(text), all, "rule_files: ["+name+".rules]", 1)), 0o600))
		args = append(args, name)
	}
	promtool(t, "", args...)
}

// group is one of alerts.yaml, as it is.
type group struct {
	Name  string           `yaml:"name"`
	Rules []map[string]any `yaml:"rules"`
	Rest  map[string]any   `yaml:",inline"`
}

func TestExampleOfPrometheus(t *testing.T) { promtool(t, "", "check", "config", "prometheus.yml") }

func TestScrapeIsClean(t *testing.T) { promtool(t, scraped(t), "check", "metrics") }

// input is a series for promtool.
type input struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

// question is an expression for promtool, with what it has to answer.
type question struct {
	Expr    string   `yaml:"expr"`
	EvalAt  string   `yaml:"eval_time"`
	Samples []string `yaml:"exp_samples"`
}

// No panel stays empty on a site where everything has happened: promtool evaluates
// each expression on the series of a scrape, and absent() of it has to be nothing.
func TestEveryPanelShowsSomething(t *testing.T) {
	var questions []question
	for _, d := range dashboards(t) {
		for _, expr := range d.exprs() {
			questions = append(questions, question{Expr: "absent(" + expr + ")", EvalAt: "50m"})
		}
	}
	file := map[string]any{"evaluation_interval": "1m", "tests": []any{map[string]any{
		"interval": "1m", "input_series": growing(scraped(t)), "promql_expr_test": questions,
	}}}
	text := must.Get(yaml.Marshal(file))(t)
	name := filepath.Join(t.TempDir(), "panels.yaml")
	must.Do(t, os.WriteFile(name, text, 0o600))
	promtool(t, "", "test", "rules", name)
}

// growing are the series of a scrape, for an hour: gauges stay, and all that is counted
// grows by its value each minute.
func growing(scrape string) []input {
	all := []input{{`up{job="datamove", role="coordinator", instance="mover-1"}`, "1x60"}}
	kinds := map[string]string{}
	for line := range strings.SplitSeq(scrape, "\n") {
		if words := strings.Fields(line); len(words) == 4 && words[1] == "TYPE" {
			kinds[words[2]] = words[3]
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				kinds[words[2]+part] = words[3]
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		labels := strings.TrimPrefix(m[2]+`,job="datamove",role="coordinator",instance="mover-1"`, ",")
		values := fmt.Sprintf("0+%sx60", m[3])
		if kinds[m[1]] == "gauge" {
			values = m[3] + "x60"
		}
		all = append(all, input{fmt.Sprintf("%s{%s}", m[1], labels), values})
	}
	return all
}
