package cli

import (
	"testing"
)

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"/a/b-1.tar": "/a/b-1.tar", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'", "*": "'*'"} {
		if got := ShellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
