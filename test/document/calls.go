package document

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// inline is what a sentence has as code.
var inline = regexp.MustCompile("`([^`\n]+)`")

// Calls are the texts of a document in which commands are called: those of its blocks, whether they run or not, and what is code in a sentence.
func Calls(root, file string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	blocks, err := Blocks(file, string(text))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, b := range blocks {
		for _, c := range b.Commands() {
			found = append(found, strings.ReplaceAll(c.Text, "\\\n", " "))
		}
	}
	for _, m := range inline.FindAllStringSubmatch(Prose(string(text)), -1) {
		found = append(found, m[1])
	}
	return found, nil
}

// Prose is a text without its blocks.
func Prose(text string) string {
	var b strings.Builder
	in := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		switch {
		case in != "" && trimmed == in:
			in = ""
		case in != "":
		case strings.HasPrefix(trimmed, "```"):
			in = "```"
		case trimmed == "<!-- run":
			in = "-->"
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}
