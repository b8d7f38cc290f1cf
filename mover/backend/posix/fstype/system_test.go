package fstype

import (
	"testing"

	"datamove.dev/mover"
)

// The words of a configuration are those of this package.
func TestKindsAreKnown(t *testing.T) {
	names := map[string]bool{}
	for _, s := range systems {
		names[s.Name] = true
	}
	for _, kind := range mover.FileSystemKinds {
		if !names[kind] {
			t.Errorf("no file system is of kind %s", kind)
		}
	}
}

// TestPlainSystems: a file system without hard links, owners and modes does not claim that it keeps them, not even to root.
func TestPlainSystems(t *testing.T) {
	lost := mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactLinks
	for _, s := range systems {
		plain := s.Name == "vfat" || s.Name == "exfat"
		if keeps := s.Capabilities(true, 0).Keeps; keeps.Has(lost) == plain || plain && keeps&lost != 0 || !keeps.Has(mover.FactMtime) {
			t.Errorf("%s keeps %v", s.Name, keeps)
		}
	}
}
