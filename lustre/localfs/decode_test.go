package localfs

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestDquotForms: limits come back from the struct they are put into, and units are right.
func TestDquotForms(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("these bytes are those of a little-endian machine")
	}
	l := lustre.Limits{SoftBytes: 4 << 10, HardBytes: 1<<40 + 1, SoftFiles: 7, HardFiles: 9}
	rounded := map[*form]int64{&dqblk: 1<<40 + 1024, &diskQuota: 1<<40 + 512}
	for f, hard := range rounded {
		b := f.encode(77, l)
		got := f.decode(b)
		want := l
		want.HardBytes = hard
		if len(b) != f.size || got.Limits != want || got.UsedBytes != 0 || !got.BytesUntil.IsZero() {
			t.Errorf("%+v becomes %+v in %d bytes", l, got, len(b))
		}
	}
	// Who is meant, and which of the limits: else the kernel keeps those it has.
	if b := diskQuota.encode(77, l); !bytes.Equal(b[:8], []byte{1, 2, 0b1111, 0, 77, 0, 0, 0}) {
		t.Errorf("it begins with % x", b[:8])
	}
	if b := dqblk.encode(77, l); b[64] != 0b101 {
		t.Errorf("it sets %#b", b[64])
	}
	b := make([]byte, diskQuota.size)
	binary.LittleEndian.PutUint64(b[40:], 3)  // d_bcount, basic blocks
	binary.LittleEndian.PutUint32(b[60:], 10) // d_btimer
	if got := diskQuota.decode(b); got.UsedBytes != 1536 || !got.BytesUntil.Equal(time.Unix(10, 0)) || !got.FilesUntil.IsZero() {
		t.Errorf("it is %+v", got)
	}
	binary.LittleEndian.PutUint16(b[2:], 1<<15)
	b[69] = 1 // d_btimer_hi
	if got := diskQuota.decode(b); got.BytesUntil.Unix() != 1<<32+10 {
		t.Errorf("a time beyond 32 bits is %v", got.BytesUntil)
	}
}

// FuzzDquot: whatever a kernel says, no number is negative.
func FuzzDquot(f *testing.F) {
	f.Add(make([]byte, 112))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, form := range []form{dqblk, diskQuota} {
			room := make([]byte, form.size)
			copy(room, b)
			q := form.decode(room)
			if q.HardBytes < 0 || q.SoftBytes < 0 || q.HardFiles < 0 || q.SoftFiles < 0 || q.UsedBytes < 0 || q.UsedFiles < 0 {
				t.Errorf("%x is %+v", room, q)
			}
			if l := q.Limits; l.HardBytes < math.MaxInt64 && l.SoftBytes < math.MaxInt64 {
				if again := form.decode(form.encode(1, l)); again.Limits != l {
					t.Errorf("%+v becomes %+v", l, again.Limits)
				}
			}
		}
	})
}

// TestItems: what btrfs answered on Linux 6.18, and what it never should.
func TestItems(t *testing.T) {
	item := make([]byte, 32+40)
	binary.NativeEndian.PutUint64(item[16:], 256)
	binary.NativeEndian.PutUint32(item[24:], usageItem)
	binary.NativeEndian.PutUint32(item[28:], 40)
	at := func(kind uint32, offset uint64) key { return key{quotaTree, 0, kind, offset} }
	for _, first := range []uint64{256, 0} {
		if got, offset, err := firstItem(item, 1, at(usageItem, first), 256); err != nil || len(got) != 40 || offset != 256 {
			t.Errorf("it is %d bytes at %d, %v", len(got), offset, err)
		}
	}
	if got, _, err := firstItem(item, 0, at(usageItem, 256), 256); err != nil || got != nil {
		t.Errorf("none is %d bytes, %v", len(got), err)
	}
	for what, cut := range map[string]func() ([]byte, uint64, error){
		"too short": func() ([]byte, uint64, error) { return firstItem(item[:20], 1, at(usageItem, 256), 256) },
		"cut":       func() ([]byte, uint64, error) { return firstItem(item[:71], 1, at(usageItem, 256), 256) },
		"another":   func() ([]byte, uint64, error) { return firstItem(item, 1, at(limitItem, 256), 256) },
		"another's": func() ([]byte, uint64, error) { return firstItem(item, 1, key{quotaTree, 5, usageItem, 256}, 256) },
		"before":    func() ([]byte, uint64, error) { return firstItem(item, 1, at(usageItem, 257), 300) },
		"behind":    func() ([]byte, uint64, error) { return firstItem(item, 1, at(usageItem, 0), 255) },
	} {
		if got, _, err := cut(); err == nil {
			t.Errorf("%s: %d bytes", what, len(got))
		}
	}
	var g qgroup
	if err := g.decode(make([]byte, 31), nil, nil); err == nil {
		t.Error("a status of 31 bytes was read")
	}
}

func FuzzItems(f *testing.F) {
	f.Add(make([]byte, 80), uint32(1), make([]byte, 40), make([]byte, 32))
	f.Fuzz(func(t *testing.T, b []byte, found uint32, usage, status []byte) {
		if item, _, err := firstItem(b, found, key{quotaTree, 0, usageItem, 256}, 256); err == nil && len(item) > len(b) {
			t.Errorf("an item of %d bytes in %d", len(item), len(b))
		}
		var g qgroup
		if g.decode(status, usage, b) == nil {
			_ = g.doubt()
		}
	})
}

// TestShown: sysfs of any kernel, whole, older, and with what is no number.
func TestShown(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, "id", name)
		must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
	if _, err := shown(root, "id", 256); !os.IsNotExist(err) {
		t.Errorf("nothing: %v", err)
	}
	must.Do(t, os.MkdirAll(root+"/id/qgroups", 0o755))
	if g, err := shown(root, "id", 256); err != nil || g.exists || g.status != statusOn {
		t.Errorf("Linux 5.9, no group: %+v, %v", g, err)
	}
	for name, text := range map[string]string{"referenced": "4096\n", "rsv_data": "512\n", "limit_flags": "0x1\n", "max_referenced": "8192\n"} {
		put("qgroups/0_256/"+name, text)
	}
	want := qgroup{status: statusOn, referenced: 4096, reserved: 512, limits: limitReferenced, maximum: 8192, exists: true}
	if g, err := shown(root, "id", 256); err != nil || g != want {
		t.Errorf("Linux 5.9: %+v, %v", g, err)
	}
	put("qgroups/enabled", "1\n")
	put("qgroups/inconsistent", "1\n")
	put("qgroups/mode", "squota\n")
	put("quota_override", "1\n")
	want.status, want.override = statusOn|statusInconsistent|statusSimple, true
	if g, err := shown(root, "id", 256); err != nil || g != want {
		t.Errorf("Linux 6.7: %+v, %v", g, err)
	}
	put("qgroups/drop_subtree_threshold", "8\n")
	put("qgroups/1_7/limit_flags", "0\n")
	if g, err := shown(root, "id", 256); err != nil || g.around {
		t.Errorf("an outer group without a limit: %+v, %v", g, err)
	}
	put("qgroups/1_256/limit_flags", "0x1\n")
	if g, err := shown(root, "id", 257); err != nil || g.around {
		t.Errorf("the group around another subvolume: %+v, %v", g, err)
	}
	put("qgroups/2_0/limit_flags", "0x2\n")
	if g, err := shown(root, "id", 256); err != nil || !g.around {
		t.Errorf("an outer group with a limit: %+v, %v", g, err)
	}
	put("qgroups/0_256/referenced", "many\n")
	if _, err := shown(root, "id", 256); err == nil {
		t.Error("a number that is none was read")
	}
	must.Do(t, os.Remove(root+"/id/qgroups/0_256/referenced"))
	put("qgroups/0_257/referenced", "1\n")
	if _, err := shown(root, "id", 257); !os.IsNotExist(err) {
		t.Errorf("half a group: %v", err)
	}
	put("qgroups/enabled", "0\n")
	if g, err := shown(root, "id", 256); err != nil || g.status&statusOn != 0 {
		t.Errorf("off: %+v, %v", g, err)
	}
}
