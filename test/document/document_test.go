package document

import (
	"strings"
	"testing"
)

func TestBlocks(t *testing.T) {
	for _, row := range []struct{ name, text, want, err string }{
		{"a session", "```console\n$ a b\nout\n$ c\n(exit 3)\n```\n", "2 a b [out] 0; 4 c [] 3", ""},
		{"a command of several lines, and a prompt of another machine", "```console\nn7# cat <<END\n> x\n> END\nx\n```\n", "2 cat <<END|x|END [x] 0", ""},
		{"what is printed may look like a prompt", "```console\n$ a\n- $ 5\n```\n", "2 a [- $ 5] 0", ""},
		{"shown before any command is an error of the run", "```console\nout\n```\n", "2 : [out] 0", ""},
		{"commands alone", "```sh\na\nb\n```\n", "2 a|b [] 0", ""},
		{"hidden", "<!-- run\na\n-->\n", "2 a [] 0", ""},
		{"in a list", "- x\n\n  ```sh\n  a\n  ```\n", "4 a [] 0", ""},
		{"not run", "```sh not-run: needs Slurm\na\n```\n", "2 a [] 0 needs Slurm", ""},
		{"without a reason", "```sh not-run: \na\n```\n", "", "neither"},
		{"a file is read always", "```yaml not-run: so\na: b\n```\n", "", "neither"},
		{"no language", "```\na\n```\n", "", `the language "" of a block`},
		{"set off by blanks", "x\n\n    $ a\n", "", "x.md:3: a block that is set off by blanks"},
		{"more of a list is none", "- x\n\n    more\n", "", ""},
		{"without an end", "```sh\na\n", "", "does not end"},
	} {
		blocks, err := Blocks("x.md", row.text)
		if row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) || row.err == "" && err != nil {
			t.Errorf("%s: %v, want %s", row.name, err, row.err)
		}
		var got []string
		for _, b := range blocks {
			for _, c := range b.Commands() {
				got = append(got, strings.TrimSpace(strings.Join([]string{num(c.Line), strings.ReplaceAll(strings.TrimSpace(c.Text), "\n", "|"), "[" + strings.Join(c.Said, "|") + "]", num(c.Code), b.NotRun}, " ")))
			}
		}
		if s := strings.Join(got, "; "); s != row.want {
			t.Errorf("%s: %q, want %q", row.name, s, row.want)
		}
	}
}

func num(n int) string { return string(rune('0' + n)) }

func TestMatch(t *testing.T) {
	for _, row := range []struct {
		name, shown, printed string
		same                 bool
	}{
		{"nothing", "", "", true},
		{"times and rates vary", "copied 3 files, 18 B in 0.42s, 42.9 B/s", "copied 3 files, 18 B in 1m03s, 18 B/s", true},
		{"counts do not", "copied 3 files, 18 B in 0.42s, 42.9 B/s", "copied 4 files, 18 B in 0.42s, 42.9 B/s", false},
		{"sizes do not", "copied 3 files, 18 B in 0.42s", "copied 3 files, 18 MiB in 0.42s", false},
		{"words do not", "a: content differs", "a: missing", false},
		{"columns", "NAME   STATE", "NAME STATE", true},
		{"ids and digests", "01m81m36hztzjn5wptx3 x@db8221afcde1", "01m86zbh2pcng82fw3n9 x@0123456789ab", true},
		{"a word is no id", "running", "01m86zbh2pcng82fw3n9", false},
		{"lines that are left out", "a\n...\nd", "a\nb\nc\nd", true},
		{"and those after them", "a\n...\nd", "a\nb\nc", false},
		{"text that is left out", "a ... d", "a b c d", true},
		{"and what is around it", "a ... d", "a b c e", false},
		{"too much", "a", "a\nb", false},
		{"too little", "a\nb", "a", false},
	} {
		err := Match(lines(row.shown), lines(row.printed))
		if (err == nil) != row.same {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// FuzzMatch: a text is like itself, and like nothing that has a line more.
func FuzzMatch(f *testing.F) {
	f.Add("copied 3 files\nin 0.42s")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, Rest) || len(text) > 200 {
			return
		}
		all := lines(text)
		if err := Match(all, all); err != nil {
			t.Error(err)
		}
		if err := Match(all, append([]string{"one more"}, all...)); err == nil {
			t.Error("a line more is not seen")
		}
	})
}
