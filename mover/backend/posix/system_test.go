package posix

import (
	"testing"

	"datamove.dev/mover"
)

// The words of a configuration are those of this package.
func TestKindsAreKnown(t *testing.T) {
	names := map[string]bool{}
	for _, s := range systems {
		names[s.name] = true
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
		plain := s.name == "vfat" || s.name == "exfat"
		if keeps := traits(s, true, 0).Keeps; keeps.Has(lost) == plain || plain && keeps&lost != 0 || !keeps.Has(mover.FactMtime) {
			t.Errorf("%s keeps %v", s.name, keeps)
		}
	}
}

func TestKindAt(t *testing.T) {
	dir := t.TempDir()
	kind, err := KindAt(dir)
	if want := opened(t, dir, Options{}).Capabilities().System; err != nil || kind != want {
		t.Errorf("%s, %v; the place says %s", kind, err, want)
	}
	if kind, err := KindAt("/proc"); err != nil || kind != "unknown (0x9FA0)" {
		t.Errorf("/proc is %s, %v", kind, err)
	}
	if _, err := KindAt(dir + "/gone"); err == nil {
		t.Error("what is not there has no kind")
	}
}
