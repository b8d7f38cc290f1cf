package journal

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

// A record goes to another host and back; nothing shorter or longer passes for it.
func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyRecord(t)
		b := Encode(want)
		if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v\nwant %+v", got, err, want)
		}
		for _, bad := range [][]byte{nil, b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")], append(slices.Clone(b), 0)} {
			if _, err := Decode(bad); err == nil {
				t.Fatalf("%d of %d bytes are a record", len(bad), len(b))
			}
		}
	})
}

// What another host has left is found like what was left here: by name, among what
// is left, and after the journal was closed. It is shared.
//
//safety:3/takeover with mover/engine TestTakeOverElsewhere
func TestAdopt(t *testing.T) {
	dir := t.TempDir()
	j := reopen(t, dir, Options{})
	defer closed(t, j)
	r := large("far")
	for i := range adoptAtOnce + 1 {
		r.Receipts = append(r.Receipts, mover.Receipt{Part: mover.Part{Index: i, Off: int64(i) * 10, Length: 10}, CRC: uint64(i)})
	}
	id := must.Get(j.Adopt(t.Context(), r))(t)
	want := r
	want.Shared = true
	for i := range r.Receipts {
		want.Unsure = append(want.Unsure, i) // nobody has synced it here
	}
	look := func(what string) {
		t.Helper()
		got, gotID, ok := j.Lookup("far")
		if !ok || gotID != id || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d receipts, id %d, %v", what, len(got.Receipts), gotID, ok)
		}
		n := 0
		for _, left := range j.Left(t.Context()) {
			if n++; left.Token != r.Token {
				t.Errorf("%s: %v is left", what, left.Token)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d are left", what, n)
		}
	}
	look("at once")
	if _, err := j.Begin(t.Context(), large("near")); err != nil {
		t.Fatal(err)
	}
	look("beside one that was begun here")
	must.Do(t, j.Clear(t.Context(), id))
	if _, _, ok := j.Lookup("far"); ok {
		t.Error("it is there after it was cleared")
	}
}
