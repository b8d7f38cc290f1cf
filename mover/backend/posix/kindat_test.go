package posix

import (
	"testing"

	"datamove.dev/mover/backend/posix/fstype"
)

func TestKindAt(t *testing.T) {
	dir := t.TempDir()
	kind, err := fstype.KindAt(dir)
	if want := opened(t, dir, Options{}).Capabilities().System; err != nil || kind != want {
		t.Errorf("%s, %v; the place says %s", kind, err, want)
	}
	if kind, err := fstype.KindAt("/proc"); err != nil || kind != "unknown (0x9FA0)" {
		t.Errorf("/proc is %s, %v", kind, err)
	}
	if _, err := fstype.KindAt(dir + "/gone"); err == nil {
		t.Error("what is not there has no kind")
	}
}
