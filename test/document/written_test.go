package document

import (
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"datamove.dev/bench/roofline"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
	"datamove.dev/tiering/policy"
)

const root = "../.."

// disguised is a line of a block of text that is a command.
var disguised = regexp.MustCompile(`^\s*([a-z0-9]*[$#] )?(datamove|datamoved|datamove-bench|kubectl|helm|systemctl|make) [a-z-]`)

// TestWritten: the blocks of each document have a language, what is a command is not called a text, and what is YAML is what its reader takes.
func TestWritten(t *testing.T) {
	files, kinds, commands := must.Get(Written(root))(t), map[string]int{}, 0
	for _, file := range files {
		blocks, err := Read(root, file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, b := range blocks {
			commands += len(b.Commands())
			switch b.Language {
			case Text:
				for line := range strings.Lines(b.Text) {
					if disguised.MatchString(line) {
						t.Errorf("%s: %q is a command in a block of text; use %s or %s", b, line, Console, Shell)
					}
				}
			case Console:
				if len(b.Commands()) == 0 {
					t.Errorf("%s: a block of the language %s has no command", b, Console)
				}
			case YAML:
				kind, err := understood(b.Text)
				if err != nil {
					t.Errorf("%s: %s: %v", b, kind, err)
				}
				kinds[kind]++
			}
		}
	}
	if kinds["configuration"] < 1 || commands < 50 {
		t.Errorf("found %d commands, and %v", commands, kinds)
	}
}

// understood has a file in YAML read by what reads it at a site.
func understood(text string) (kind string, err error) {
	var head struct {
		Kind       string `yaml:"kind"`
		APIVersion string `yaml:"apiVersion"`
	}
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		return "YAML", err
	}
	switch {
	case head.APIVersion != "" && head.APIVersion != "datamove.dev/v1":
		return "Kubernetes", nil // test/deploy has it
	case head.Kind == "TierPolicy":
		_, err = policy.Read("document", []byte(text))
	case head.Kind == "Burst":
		_, err = burst.Read("document", []byte(text))
	case head.Kind == "BurstAdmission":
		_, err = burst.ReadAdmission("document", []byte(text))
	case head.Kind == "PriceBook":
		_, err = pricing.Read("document", []byte(text))
	case head.Kind == "Cluster":
		_, err = roofline.Read("document", []byte(text), nil)
	default:
		_, err = config.Parse("document", []byte(text), func(string) string { return "" })
		return "configuration", err
	}
	return head.Kind, err
}

func TestUnderstood(t *testing.T) {
	for _, row := range []struct{ text, err string }{
		{"tiers: {warm: {level: hot, path: /a}}", ""},
		{"tiers: {warm: {level: warmer, path: /a}}", "warmer"},
		{"tires: {}", "tires"},
		{"kind: TierPolicy\nmetadata: {name: a}\nspec: {}\n", "spec"},
		{"kind: Burst\n", "metadata"},
		{"a: [", "did not find"},
	} {
		_, err := understood(row.text)
		if (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%q: %v, want %q", row.text, err, row.err)
		}
	}
}
