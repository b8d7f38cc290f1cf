package s3

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"datamove.dev/mover"
)

func TestMetaRoundTrip(t *testing.T) {
	for _, e := range []mover.Entry{
		{Kind: mover.File, Known: keeps, Mode: 0o644, UID: 1000, GID: 1001, Mtime: mover.Time{Sec: 1_700_000_000, Nsec: 123_456_789}, Atime: mover.Time{Nsec: 5}},
		{Kind: mover.Dir, Known: keeps, Mode: 0o1777, UID: math.MaxUint32, Mtime: mover.Time{Sec: -1, Nsec: 999_999_999}, Atime: mover.Time{Sec: -1 << 40}},
		{Kind: mover.Symlink, Known: keeps, Mode: 0o777, Mtime: mover.Time{Sec: 1 << 40, Nsec: 1}},
		{Kind: mover.File, Known: mover.FactMtime, Mtime: mover.Time{Sec: 1}},
	} {
		meta := encodeMeta(&e)
		got := mover.Entry{Kind: e.Kind, Known: e.Known & (mover.FactCRC | mover.FactsOfObject)}
		symlink := decodeMeta(&got, func(name string) string { return meta[name] })
		if got.Identity() != e.Identity() || got.Known != e.Known || got.Mode != e.Mode || got.UID != e.UID || got.GID != e.GID || got.Atime != e.Atime {
			t.Errorf("%v\nbecame %+v\nnot    %+v", meta, got, e)
		}
		if symlink != (e.Kind == mover.Symlink) {
			t.Errorf("%v: symlink = %v", meta, symlink)
		}
	}
}

// TestOwnMeta: attributes of ours travel as metadata, whatever bytes a path has; no other
// attribute does, and a path that is too long for a store is left out.
func TestOwnMeta(t *testing.T) {
	e := mover.Entry{Kind: mover.File, Known: mover.FactXattrs, Xattrs: []mover.Xattr{
		{Name: mover.XattrCRC, Value: []byte("00000000000000ff")}, {Name: mover.XattrPath, Value: []byte("a b/\n\xff%41/ü")}, {Name: "user.secret", Value: []byte("x")},
	}}
	meta := encodeMeta(&e)
	if len(meta) != 2 {
		t.Errorf("metadata %q", meta)
	}
	var got mover.Entry
	decodeMeta(&got, func(name string) string { return meta[name] })
	if !reflect.DeepEqual(got.Xattrs, e.Xattrs[:2]) || got.Known != 0 {
		t.Errorf("became %+v", got)
	}
	e.Xattrs[1].Value = bytes.Repeat([]byte("/"), ownMost/2)
	if meta = encodeMeta(&e); len(meta) != 1 {
		t.Errorf("metadata %q", meta)
	}
	e.Known = 0
	if meta = encodeMeta(&e); len(meta) != 0 {
		t.Errorf("metadata of what is not known: %q", meta)
	}
}

func TestMetaOfOthers(t *testing.T) {
	for _, row := range []struct {
		name, value string
		want        mover.Entry
	}{
		{metaMode, "0100644", mover.Entry{Known: mover.FactMode, Mode: 0o644}},
		{metaMode, "644", mover.Entry{Known: mover.FactMode, Mode: 0o644}},     // without type bits
		{metaMode, "0104755", mover.Entry{Known: mover.FactMode, Mode: 0o755}}, // setuid is not believed
		{metaMode, "rw-r--r--", mover.Entry{}},                                 //
		{metaMtime, "1500000000123456789", mover.Entry{}},                      // no unit: not believed
		{metaMtime, "9999999999999999999999999999999ns", mover.Entry{}},        // beyond any clock? then
		{metaRclone, "1.5", mover.Entry{Known: mover.FactMtime, Mtime: mover.Time{Sec: 1, Nsec: 5e8}}},
		{metaRclone, "1712345678", mover.Entry{Known: mover.FactMtime, Mtime: mover.Time{Sec: 1712345678}}},
		{metaRclone, "-0.25", mover.Entry{Known: mover.FactMtime, Mtime: mover.Time{Sec: -1, Nsec: 75e7}}},
		{metaOwner, "-1", mover.Entry{}},
		{metaOwner, "4294967296", mover.Entry{}},
	} {
		var e mover.Entry
		decodeMeta(&e, func(name string) string {
			if name == row.name {
				return row.value
			}
			return ""
		})
		if e.Known != row.want.Known || e.Mode != row.want.Mode || e.Mtime != row.want.Mtime {
			t.Errorf("%s: %s became %+v", row.name, row.value, e)
		}
	}
}

// FuzzMeta: no metadata makes a setuid file or a time that is none, and what we
// understood is written so that it is understood again.
func FuzzMeta(f *testing.F) {
	f.Add("0100644", "1000", "1700000000123456789ns", "1.5")
	f.Add("0120777", "", "-1ns", "-0.0000000001")
	f.Add("7777777777777777", "+1", "00000000000000000001ns", "1e9")
	f.Fuzz(func(t *testing.T, mode, owner, mtime, rclone string) {
		values := map[string]string{metaMode: mode, metaOwner: owner, metaMtime: mtime, metaAtime: mtime, metaRclone: rclone}
		e := mover.Entry{Kind: mover.File}
		if decodeMeta(&e, func(name string) string { return values[name] }) {
			e.Kind = mover.Symlink
		}
		if e.Mode&^modeKept != 0 || e.Mtime.Nsec < 0 || e.Mtime.Nsec >= second {
			t.Fatalf("%v became %+v", values, e)
		}
		again, meta := mover.Entry{Kind: e.Kind}, encodeMeta(&e)
		decodeMeta(&again, func(name string) string { return meta[name] })
		if again.Known != e.Known || again.Identity() != e.Identity() || again.Atime != e.Atime || again.UID != e.UID {
			t.Fatalf("%+v\nwritten as %v\nread as %+v", e, meta, again)
		}
	})
}
