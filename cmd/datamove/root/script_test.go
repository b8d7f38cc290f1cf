package root

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/test/script"
)

// TestMain makes this test binary answer as datamove, too, when a script calls it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"datamove": func() { os.Exit(Main("")) }})
}

// TestScripts runs test/script/*.txt, but burst.txt, which wants AWS. Those with servers are in test/system/cli.
func TestScripts(t *testing.T) { script.Run(t, "*.txt", nil, nil, "burst.txt") }
