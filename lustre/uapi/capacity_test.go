package uapi

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// As printed of the same buffers: blocks=169252 bavail=149599 files=491520 ffree=491149 of an
// MDT, blocks=276968 bavail=257130 files=76800 ffree=76431 of an OST.
func TestStatfs(t *testing.T) {
	t.Parallel()
	uuid := append([]byte("lab-OST0000_UUID"), make([]byte, SizeUUID-16)...)
	for name, want := range map[string]lustre.Target{
		"obd_statfs-type1-0": {TotalBytes: 169252 * 4096, FreeBytes: 149599 * 4096, TotalFiles: 491520, FreeFiles: 491149},
		"obd_statfs-type2-0": {TotalBytes: 276968 * 4096, FreeBytes: 257130 * 4096, TotalFiles: 76800, FreeFiles: 76431},
	} {
		want.Name = "lab-OST0000_UUID"
		s, err := DecodeStatfs(fixture(t, name))
		if got := s.Target(uuid); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
		if _, err := DecodeStatfs(fixture(t, name)[:143]); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: cut: %v", name, err)
		}
	}
	lies := bytes.Repeat([]byte{0xff}, SizeStatfs)
	s, err := DecodeStatfs(lies)
	if got := s.Target(lies[:SizeUUID]); err != nil || got.TotalBytes != math.MaxInt64 || got.FreeFiles != math.MaxInt64 {
		t.Errorf("more than there can be: %+v, %v", got, err)
	}
}

func TestOBDRequest(t *testing.T) {
	t.Parallel()
	b := must.Get(StatfsRequest(StatfsOST|StatfsSoon, 3).Encode())(t)
	if len(b) != sizeOBD+16 || le.Uint32(b) != uint32(len(b)) || le.Uint32(b[sizeOBD:]) != 6 || le.Uint32(b[sizeOBD+8:]) != 3 {
		t.Errorf("a request for OST 3: %x", b)
	}
	for _, r := range []OBDRequest{
		{Flags: ForCreate, Type: 0o40755, Inline: [][]byte{[]byte("name\x00"), make([]byte, SizeStriping)}},
		{Inline: [][]byte{[]byte("a"), []byte("bc"), []byte("def"), []byte("12345678")}, Length1: 144, Length2: 40},
		{},
	} {
		b := must.Get(r.Encode())(t)
		if got, err := DecodeOBD(b); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%+v, written and read: %+v, %v", r, got, err)
		}
	}
	if _, err := (&OBDRequest{Inline: [][]byte{make([]byte, maxOBD)}}).Encode(); err == nil {
		t.Error("a request was larger than a kernel takes")
	}
	if _, err := (&OBDRequest{Inline: make([][]byte, 5)}).Encode(); err == nil {
		t.Error("five buffers fit into four")
	}
}

// As printed of the same buffer: bhard=65536 bsoft=49152 cur=3149824 ihard=100 isoft=90 icur=2 valid=0x3f.
func TestQuotactl(t *testing.T) {
	t.Parallel()
	raw := fixture(t, "if_quotactl-get")
	want := Quotactl{Command: GetQuota, Type: QuotaProject, ID: 4242, HardKiB: 65536, SoftKiB: 49152, UsedBytes: 3149824,
		HardInodes: 100, SoftInodes: 90, UsedInodes: 2, Valid: 0x3f}
	got, err := DecodeQuotactl(raw)
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if again, err := got.Encode(); err != nil || len(again) != SizeQuotactl || !bytes.Equal(again[:len(raw)], raw) {
		t.Errorf("written again: %x, %v; want %x", again, err, raw)
	}
	if l := got.Limits(); l != (lustre.Limits{SoftBytes: 48 << 20, HardBytes: 64 << 20, SoftFiles: 90, HardFiles: 100}) {
		t.Errorf("limits %+v", l)
	}
	if _, err := DecodeQuotactl(raw[:175]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut: %v", err)
	}
	if _, err := (&Quotactl{Pool: "a-pool-of-16-char"}).Encode(); err == nil {
		t.Error("a name of 17 bytes was cut")
	}
}

func TestQuotaLimits(t *testing.T) {
	t.Parallel()
	var q Quotactl
	q.SetLimits(lustre.Limits{SoftBytes: 1025, HardBytes: math.MaxInt64, SoftFiles: -1, HardFiles: 7})
	if q.SoftKiB != 2 || q.HardKiB != 1<<53 || q.SoftInodes != 0 || q.HardInodes != 7 {
		t.Errorf("%+v: a limit in KiB is not less than what was asked for, and never negative", q)
	}
	q = Quotactl{HardKiB: math.MaxUint64, BlockTime: 1<<48 | 1_800_000_000}
	if l := q.Limits(); l.HardBytes != math.MaxInt64 {
		t.Errorf("the largest limit is %d", l.HardBytes)
	}
	blocks, inodes := q.Until()
	if !blocks.Equal(time.Unix(1_800_000_000, 0)) || !inodes.IsZero() {
		t.Errorf("until %v and %v", blocks, inodes)
	}
}

func TestProjects(t *testing.T) {
	t.Parallel()
	x := FSXattr{XFlags: InheritProject, Project: 4242, ExtentSize: 1, Extents: 2, CowExtentSize: 3}
	if got, err := DecodeFSXattr(x.Encode()); err != nil || got != x {
		t.Errorf("%+v, %v; want %+v", got, err, x)
	}
	if b := (FSXattr{XFlags: InheritProject}).Encode(); le.Uint32(b) != 0x200 || len(b) != 28 {
		t.Errorf("%x", b)
	}
	if _, err := DecodeFSXattr(make([]byte, 27)); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut: %v", err)
	}
	p := NamedProject{Set: true, ID: 4242, XFlags: InheritProject, Name: "fifo"}
	b := must.Get(p.Encode())(t)
	if got, err := DecodeNamedProject(b); err != nil || got != p {
		t.Errorf("%+v, %v; want %+v", got, err, p)
	}
	for _, name := range []string{"", string(make([]byte, 256))} {
		if _, err := (&NamedProject{Name: name}).Encode(); err == nil {
			t.Errorf("a name of %d bytes was taken", len(name))
		}
	}
	if _, err := DecodeNamedProject(b[:271]); !errors.Is(err, ErrMalformed) {
		t.Errorf("cut: %v", err)
	}
}

// FuzzCapacity gives the decoders of capacity, quotas and projects anything.
func FuzzCapacity(f *testing.F) {
	f.Add(fixture(f, "obd_statfs-type2-0"))
	f.Add(fixture(f, "if_quotactl-get"))
	if b, err := StatfsRequest(StatfsMDT, 1).Encode(); err == nil {
		f.Add(b)
	}
	f.Add(FSXattr{XFlags: InheritProject, Project: 1}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := DecodeStatfs(b); err == nil {
			if again, err := s.Encode(); err != nil || !bytes.Equal(again, b[:SizeStatfs]) {
				t.Errorf("%+v was written as %x, %v", s, again, err)
			}
			if target := s.Target(b); target.TotalBytes < 0 || target.FreeBytes < 0 || target.Used() < 0 || target.Used() > 1 {
				t.Errorf("%+v", target)
			}
		}
		if q, err := DecodeQuotactl(b); err == nil {
			again := must.Get(q.Encode())(t)
			if got, err := DecodeQuotactl(again); err != nil || got != q {
				t.Errorf("%+v, written and read: %+v, %v", q, got, err)
			}
			if l := q.Limits(); l.HardBytes < 0 || l.SoftFiles < 0 {
				t.Errorf("%+v", l)
			}
		}
		if r, err := DecodeOBD(b); err == nil {
			if _, err := r.Encode(); err != nil {
				t.Error(err)
			}
		}
		if x, err := DecodeFSXattr(b); err == nil {
			if got, err := DecodeFSXattr(x.Encode()); err != nil || got != x {
				t.Errorf("%+v, written and read: %+v, %v", x, got, err)
			}
		}
		if p, err := DecodeNamedProject(b); err == nil && p.Name != "" {
			if _, err := p.Encode(); err != nil {
				t.Error(err)
			}
		}
	})
}
