package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/csi/volume"
	"datamove.dev/test/must"
)

const (
	tableBegins = "<!-- table of csi/volume, written by go test ./test/deploy -run TestReadme -update -->\n"
	tableEnds   = "<!-- end of the table -->\n"
)

// parameters is the table of csi/volume for people.
func parameters() string {
	var b strings.Builder
	fmt.Fprint(&b, "| parameter | of | default | later | meaning |\n|---|---|---|---|---|\n")
	for _, p := range volume.Table() {
		var of []string
		for _, k := range p.Kinds {
			of = append(of, string(k))
		}
		later := ""
		if p.Mutable {
			later = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", p.Name, strings.Join(of, ", "), p.Default, later, p.Help)
	}
	return b.String()
}

// The README of the chart has every parameter that the driver has, as the driver has it.
func TestReadme(t *testing.T) {
	file := filepath.Join(chart, "README.md")
	text := must.Get(os.ReadFile(file))(t)
	before, rest, ok := strings.Cut(string(text), tableBegins)
	table, after, ends := strings.Cut(rest, tableEnds)
	if !ok || !ends {
		t.Fatal("README.md has no place for the table")
	}
	if *update {
		must.Do(t, os.WriteFile(file, []byte(before+tableBegins+parameters()+tableEnds+after), 0o644))
		return
	}
	if table != parameters() {
		t.Error("the table of README.md is not that of csi/volume: go test ./test/deploy -run TestReadme -update")
	}
}

// Every value has a comment above it or beside it, or stands below one that has.
func TestValuesAreExplained(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join(chart, "values.yaml")))(t)
	plain := map[string]bool{} // names that say all
	for name := range strings.FieldsSeq("enabled replicas resources requests limits nodeSelector tolerations affinity priorityClassName podLabels podAnnotations updateStrategy image repository pullPolicy extraArgs size type annotations service port labels interval imagePullSecrets extraVolumes extraVolumeMounts controller node coordinator agent mover driver provisioner resizer") {
		plain[name] = true
	}
	above := ""
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		name, _, isValue := strings.Cut(trimmed, ":")
		if isValue && !strings.HasPrefix(trimmed, "#") && !plain[name] && !strings.HasPrefix(above, "#") && !strings.Contains(trimmed, " #") {
			t.Errorf("%s is explained by nobody", name)
		}
		above = trimmed
	}
}

// What documents name below the tree is there.
func TestLinks(t *testing.T) {
	for _, file := range []string{filepath.Join(chart, "README.md"), filepath.Join(plain, "README.md"), filepath.Join(examples, "README.md")} {
		text := must.Get(os.ReadFile(file))(t)
		for _, part := range strings.Split(string(text), "](")[1:] {
			target, _, _ := strings.Cut(part, ")")
			target, _, _ = strings.Cut(target, "#")
			if strings.HasPrefix(target, "http") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), target)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
