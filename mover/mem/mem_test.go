package mem_test

import (
	"testing"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/mem"
	"datamove.dev/mover/placetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for name, opts := range map[string]mem.Options{
		"posix":    {},
		"reflinks": {Reflinks: true},
		"objects":  {ObjectStore: true},
	} {
		t.Run(name, func(t *testing.T) {
			placetest.Run(t, func(*testing.T) func() mover.Place {
				tree := mem.NewTree()
				return func() mover.Place { return mem.New(tree, opts) }
			})
		})
	}
}
