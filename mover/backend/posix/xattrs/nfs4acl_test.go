package xattrs

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

type ace struct {
	kind, flags, mask uint32
	who               string
}

// nfs4 is an ACL as the kernel shows it.
func nfs4(entries ...ace) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(entries)))
	for _, e := range entries {
		for _, n := range []uint32{e.kind, e.flags, e.mask, uint32(len(e.who))} {
			b = binary.BigEndian.AppendUint32(b, n)
		}
		b = append(b, e.who...)
		b = append(b, make([]byte, -len(e.who)&3)...)
	}
	return b
}

// ofMode is what nfsd makes of the mode 0644 of a file.
var ofMode = nfs4(ace{0, 0, 0x16019f, "OWNER@"}, ace{0, 0x40, 0x120089, "GROUP@"}, ace{0, 0, 0x120089, "EVERYONE@"})

func TestSaysMode(t *testing.T) {
	for _, row := range []struct {
		name string
		acl  []byte
		want bool
	}{
		{"of a mode", ofMode, true},
		{"a denial before", nfs4(ace{1, 0, 2, "OWNER@"}, ace{0, 0, 1, "EVERYONE@"}), true},
		{"nothing", nfs4(), true},
		{"somebody", nfs4(ace{0, 0, 1, "OWNER@"}, ace{0, 0, 1, "1234"}), false},
		{"for what is below", nfs4(ace{0, 3, 1, "OWNER@"}), false},
		{"an audit", nfs4(ace{2, 0, 1, "OWNER@"}), false},
		{"cut off", ofMode[:len(ofMode)-1], false},
		{"more than it says", append(slices.Clone(ofMode), 0, 0, 0, 0), false},
		{"a count alone", []byte{0xff, 0xff, 0xff, 0xff}, false},
		{"a name without end", binary.BigEndian.AppendUint32(nfs4(ace{})[:16], 1<<32-1), false},
		{"no bytes", nil, false},
	} {
		if got := saysMode(row.acl); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func FuzzSaysMode(f *testing.F) {
	f.Add(ofMode)
	f.Add(nfs4(ace{0, 0, 1, "OWNER"}))
	f.Fuzz(func(t *testing.T, acl []byte) {
		if saysMode(acl) && len(acl) < 4 {
			t.Errorf("%q says something", acl)
		}
	})
}

// listed are attributes as a file system shows them.
type listed map[string][]byte

func (l listed) list() (names []string, err error) {
	for name := range l {
		names = append(names, name)
	}
	return names, nil
}
func (l listed) get(name string) ([]byte, error)     { return l[name], nil }
func (l listed) set(name string, value []byte) error { l[name] = value; return nil }
func (l listed) remove(string) error                 { return unix.EOPNOTSUPP }
func (listed) free() int64                           { return 0 }

// TestNFSAttributes: the ACL that each file on NFS 4 has is no attribute of it; one that
// says more than its mode is.
func TestNFSAttributes(t *testing.T) {
	plain, err := Read(listed{mover.XattrNFS4ACL: ofMode, "user.a": []byte("b")})
	if err != nil || len(plain) != 1 || plain[0].Name != "user.a" {
		t.Errorf("read %v, %v", plain, err)
	}
	named := nfs4(ace{0, 0, 1, "1234"})
	got, err := Read(listed{mover.XattrNFS4ACL: named})
	if want := []mover.Xattr{{Name: mover.XattrNFS4ACL, Value: named}}; err != nil || len(got) != 1 || got[0].Name != want[0].Name || string(got[0].Value) != string(named) {
		t.Errorf("read %v, %v, want %v", got, err, want)
	}
}
