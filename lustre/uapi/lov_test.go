package uapi

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

const (
	kib64 = 64 << 10
	mib   = 1 << 20
	gib   = 1 << 30
)

// on are objects on OSTs, as lfs getstripe prints them.
func on(pairs ...any) []lustre.Object {
	var objects []lustre.Object
	for i := 0; i < len(pairs); i += 2 {
		fid, err := lustre.ParseFID(pairs[i+1].(string))
		if err != nil {
			panic(err)
		}
		objects = append(objects, lustre.Object{Target: pairs[i].(int), FID: fid})
	}
	return objects
}

func fid(s string) lustre.FID {
	f, err := lustre.ParseFID(s)
	if err != nil {
		panic(err)
	}
	return f
}

// plain is a layout of one component over the whole file.
func plain(c lustre.Component) lustre.Layout {
	c.End, c.FirstTarget = lustre.EOF, lustre.AnyTarget
	return lustre.Layout{Components: []lustre.Component{c}}
}

func stripes(size int64, count int, objects []lustre.Object) lustre.Component {
	return lustre.Component{Pattern: lustre.RAID0, StripeBytes: size, StripeCount: count, FirstTarget: lustre.AnyTarget, Objects: objects}
}

func (c component) of(id uint32, flags lustre.Flags, start, end int64) lustre.Component {
	c.ID, c.Flags, c.Start, c.End = id, flags, start, end
	return lustre.Component(c)
}

type component lustre.Component

func of(file string, c lustre.Component) lustre.Component {
	c.Stored.File = fid(file)
	return c
}

// decoded is what every fixture says, by hand from what lfs getstripe printed of the same
// file (client/testdata), or from what the probe that made it asked for.
func decoded() map[string]lustre.Layout {
	over := on(2, "0x2c0000401:0x24:0x0", 3, "0x340000401:0x24:0x0", 0, "0x280000401:0x25:0x0", 1, "0x300000401:0x25:0x0",
		2, "0x2c0000401:0x25:0x0", 3, "0x340000401:0x25:0x0", 0, "0x280000401:0x26:0x0", 1, "0x300000401:0x26:0x0")
	overProbe := on(2, "0x2c0000401:0x4:0x0", 3, "0x340000401:0x6:0x0", 0, "0x280000401:0x7:0x0", 1, "0x300000401:0x6:0x0",
		2, "0x2c0000401:0x5:0x0", 3, "0x340000401:0x7:0x0", 0, "0x280000401:0x8:0x0", 1, "0x300000401:0x7:0x0")
	overstriped := func(size int64, objects []lustre.Object) lustre.Component {
		c := stripes(size, 8, objects)
		c.Pattern = lustre.Overstriped
		return c
	}
	pooled := func(c lustre.Component) lustre.Component { c.Pool = "p1"; return c }
	released := func(n int, size int64) lustre.Component {
		c := stripes(size, n, make([]lustre.Object, n))
		c.Flags = lustre.Released
		return c
	}
	known := func(c lustre.Component) lustre.Component { c.Stored.HasGeneration = true; return c }
	twoStripes := of("0x200000402:0x2:0x0", stripes(mib, 2, on(3, "0x340000401:0x2:0x0", 0, "0x280000401:0x2:0x0")))
	composite := func(generation uint32, state lustre.Mirrored, mirrors int, c ...lustre.Component) lustre.Layout {
		return lustre.Layout{Components: c, Generation: generation, Mirrored: state, Mirrors: mirrors}
	}
	part := func(size int64, count int, objects []lustre.Object) component {
		return component(stripes(size, count, objects))
	}
	onMDT := func() component {
		return component{Pattern: lustre.OnMDT, StripeBytes: kib64, FirstTarget: lustre.AnyTarget}
	}
	named := stripes(2*mib, 3, nil)
	named.Stored.HasPool = true
	const initialised, stale, extension = lustre.Initialised, lustre.Stale, lustre.Extension
	return map[string]lustre.Layout{
		"lfs-xattr-plain":    plain(of("0x200000bd1:0x2:0x0", stripes(mib, 2, on(1, "0x300000401:0x22:0x0", 2, "0x2c0000401:0x22:0x0")))),
		"lfs-xattr-pool":     plain(of("0x200000bd1:0x4:0x0", pooled(stripes(4*mib, 2, on(1, "0x300000401:0x23:0x0", 0, "0x280000401:0x22:0x0"))))),
		"lfs-xattr-over":     plain(of("0x200000bd1:0xc:0x0", overstriped(4*mib, over))),
		"lfs-xattr-released": plain(of("0x200000bd1:0x2:0x0", released(2, mib))),
		"lfs-xattr-foreign":  {Foreign: &lustre.Foreign{Flags: 0xDA, Value: []byte("hello")}},
		"lfs-xattr-pfl": composite(4, lustre.NotMirrored, 1,
			part(mib, 1, on(3, "0x340000401:0x22:0x0")).of(1, initialised, 0, mib),
			part(4*mib, 2, on(0, "0x280000401:0x23:0x0", 1, "0x300000401:0x24:0x0")).of(2, initialised, mib, 64*mib),
			part(4*mib, -1, nil).of(3, 0, 64*mib, lustre.EOF)),
		"lfs-xattr-dom": composite(2, lustre.NotMirrored, 1,
			onMDT().of(1, initialised, 0, kib64),
			part(4*mib, 2, nil).of(2, 0, kib64, lustre.EOF)),
		"lfs-xattr-flr": composite(3, lustre.WritePending, 2,
			part(4*mib, 1, on(2, "0x2c0000401:0x23:0x0")).of(65537, initialised, 0, lustre.EOF),
			part(4*mib, 2, on(3, "0x340000401:0x23:0x0", 0, "0x280000401:0x24:0x0")).of(131074, initialised|stale, 0, lustre.EOF)),

		"lov-v1-2stripes.get-lustre.lov":  plain(twoStripes),
		"lov-v1-2stripes.get-trusted.lov": plain(twoStripes),
		"lov-v1-2stripes.get-ioctl":       plain(known(twoStripes)),
		"lov-all-ioctl": plain(of("0x200000402:0x3:0x0", stripes(2*mib, 4,
			on(2, "0x2c0000401:0x2:0x0", 3, "0x340000401:0x3:0x0", 0, "0x280000401:0x3:0x0", 1, "0x300000401:0x2:0x0")))),
		"lov-v3-pool":           plain(of("0x200000402:0x5:0x0", pooled(stripes(mib, 2, on(0, "0x280000401:0x4:0x0", 1, "0x300000401:0x4:0x0"))))),
		"lov-overstriped":       plain(of("0x200000402:0x9:0x0", overstriped(mib, overProbe))),
		"lov-specific-get":      plain(of("0x200000402:0xa:0x0", stripes(mib, 2, on(2, "0x2c0000401:0x6:0x0", 0, "0x280000401:0x9:0x0")))),
		"lov-released":          plain(of("0x200000402:0x2:0x0", released(4, mib))),
		"lov-dirdefault-v3.get": plain(named),
		"lov-foreign.get":       {Foreign: &lustre.Foreign{Value: []byte("abcdef")}},
		"lov-pfl.set":           composite(0, lustre.NotMirrored, 1, part(mib, 1, nil).of(0, 0, 0, mib), part(mib, 2, nil).of(0, 0, mib, 64*mib), part(4*mib, -1, nil).of(0, 0, 64*mib, lustre.EOF)),
		"lov-dirdefault-pfl.get": composite(0, lustre.NotMirrored, 1,
			part(mib, 1, nil).of(0, 0, 0, mib), part(mib, 2, nil).of(0, 0, mib, 64*mib), part(4*mib, -1, nil).of(0, 0, 64*mib, lustre.EOF)),
		"lov-pfl.get-empty": composite(3, lustre.NotMirrored, 1,
			part(mib, 1, on(2, "0x2c0000401:0x7:0x0")).of(1, initialised, 0, mib), part(mib, 2, nil).of(2, 0, mib, 64*mib), part(4*mib, -1, nil).of(3, 0, 64*mib, lustre.EOF)),
		"lov-pfl.get-2inited": composite(4, lustre.NotMirrored, 1,
			part(mib, 1, on(2, "0x2c0000401:0x7:0x0")).of(1, initialised, 0, mib),
			part(mib, 2, on(0, "0x280000401:0xa:0x0", 1, "0x300000401:0x8:0x0")).of(2, initialised, mib, 64*mib),
			part(4*mib, -1, nil).of(3, 0, 64*mib, lustre.EOF)),
		"lov-dom.get": composite(2, lustre.NotMirrored, 1, onMDT().of(1, initialised, 0, kib64), part(mib, 2, nil).of(2, 0, kib64, lustre.EOF)),
		"lov-flr.get": composite(2, lustre.ReadOnly, 2,
			part(mib, 1, on(0, "0x280000401:0xb:0x0")).of(0x10001, initialised, 0, lustre.EOF),
			part(mib, 2, on(2, "0x2c0000401:0x9:0x0", 3, "0x340000401:0x9:0x0")).of(0x20002, initialised, 0, lustre.EOF)),
		"lov-pfl-flr-stale.get-lustre.lov": composite(4, lustre.WritePending, 2,
			part(mib, 1, on(2, "0x300000401:0x23:0x0")).of(0x10001, initialised, 0, mib),
			part(4*mib, 2, nil).of(0x10002, 0, mib, lustre.EOF),
			part(4*mib, 1, on(3, "0x340000401:0x23:0x0")).of(0x20003, initialised|stale, 0, lustre.EOF)),
		"lov-sel.get": composite(2, lustre.NotMirrored, 1,
			part(mib, 1, on(3, "0x340000401:0x8:0x0")).of(1, initialised, 0, 64*mib),
			part(64*mib, 1, nil).of(2, extension, 64*mib, lustre.EOF)),
		"lov-sel-4comp.get-lustre.lov": composite(4, lustre.NotMirrored, 1,
			part(mib, 1, on(0, "0x280000401:0x22:0x0")).of(1, initialised, 0, 64*mib),
			part(64*mib, 1, nil).of(2, extension, 64*mib, gib),
			part(mib, 2, nil).of(3, 0, gib, gib),
			part(256*mib, 2, nil).of(4, extension, gib, lustre.EOF)),
	}
}

func TestLayoutsOfFixtures(t *testing.T) {
	t.Parallel()
	table := decoded()
	for _, name := range layouts(t) {
		want, ok := table[name]
		if !ok {
			t.Errorf("%s: nothing is said of it", name)
			continue
		}
		raw := fixture(t, name)
		got, err := DecodeLayout(raw)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", name, err, got, want)
		}
		if again, err := EncodeLayout(&got); err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%s: written again, %v:\n got %x\nwant %x", name, err, again, raw)
		}
		delete(table, name)
	}
	for name := range table {
		t.Errorf("%s: there is no such fixture", name)
	}
}

// What was asked of a real Lustre is what is written for it.
func TestRequests(t *testing.T) {
	t.Parallel()
	sets := decoded()["lov-pfl.set"]
	if b, err := EncodeRequest(&sets); err != nil || !bytes.Equal(b, fixture(t, "lov-pfl.set")) {
		t.Errorf("a progressive layout: %v, %x", err, b)
	}
	// Layouts of files, asked for again, read as their wish and nothing that is stored.
	for name, l := range decoded() {
		if l.Foreign != nil || l.Components[0].Stored.HasPool {
			continue
		}
		w := l.Wanted()
		b, err := EncodeRequest(&w)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := DecodeLayout(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := lustre.Same(&w, &got, 0); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if len(l.Components) > 1 && got.Mirrors != l.Mirrors {
			t.Errorf("%s: %d mirrors instead of %d", name, got.Mirrors, l.Mirrors)
		}
		for i, c := range got.Components {
			if len(c.Objects) > 0 || c.ID != 0 || c.FirstTarget != lustre.AnyTarget || c.Flags.Has(lustre.Initialised) || c.Stored != (lustre.Stored{}) {
				t.Errorf("%s: component %d of the request has what is stored: %+v", name, i+1, c)
			}
		}
	}
}

func TestRequestOfTargets(t *testing.T) {
	t.Parallel()
	l := lustre.Layout{Components: []lustre.Component{{End: lustre.EOF, StripeBytes: mib, Pool: "p1",
		Objects: []lustre.Object{{Target: 2}, {Target: 0, FID: fid("0x2c0000401:0x6:0x0")}}}}}
	b := must.Get(EncodeRequest(&l))(t)
	if le.Uint32(b) != MagicSpecific || len(b) != sizeV3+2*sizeObject || le.Uint16(b[28:]) != 2 || le.Uint16(b[30:]) != 2 {
		t.Errorf("the head of a request for OSTs 2 and 0: %x", b)
	}
	if le.Uint32(b[sizeV3+20:]) != 2 || le.Uint32(b[sizeV3+sizeObject+20:]) != 0 || le.Uint64(b[sizeV3+sizeObject:]) != 0 {
		t.Errorf("the objects of a request for OSTs 2 and 0: %x", b[sizeV3:])
	}
}

// A client looks at the first 32 bytes of an attribute before it knows what it is.
func TestRequestOfForeign(t *testing.T) {
	t.Parallel()
	want := lustre.Layout{Foreign: &lustre.Foreign{Type: 0xda05, Flags: 1, Value: []byte("a")}}
	b, err := EncodeRequest(&want)
	if err != nil || len(b) < sizeV1 {
		t.Fatalf("%x, %v", b, err)
	}
	if got, err := DecodeLayout(b); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestOldObjects(t *testing.T) {
	t.Parallel()
	// Object 0x5_00000022 of OST 3, of the sequence 0: MDT0's of Lustre 2.15 and before.
	var b [sizeObject]byte
	le.PutUint64(b[:], 5<<32|0x22)
	le.PutUint32(b[20:], 3)
	o := decodeObject(b[:])
	if want := fid("0x100030005:0x22:0x0"); o.FID != want {
		t.Errorf("an object without a FID is %v; want %v", o.FID, want)
	}
	var again [sizeObject]byte
	if putObject(again[:], o); again != b {
		t.Errorf("written again: %x; want %x", again, b)
	}
}

func TestMalformedLayouts(t *testing.T) {
	t.Parallel()
	pfl, v1, v3, foreign := fixture(t, "lov-pfl.get-2inited"), fixture(t, "lov-v1-2stripes.get-ioctl"), fixture(t, "lov-v3-pool"), fixture(t, "lov-foreign.get")
	edit := func(b []byte, at int, with ...byte) []byte {
		b = append([]byte(nil), b...)
		copy(b[at:], with)
		return b
	}
	for _, tt := range []struct {
		name string
		b    []byte
		says string
	}{
		{"nothing", nil, "0 bytes"},
		{"a magic number alone", v1[:4], "4 bytes"},
		{"a cut head", v1[:31], "its head has 32"},
		{"a cut head with a pool", v3[:40], "its head has 48"},
		{"a cut object", v1[:70], "38 bytes of objects"},
		{"one object of two", v1[:56], "1 objects of a layout with 2"},
		{"a pool without end", edit(v3, 32, []byte("abcdefghijklmnop")...), "has no end"},
		{"of another machine", edit(v1, 0, 0x0b, 0xd1, 0x0b, 0xd0), "order of another machine"},
		{"a composite one of another machine", edit(pfl, 0, 0x0b, 0xd6, 0x0b, 0xd0), "order of another machine"},
		{"a cut composite head", pfl[:20], "its head has 32"},
		{"no components", edit(pfl, 14, 0, 0), "0 components"},
		{"more components than there is room for", edit(pfl, 14, 0xff, 0xff), "65535 components"},
		{"a size beyond its end", edit(pfl, 4, 0xff, 0xff), "says that it has"},
		{"a cut composite", pfl[:300], "says that it has"},
		{"a blob in the table", edit(pfl, 32+24, 0x20), "not within"},
		{"a blob beyond the end", edit(pfl, 32+24, 0x50, 0x01), "not within"},
		{"a blob whose end wraps", edit(pfl, 32+28, 0xff, 0xff, 0xff, 0xff), "not within"},
		{"blobs that share bytes", edit(pfl, 32+28, 0x68), "not within"},
		{"an empty blob", edit(pfl, 32+28, 0), "a layout of 0 bytes"},
		{"composite in composite", edit(pfl, 0xb0, 0xd0, 0x0b, 0xd6, 0x0b), "composite layout itself"},
		{"a component of another machine", edit(pfl, 0xb0, 0x0b, 0xd1, 0x0b, 0xd0), "order of another machine"},
		{"an end before its beginning", edit(pfl, 32+48+8, 0, 0, 0, 0, 1), "before it begins"},
		{"an end that no file has", edit(pfl, 32+16, 0, 0, 0, 0, 0, 0, 0, 0x80), "no file is that large"},
		{"a foreign one longer than itself", edit(foreign, 4, 7), "7 bytes, and 6 are there"},
		{"a cut foreign head", foreign[:12], "its head has 16"},
		{"too large", edit(make([]byte, MaxLayout+1), 0, v1...), "none is longer"},
	} {
		if _, err := DecodeLayout(tt.b); !errors.Is(err, ErrMalformed) || !strings.Contains(fmt.Sprint(err), tt.says) {
			t.Errorf("%s: %v; want one that says %q", tt.name, err, tt.says)
		}
	}
}

// An MDS itself says of components that have no objects yet: one, on no OST (as the sizes of
// lfs getstripe -v show, client/testdata/getstripe-v-pfl.txt).
func TestComponentWithoutObjects(t *testing.T) {
	t.Parallel()
	want := decoded()["lov-pfl.get-2inited"]
	want.Components[2].StripeCount = 7
	raw := append([]byte(nil), fixture(t, "lov-pfl.get-2inited")...)
	le.PutUint16(raw[0x138+28:], 7)
	le.PutUint32(raw[4:], 368)
	le.PutUint32(raw[32+2*48+28:], 56)
	var none [sizeObject]byte
	le.PutUint32(none[20:], 0xFFFFFFFF)
	raw = append(raw, none[:]...)
	if got, err := DecodeLayout(raw); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v\n got %+v\nwant %+v", err, got, want)
	}
	le.PutUint32(raw[32+2*48+4:], 0x10) // of one that has them, six are missing
	if got, err := DecodeLayout(raw); !errors.Is(err, ErrMalformed) {
		t.Errorf("%+v, %v; want malformed", got, err)
	}
}

func TestUnknownLayoutsAreKept(t *testing.T) {
	t.Parallel()
	young := append([]byte(nil), fixture(t, "lov-pfl.get-2inited")...)
	le.PutUint32(young[0xb0:], 0x0BD90BD0) // a component of a format to come
	for _, b := range [][]byte{{0xd0, 0x0b, 0xd9, 0x0b, 1, 2, 3, 4, 5}, []byte("something else"), young} {
		l, err := DecodeLayout(b)
		if err != nil || !bytes.Equal(l.Opaque, b) || len(l.Components) > 0 {
			t.Errorf("%x: %+v, %v; want it as it is", b, l, err)
			continue
		}
		if again, err := EncodeLayout(&l); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x: written again: %x, %v", b, again, err)
		}
	}
}

func FuzzDecodeLayout(f *testing.F) {
	for _, name := range layouts(f) {
		f.Add(fixture(f, name))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := DecodeLayout(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		objects := 0
		for _, c := range l.Components {
			objects += len(c.Objects)
		}
		if objects*sizeObject > len(b) {
			t.Fatalf("%d objects from %d bytes", objects, len(b))
		}
		once, err := EncodeLayout(&l)
		if err != nil || len(once) > len(b) {
			t.Fatalf("what was read can not be written: %v, %d bytes of %d", err, len(once), len(b))
		}
		again, err := DecodeLayout(once)
		if err != nil || !reflect.DeepEqual(again, l) {
			t.Fatalf("%v\nread    %+v\nwritten %x\nread    %+v", err, l, once, again)
		}
	})
}
