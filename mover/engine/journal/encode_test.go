package journal

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
)

func anyTime(t *rapid.T) mover.Time {
	return mover.Time{Sec: rapid.Int64().Draw(t, "sec"), Nsec: rapid.Int32Range(0, 999_999_999).Draw(t, "nsec")}
}

func anyText(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")) }

func anyRecord(t *rapid.T) Record {
	number, length := rapid.Uint64(), rapid.Int64()
	r := Record{
		Name: anyText(t), Token: mover.Token(anyText(t)), PartBytes: length.Draw(t, "part bytes"),
		CRC: number.Draw(t, "crc"), Complete: rapid.Bool().Draw(t, "complete"), Doubted: rapid.Bool().Draw(t, "doubted"),
		Source: mover.Identity{
			Kind: mover.Kind(rapid.Byte().Draw(t, "kind")), Dev: number.Draw(t, "dev"), Ino: number.Draw(t, "ino"),
			Gen: number.Draw(t, "gen"), Size: length.Draw(t, "size"), Mtime: anyTime(t), Ctime: anyTime(t),
			ETag: anyText(t), Version: anyText(t),
		},
	}
	for range rapid.IntRange(0, 4).Draw(t, "receipts") {
		r.Receipts = append(r.Receipts, mover.Receipt{
			Part: mover.Part{Index: int(rapid.Int32Min(0).Draw(t, "index")), Off: length.Draw(t, "off"), Length: length.Draw(t, "length")},
			CRC:  number.Draw(t, "crc"), ETag: anyText(t),
		})
	}
	return r
}

// What is encoded is decoded, and no shorter value passes for it.
func TestEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRecord(t)
		b := appendRecord(nil, &want)
		d := &decoder{b: b}
		if got := d.record(); d.err != nil || len(d.b) != 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v\nwant %+v", got, d.err, want)
		}
		d = &decoder{b: b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")]}
		if d.record(); d.err == nil {
			t.Fatal("a cut value is decoded")
		}
	})
}

// FuzzDecode feeds arbitrary bytes: no panic, nothing larger than the input, and
// what is decoded means the same when it is encoded again.
//
//safety:3 with TestReboot
func FuzzDecode(f *testing.F) {
	r := large("seed")
	r.Receipts = append(r.Receipts, receipt(1))
	f.Add(appendRecord(nil, &r))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &decoder{b: b}
		got := d.record()
		if cap(got.Receipts) > 2*len(b) || len(got.Name) > len(b) {
			t.Fatalf("%d bytes became %d receipts", len(b), cap(got.Receipts))
		}
		if d.err != nil {
			return
		}
		again := (&decoder{b: appendRecord(nil, &got)}).record()
		if !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v became %+v", got, again)
		}
	})
}
