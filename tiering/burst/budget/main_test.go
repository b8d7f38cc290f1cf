package budget

import (
	"os"
	"testing"

	"datamove.dev/test/kill"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"reserve": reserve})
	os.Exit(m.Run())
}
