package uapi

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// TestActionList: the message that a Lustre 2.17 wrote for a restore, and back.
func TestActionList(t *testing.T) {
	raw, err := os.ReadFile("testdata/hsm-action-list.bin")
	must.Do(t, err)
	h, err := DecodeMessageHeader(raw)
	if want := (MessageHeader{Transport: transportHSM, Type: Actions, Length: 112}); err != nil || h != want {
		t.Fatalf("header %+v, %v, want %+v", h, err, want)
	}
	l, err := DecodeActionList(raw[MessageHeaderSize:])
	file := lustre.FID{Seq: 0x200000bd1, OID: 2}
	want := ActionList{Flags: 4, ArchiveID: 2, Name: "lab", Items: []ActionItem{
		{Action: CopyRestore, FID: file, Data: file, Extent: Extent{0, WholeFile}, Cookie: 0x6b005a19},
	}}
	if err != nil || !reflect.DeepEqual(l, want) {
		t.Fatalf("list %+v, %v, want %+v", l, err, want)
	}
	if again := append(h.Encode(), l.Encode()...); !bytes.Equal(again, raw) {
		t.Errorf("encoded again it is\n%x, and not\n%x", again, raw)
	}
}

// items are three actions, of which two bring something along, so that all begin at
// multiples of eight only when they are aligned.
func items() ActionList {
	fid := func(oid uint32) lustre.FID { return lustre.FID{Seq: 0x200000402, OID: oid, Ver: 1} }
	return ActionList{Compound: 7, Flags: 1, ArchiveID: 3, Name: "lustre01", Items: []ActionItem{
		{Action: CopyArchive, FID: fid(1), Data: fid(2), Extent: Extent{0, WholeFile}, Cookie: 1, Blob: []byte("tag=a")},
		{Action: CopyRemove, FID: fid(3), Data: fid(3), Extent: Extent{4096, 8192}, Cookie: 2, GID: 9},
		{Action: CopyCancel, FID: fid(4), Data: fid(4), Cookie: 1, Blob: []byte("12345678")},
	}}
}

func TestActionsInOneList(t *testing.T) {
	want := items()
	raw := want.Encode()
	if len(raw)%8 != 0 {
		t.Errorf("%d bytes", len(raw))
	}
	got, err := DecodeActionList(raw)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// TestCutLists: of a list that is cut anywhere, the whole items before the cut are told.
func TestCutLists(t *testing.T) {
	whole := items()
	raw := whole.Encode()
	for n := range len(raw) - 1 {
		l, err := DecodeActionList(raw[:n:n])
		if err == nil && len(l.Items) == len(whole.Items) && n >= len(raw)-7 {
			continue // what is missing is padding
		}
		if !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes: %v", n, len(raw), err)
		}
		for i := range l.Items {
			if !reflect.DeepEqual(l.Items[i], whole.Items[i]) {
				t.Fatalf("%d of %d bytes: item %d is %+v", n, len(raw), i, l.Items[i])
			}
		}
	}
}

func TestHostileLists(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(b []byte)
	}{
		{"a version that is not known", func(b []byte) { b[0] = 2 }},
		{"more items than there are", func(b []byte) { le.PutUint32(b[4:], 1<<31) }},
		{"a name without end", func(b []byte) { copy(b[sizeList:], bytes.Repeat([]byte{'x'}, 24)) }},
		{"a name that leads elsewhere", func(b []byte) { copy(b[sizeList:], "../../x\x00") }},
		{"no name", func(b []byte) { b[sizeList] = 0 }},
		{"an item of no bytes", func(b []byte) { le.PutUint32(b[sizeList+16:], 0) }},
		{"an item of 4 GiB", func(b []byte) { le.PutUint32(b[sizeList+16:], 0xffffffff) }},
		{"an item that reaches beyond the end", func(b []byte) { le.PutUint32(b[sizeList+16:], 4096) }},
	} {
		l := items()
		b := l.Encode()
		row.harm(b)
		if got, err := DecodeActionList(b); !errors.Is(err, ErrMalformed) || len(got.Items) > 3 {
			t.Errorf("%s: %+v, %v", row.name, got, err)
		}
	}
	for _, header := range []string{"", "\x1c\x19\x02\x00d\x00x", "\x19\x1c\x02\x00d\x00x\x00", "\x1c\x19\x02\x00d\x00\x07\x00"} {
		if h, err := DecodeMessageHeader([]byte(header)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: %+v, %v", header, h, err)
		}
	}
}

// TestCopyEncodes: what the kernel is told has the sizes that its headers give, and
// comes back as it was.
func TestCopyEncodes(t *testing.T) {
	item := items().Items[1]
	c := Copy{DataVersion: 0x1234, Flags: CopyCompleted | CopyRetry, Errno: 5, Item: item}
	if got, err := DecodeCopy(c.Encode()); err != nil || !reflect.DeepEqual(got, c) {
		t.Errorf("copy %+v, %v", got, err)
	}
	p := Progress{FID: item.FID, Cookie: 3, Extent: Extent{1, 2}, Flags: CopyRetry, Errno: 4}
	if got, err := DecodeProgress(p.Encode()); err != nil || got != p {
		t.Errorf("progress %+v, %v", got, err)
	}
	r := Registration{WriteFD: 4, ReadFD: 3, PID: 77, Archives: []uint32{2, 9}}
	if got, err := DecodeRegistration(r.Encode()); err != nil || !reflect.DeepEqual(got, r) {
		t.Errorf("registration %+v, %v", got, err)
	}
	times := Times{Time{1, 2}, Time{-3, 4}, Time{5, 6}}
	if got, err := DecodeTimes(times.Encode()); err != nil || got != times {
		t.Errorf("times %+v, %v", got, err)
	}
	for _, short := range []func() error{
		func() error { _, err := DecodeCopy(c.Encode()[:sizeCopy-1]); return err },
		func() error { _, err := DecodeProgress(p.Encode()[:sizeProgress-1]); return err },
		func() error { _, err := DecodeRegistration(r.Encode()[:registrationSize+7]); return err },
		func() error { _, err := DecodeTimes(nil); return err },
	} {
		if err := short(); !errors.Is(err, ErrMalformed) {
			t.Errorf("cut: %v", err)
		}
	}
}

func FuzzActionList(f *testing.F) {
	l := items()
	f.Add(l.Encode())
	if raw, err := os.ReadFile("testdata/hsm-action-list.bin"); err == nil {
		f.Add(raw[MessageHeaderSize:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeActionList(b)
		if len(l.Items)*sizeItem > len(b) {
			t.Fatalf("%d actions in %d bytes", len(l.Items), len(b))
		}
		if err != nil {
			return
		}
		if again, err := DecodeActionList(l.Encode()); err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%+v became %+v, %v", l, again, err)
		}
	})
}

func FuzzCopytoolStructs(f *testing.F) {
	c := Copy{Item: items().Items[0]}
	f.Add(c.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := DecodeCopy(b); err == nil {
			if again, err := DecodeCopy(c.Encode()); err != nil || !reflect.DeepEqual(again, c) {
				t.Fatalf("%+v became %+v, %v", c, again, err)
			}
		}
		if p, err := DecodeProgress(b); err == nil {
			if again, err := DecodeProgress(p.Encode()); err != nil || again != p {
				t.Fatalf("%+v became %+v, %v", p, again, err)
			}
		}
		if r, err := DecodeRegistration(b); err == nil && 4*len(r.Archives) > len(b) {
			t.Fatalf("%d archives in %d bytes", len(r.Archives), len(b))
		}
		if h, err := DecodeMessageHeader(b); err == nil && !bytes.Equal(h.Encode(), b[:MessageHeaderSize]) {
			t.Fatalf("%+v became %x", h, h.Encode())
		}
	})
}
