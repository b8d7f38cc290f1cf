package mover_test

import (
	"testing"

	"datamove.dev/mover"
)

// TestTypeOfName: an ending says the type, in any case; what says nothing, or is all of a name, says none.
func TestTypeOfName(t *testing.T) {
	for name, want := range map[string]string{
		"site/index.html": "text/html", "A.HTML": "text/html", "data.json": "application/json", "app.min.js": "text/javascript", "a.tar.gz": "application/gzip",
		"": "", "html": "", ".html": "", "d.html/": "text/html", "d.html/f": "", "f.": "", "f.bin": "", "f.pt": "", "step.12": "",
	} {
		if got := mover.TypeOfName(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}
