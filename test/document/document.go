// Package document reads the documents of the tree: which there are, their blocks, and what a session in them shows.
//
// A document is Markdown. Each block of it has a language. Blocks of the languages console and sh run, in their order, as one session of a shell (test/system/texts),
// and what a console block shows after a command is what the command prints ([Match]). A block of YAML is a file that datamove or Kubernetes reads. A block that can
// not run here says so, and why, behind its language: "console not-run: needs Slurm". A comment "<!-- run" has commands that readers need not see.
// "yaml file=PATH" writes the block to that path of the session.
//
// Pages of docs/reference are made of the code, of what it says by reflection and in its comments ([ReadComments]); [Hold] and [HoldTable] have a test fail where one is stale.
//
// TestBlocks, TestMatch, FuzzMatch, TestHold and TestReadComments show it.
package document

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// generated are documents that programs write, and records of what was said at the time.
var generated = []string{"CHANGELOG.md", "bench/RESULTS.md", "bench/SLURM.md",
	"docs/reference/api.md", "docs/reference/cli.md", "docs/reference/configuration.md", "docs/reference/datamove-bench.md", "docs/reference/datamove-csi.md", "docs/reference/datamoved.md",
	"docs/reference/policy.md"}

// Files are the documents below a root, by their paths from there.
func Files(root string) ([]string, error) {
	var found []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "testdata"}, d.Name())):
			return filepath.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, ".md"):
			found = append(found, name)
		}
		return nil
	})
	return found, err
}

// Written are those of the documents that people write.
func Written(root string) ([]string, error) {
	all, err := Files(root)
	return slices.DeleteFunc(all, func(name string) bool { return slices.Contains(generated, name) }), err
}

// Languages of blocks.
const (
	Console = "console" // commands behind a prompt, and what they print
	Shell   = "sh"      // commands
	YAML    = "yaml"
	Text    = "text" // neither commands nor a file: a drawing, or a form
	Hidden  = "run"  // a comment: commands of a session that readers need not see
)

// languages are all that a block may have.
var languages = []string{Console, Shell, YAML, Text, "go", "lua", "python", "json"}

// Block is one of a document.
type Block struct {
	File     string
	Line     int // of its first line of text, from 1
	Language string
	NotRun   string // why it can not run; "" runs
	Path     string // where a session has it as a file; "" nowhere
	Text     string
}

// String says where a block is.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

// Read reads the blocks of a document.
func Read(root, file string) ([]Block, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	return Blocks(file, string(text))
}

// Blocks finds the blocks of a text. Each has a language, and ends; one that is set off by blanks alone is refused, since nothing says what it is.
func Blocks(file, text string) ([]Block, error) {
	var found []Block
	var open *Block
	end, indent, blank, list := "", "", true, false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		info, fence := strings.CutPrefix(trimmed, "```")
		switch {
		case open != nil && strings.TrimSpace(line) == end:
			found, open = append(found, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case trimmed == "<!-- run":
			open, end, indent = &Block{File: file, Line: i + 2, Language: Hidden}, "-->", ""
		case fence:
			b, err := opened(info)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			b.File, b.Line = file, i+2
			open, end, indent = &b, "```", line[:len(line)-len(trimmed)]
		case strings.HasPrefix(line, "    ") && blank && !list:
			return nil, fmt.Errorf("%s:%d: a block that is set off by blanks has no language; use ``` and one of %v", file, i+1, languages)
		}
		if trimmed != "" && trimmed == line {
			list = strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "* ") || (line[0] >= '0' && line[0] <= '9')
		}
		blank = trimmed == ""
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block of line %d does not end", file, open.Line)
	}
	return found, nil
}

// opened reads what stands behind the ``` of a block.
func opened(info string) (Block, error) {
	language, rest, _ := strings.Cut(info, " ")
	b := Block{Language: language}
	if !slices.Contains(languages, language) {
		return b, fmt.Errorf("the language %q of a block is not one of %v", language, languages)
	}
	reason, marked := strings.CutPrefix(rest, "not-run: ")
	path, named := strings.CutPrefix(rest, "file=")
	switch {
	case rest == "":
	case marked && reason != "" && (language == Console || language == Shell):
		b.NotRun = reason
	case named && path != "" && !strings.Contains(path, " "):
		b.Path = path
	default:
		return b, fmt.Errorf("%q behind the language of a block is neither \"not-run: REASON\" nor \"file=PATH\"", rest)
	}
	return b, nil
}

// Command is one of a session, and what it prints.
type Command struct {
	Line int
	Text string   // may have several lines
	Said []string // nil is not compared: the block shows commands alone
	Code int      // how it ends
}

// Commands are those of a block of commands.
func (b Block) Commands() []Command {
	if b.Language == Shell || b.Language == Hidden {
		return []Command{{Line: b.Line, Text: b.Text}}
	}
	if b.Language != Console {
		return nil
	}
	var found []Command
	for i, line := range strings.Split(strings.TrimSuffix(b.Text, "\n"), "\n") {
		if words, ok := prompted(line); ok {
			found = append(found, Command{Line: b.Line + i, Text: words + "\n", Said: []string{}})
			continue
		}
		if len(found) == 0 {
			found = append(found, Command{Line: b.Line, Text: ":\n", Said: []string{}}) // so that it is red
		}
		c := &found[len(found)-1]
		if more, ok := strings.CutPrefix(line, "> "); ok && len(c.Said) == 0 {
			c.Text += more + "\n"
		} else if n, err := fmt.Sscanf(line, "(exit %d)", &c.Code); n != 1 || err != nil {
			c.Said = append(c.Said, line)
		}
	}
	return found
}

// prompted takes the prompt from a line: "$ ", "# ", or one of another machine as "n18# ".
func prompted(line string) (string, bool) {
	host, words, ok := strings.Cut(line, " ")
	if !ok || len(host) == 0 || strings.Trim(host[:len(host)-1], "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return "", false
	}
	return strings.TrimLeft(words, " "), host[len(host)-1] == '$' || host[len(host)-1] == '#'
}
