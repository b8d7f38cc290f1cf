package daemon

import (
	"context"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"datamove.dev/api"
	"datamove.dev/test/patience"
	"datamove.dev/test/script"
)

// TestScripts runs test/script/datamoved/*.txt, which read as a manual of the service.
func TestScripts(t *testing.T) {
	script.Run(t, "datamoved/*.txt", nil, script.Commands{"answers": answers})
}

// answers is a command of scripts: answers SOCKET waits until a service does.
func answers(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) != 1 {
		ts.Fatalf("usage: answers socket")
	}
	there := patience.While(patience.New(nil), func() bool {
		c, err := api.Dial(context.Background(), "unix://"+ts.MkAbs(args[0]), api.Options{})
		return err == nil && c.Close() == nil
	})
	if !there {
		ts.Fatalf("%s does not answer", args[0])
	}
}
