package seed

import (
	"fmt"
	"testing"
)

// TestNames: each test has numbers of its own, of each seed.
func TestNames(t *testing.T) {
	seen := map[uint64]string{}
	for _, number := range []uint64{1, 2, 12} {
		for _, name := range []string{"TestA", "TestB", "TestA/1", "TestA/11", "2 TestA"} {
			s := of(number, name)
			if was, twice := seen[s]; twice {
				t.Errorf("%d %s has the seed of %s", number, name, was)
			}
			seen[s] = fmt.Sprint(number, " ", name)
		}
	}
}

func TestRead(t *testing.T) {
	for text, want := range map[string]uint64{"": usual, "7": 7, "18446744073709551615": 1<<64 - 1} {
		if got := read(text); got != want {
			t.Errorf("%q is %d", text, got)
		}
	}
	for _, text := range []string{"0", "-1", "7x", " 7", "18446744073709551616"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is a seed", text)
				}
			}()
			read(text)
		}()
	}
}
