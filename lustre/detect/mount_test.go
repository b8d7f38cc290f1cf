package detect

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// The mounts of a machine that is client and server of a Lustre 2.17.57 at once, as its
// kernel wrote them; the numbers before are ours.
const lustreServer = `61 27 253:0 / /mnt/mdt0 rw - lustre /dev/vda rw,svname=lab-MDT0000,mgs,osd=osd-ldiskfs,user_xattr,errors=remount-ro
62 27 253:16 / /mnt/ost0 rw - lustre /dev/vdc rw,svname=lab-OST0000,mgsnode=10.77.0.1@tcp,osd=osd-ldiskfs,errors=remount-ro
63 27 0:99 / /mnt/lustre rw - lustre 10.77.0.1@tcp:/lab rw,flock,checksum,encrypt,lazystatfs,lruresize,nolock,statfs_project,nosync_on_close,nouser_fid2path,user_xattr,verbose
64 27 0:98 / /mnt/sub rw shared:9 master:3 - lustre 10.0.0.1@o2ib,10.0.0.2@o2ib:10.0.0.3@o2ib:/home1/users rw,flock
65 27 0:97 / /mnt/bad rw - lustre nothing rw,flock
`

func mountNumbered(t *testing.T, table string, id uint64) Mount {
	t.Helper()
	m, ok, err := findMount(strings.NewReader(table), id)
	if err != nil || !ok {
		t.Fatalf("mount %d: %v, %v", id, ok, err)
	}
	return m
}

// TestLustreTargetsAreNoClients: they have the type and the number of one.
func TestLustreTargetsAreNoClients(t *testing.T) {
	for id, want := range map[uint64]struct {
		kind        lustre.Kind
		name, words string
	}{
		61: {lustre.IsOther, "/dev/vda", "target of a Lustre server"},
		62: {lustre.IsOther, "/dev/vdc", "target of a Lustre server"},
		63: {lustre.IsLustre, "lab", ""},
		64: {lustre.IsLustre, "home1", ""},
		65: {lustre.IsOther, "nothing", "target of a Lustre server"},
	} {
		m := mountNumbered(t, lustreServer, id)
		s := describe(lustreMagic, m)
		if s.Kind != want.kind || s.Name != want.name || s.Mount != m.Point || !strings.Contains(s.Lacks[lustre.AskQuota], want.words) {
			t.Errorf("%d is %+v", id, s)
		}
	}
	if s := describe(lustreMagic, Mount{}); s.Kind != lustre.IsLustre {
		t.Errorf("without a table: %+v", s)
	}
}

func TestKinds(t *testing.T) {
	for _, want := range []struct {
		magic uint32
		kind  lustre.Kind
		line  string // after the dash
	}{
		{gpfsMagic, lustre.IsGPFS, "gpfs fs1 rw,relatime"},
		{unix.CEPH_SUPER_MAGIC, lustre.IsCephFS, "ceph 10.0.0.1:6789:/ rw,name=admin,acl"},
		{unix.FUSE_SUPER_MAGIC, lustre.IsCephFS, "fuse.ceph-fuse ceph-fuse rw,user_id=0"},
		{unix.FUSE_SUPER_MAGIC, lustre.IsJuiceFS, "fuse.juicefs JuiceFS:vol rw,user_id=0"},
		{unix.FUSE_SUPER_MAGIC, lustre.IsOther, "fuse.sshfs host:/ rw,user_id=0"},
		{unix.FUSE_SUPER_MAGIC, lustre.IsOther, "fuse 10.0.0.1@tcp:/lab rw,user_id=0"},
		{unix.FUSE_SUPER_MAGIC, lustre.IsOther, "fuseblk /dev/sda1 rw"},
		{beegfsMagic, lustre.IsBeeGFS, "beegfs beegfs_nodev rw,cfgFile=/etc/beegfs/beegfs-client.conf"},
		{unix.NFS_SUPER_MAGIC, lustre.IsNFS, "nfs4 server:/export rw,vers=4.2"},
		{unix.NFS_SUPER_MAGIC, lustre.IsNFS, "nfs server:/export rw,vers=3"},
		{unix.EXT4_SUPER_MAGIC, lustre.IsExt4, "ext4 /dev/vda rw"},
		{unix.EXT4_SUPER_MAGIC, lustre.IsOther, "ext3 /dev/vda rw"},
		{unix.XFS_SUPER_MAGIC, lustre.IsXFS, "xfs /dev/vda rw,noquota"},
		{unix.BTRFS_SUPER_MAGIC, lustre.IsBtrfs, "btrfs /dev/vda rw,subvolid=5,subvol=/"},
		{unix.OVERLAYFS_SUPER_MAGIC, lustre.IsOther, "overlay overlay rw,lowerdir=/a"},
		{0x12345678, lustre.IsOther, "lustre_tgt /dev/sda rw,svname=a-OST0000"},
		{0x12345678, lustre.IsOther, "xyz  rw"}, // a mount without a source
	} {
		m, err := parseMount("7 1 0:1 / /mnt rw - " + want.line)
		if err != nil {
			t.Errorf("%q: %v", want.line, err)
		}
		if s := describe(want.magic, m); s.Kind != want.kind || s.Type != m.Type || s.Mount != "/mnt" {
			t.Errorf("%#x %q is %+v", want.magic, want.line, s)
		}
	}
}

func TestLines(t *testing.T) {
	m, err := parseMount(`36 35 98:0 /a\040b /mnt\011\134040 rw,noatime master:1 propagate_from:2 - ext4 /dev/ro\012ot rw,errors=continue`)
	want := Mount{ID: 36, Root: "/a b", Point: "/mnt\t\\040", Options: "rw,noatime", Type: "ext4", Source: "/dev/ro\not", Super: "rw,errors=continue"}
	if err != nil || m != want {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"", " ", "36", "36 35 98:0 / /mnt rw", "36 35 98:0 / /mnt rw -", "36 35 98:0 / /mnt rw - ext4 /dev/a", "x 35 98:0 / /mnt rw - ext4 /dev/a rw",
		"-1 35 98:0 / /mnt rw - ext4 /dev/a rw", "36 35 98:0 / - rw ext4 /dev/a rw"} {
		if m, err := parseMount(bad); err == nil {
			t.Errorf("%q is %+v", bad, m)
		}
	}
	for escaped, want := range map[string]string{`\`: `\`, `\04`: `\04`, `\040`: " ", `\400`: `\400`, `\999`: `\999`, `a\134`: `a\`, `\+01`: `\+01`, `\377`: "\xff"} {
		if got := unescape(escaped); got != want {
			t.Errorf("%q is %q instead of %q", escaped, got, want)
		}
	}
	// A name with a line end can not become a line: the kernel escapes it. One that
	// is broken all the same hides no other.
	table := "36 broken\n\n" + strings.Repeat("x", 70000) + "\n" + "36 35 98:0 / /mnt rw - ext4 /dev/a rw\n"
	if m := mountNumbered(t, table, 36); m.Point != "/mnt" {
		t.Errorf("it is %+v", m)
	}
	if _, ok, err := findMount(strings.NewReader(table), 37); ok || err != nil {
		t.Errorf("a mount that is not there: %v, %v", ok, err)
	}
	if _, ok, err := findMount(strings.NewReader(strings.Repeat("x", maxLine+1)), 36); ok || err == nil {
		t.Errorf("a line without an end: %v, %v", ok, err)
	}
}

func FuzzMount(f *testing.F) {
	f.Add(lustreServer, uint64(61))
	f.Add(`36 35 98:0 /a\040b /mnt\134 rw - ext4  rw`, uint64(36))
	f.Fuzz(func(t *testing.T, table string, id uint64) {
		m, ok, err := findMount(strings.NewReader(table), id)
		if ok && (m.ID != id || err != nil) {
			t.Errorf("%d is %+v, %v", id, m, err)
		}
		for _, magic := range []uint32{lustreMagic, unix.FUSE_SUPER_MAGIC, unix.EXT4_SUPER_MAGIC, uint32(id)} {
			s := describe(magic, m)
			if s.Kind == "" {
				t.Error("a file system without a kind")
			}
			if s.Kind == lustre.IsLustre && m.Type != "" && (s.Name == "" || strings.Contains(s.Name, "/")) {
				t.Errorf("a Lustre named %q", s.Name)
			}
		}
	})
}

// FuzzUnescape: what the kernel escapes comes back.
func FuzzUnescape(f *testing.F) {
	f.Add("a b\tc\nd\\e#f")
	f.Fuzz(func(t *testing.T, name string) {
		var escaped strings.Builder
		for _, b := range []byte(name) {
			if strings.IndexByte(" \t\n\\#", b) >= 0 {
				fmt.Fprintf(&escaped, `\%03o`, b)
			} else {
				escaped.WriteByte(b)
			}
		}
		if got := unescape(escaped.String()); got != name {
			t.Errorf("%q comes back as %q", name, got)
		}
	})
}
