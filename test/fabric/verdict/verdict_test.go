package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/test/must"
)

func TestUsage(t *testing.T) {
	here := filepath.Join(t.TempDir(), "x")
	must.Do(t, os.WriteFile(here, []byte("#!/bin/sh\n"), 0o755))
	binaries := []string{"-bench", here, "-store", here}
	o, err := parse(append(binaries, "-agents", "3", "-load", "--ranks=1 --size=5MiB"))
	if err != nil || o.storage.Nodes() != 19 || len(o.storage.Flags) != 2 || o.target != 125e6 {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-agents", "0"}, {"-servers", "200"}, {"-server-mbit", "0"}, {"-target", "-1"}, {"-store", here + "y"}, {"-x"}} {
		if err := run(t.Context(), append(binaries, args...), io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
