package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// block is a part of a text that is set off, by a fence or by four spaces.
var block = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```|((?:^    [^\n]*\n)+)")

// What the documents give as an example of a configuration is one.
func TestExamplesOfDocuments(t *testing.T) {
	found := 0
	for _, file := range []string{"README.md", "deploy/systemd/README.md", "deploy/slurm/README.md", "deploy/monitoring/README.md", "deploy/monitoring/RUNBOOK.md"} {
		document := must.Get(os.ReadFile("../../" + file))(t)
		for _, m := range block.FindAllStringSubmatch(string(document), -1) {
			text := m[1] + strings.ReplaceAll("\n"+m[2], "\n    ", "\n")[1:]
			first, _, _ := strings.Cut(text, ":")
			if _, ok := schema.keys[first]; !ok {
				continue
			}
			found++
			if _, err := Parse(file, []byte(text), none); err != nil {
				t.Errorf("%v\nof\n%s", err, text)
			}
		}
	}
	if found < 2 {
		t.Errorf("only %d examples were found", found)
	}
}
