package client

import (
	"embed"
	"testing"

	"datamove.dev/test/must"
)

// recorded is what programs of a real Lustre printed. It is part of the test binary, which
// runs where there is no source.
//
//go:embed testdata/*.txt
var recorded embed.FS

func record(t testing.TB, name string) string {
	t.Helper()
	b := must.Get(recorded.ReadFile("testdata/" + name + ".txt"))(t)
	return string(b)
}
