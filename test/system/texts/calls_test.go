package texts

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/document"
	"datamove.dev/test/must"
)

// call is one of a program that is not datamove, whose calls cmd/datamove/root TestDocumentsCommands has: words up to what ends a command of a shell.
var call = regexp.MustCompile(`(?m)(?:^\s*|[|;&(]\s*|-- |(?:sudo|exec|then|do) +)(?:[A-Z_]+=\S* +)*(datamoved|datamove-bench)((?: +[^\s;|&)>]+)*)`)

// TestCalls: each call of datamoved and datamove-bench in a document, in a block that runs or not and in a sentence, is of a command that there is, with flags that it has.
func TestCalls(t *testing.T) {
	helps := map[string]string{}
	help := func(words ...string) (string, bool) {
		key := strings.Join(words, " ")
		if text, ok := helps[key]; ok {
			return text, text != ""
		}
		out, err := exec.Command(must.Get(rig.Executable(words[0]))(t), append(words[1:], "--help")...).CombinedOutput()
		if err != nil {
			out = nil
		}
		helps[key] = string(out)
		return helps[key], err == nil
	}
	found := 0
	for _, file := range must.Get(document.Written(root))(t) {
		for _, text := range must.Get(document.Calls(root, file))(t) {
			for _, m := range call.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(m[2])
				program := []string{m[1]}
				if len(words) > 0 && regexp.MustCompile(`^[a-z-]+$`).MatchString(words[0]) && !strings.HasPrefix(words[0], "-") {
					program = append(program, words[0])
				}
				said, ok := help(program...)
				if !ok || len(program) > 1 && !strings.Contains(said, strings.Join(program, " ")) {
					t.Errorf("%s: there is no command %s", file, strings.Join(program, " "))
					continue
				}
				found++
				for _, word := range words {
					flag, _, _ := strings.Cut(word, "=")
					if strings.HasPrefix(flag, "--") && flag != "--" && !regexp.MustCompile(regexp.QuoteMeta(flag)+`\b`).MatchString(said) {
						t.Errorf("%s: %s has no flag %s", file, filepath.Join(program...), flag)
					}
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d calls are found", found)
	}
}
