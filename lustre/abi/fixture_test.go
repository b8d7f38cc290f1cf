package abi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is one of the files in testdata, without ".bin".
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".bin"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// layouts are the names of all fixtures that are layouts.
func layouts(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"lov-*.bin", "lfs-xattr-*.bin"} {
		found, err := filepath.Glob(filepath.Join("testdata", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %d files", pattern, err, len(found))
		}
		for _, path := range found {
			names = append(names, strings.TrimSuffix(filepath.Base(path), ".bin"))
		}
	}
	return names
}
