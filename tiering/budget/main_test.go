package budget

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	os.Exit(m.Run())
}
