package mover_test

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	_ "datamove.dev/test/seed/property" // of rapid
)

// names are drawn from what could confuse an order: segments around '/', which
// has the byte 0x2f.
var names = rapid.StringMatching(`([a!.0\xff-]{1,3}(/[a!.0-]{1,3}){0,3})?`)

func entry(t *rapid.T, label string) mover.Entry {
	e := mover.Entry{Name: names.Draw(t, label), Kind: mover.File}
	if rapid.Bool().Draw(t, label+" is a directory") {
		e.Kind = mover.Dir
	}
	return e
}

// key is the entry as an S3 listing knows it.
func key(e *mover.Entry) string {
	if e.Kind == mover.Dir && e.Name != "" {
		return e.Name + "/"
	}
	return e.Name
}

// TestCompare is the definition of the order: bytes of keys.
func TestCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := entry(t, "a"), entry(t, "b")
		if got, want := sign(mover.Compare(&a, &b)), cmp.Compare(key(&a), key(&b)); got != want {
			t.Errorf("Compare(%q, %q) = %d, want %d", key(&a), key(&b), got, want)
		}
	})
}

// TestCompareIsTotal sorts, which only a total order does the same way from any start.
func TestCompareIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) mover.Entry { return entry(t, "entry") }), 0, 12).Draw(t, "entries")
		other := slices.Clone(all)
		slices.Reverse(other)
		by := func(a, b mover.Entry) int { return mover.Compare(&a, &b) }
		slices.SortFunc(all, by)
		slices.SortFunc(other, by)
		for i := range all {
			if key(&all[i]) != key(&other[i]) {
				t.Fatalf("two orders: %q and %q at %d", key(&all[i]), key(&other[i]), i)
			}
			if i > 0 && mover.Compare(&all[i-1], &all[i]) > 0 {
				t.Fatalf("%q before %q", key(&all[i-1]), key(&all[i]))
			}
		}
	})
}

func sign(n int) int { return max(-1, min(1, n)) }

//safety:6 what a name may be
func TestValidName(t *testing.T) {
	for name, valid := range map[string]bool{
		"": true, "a": true, "a/b": true, "...": true, ".a": true, "a./b": true, "\xff\n": true, strings.Repeat("a/", 5000) + "a": true,
		"/": false, "/a": false, "a/": false, "a//b": false, ".": false, "..": false, "a/..": false, "../a": false, "a/./b": false, "a\x00b": false,
	} {
		if mover.ValidName(name) != valid {
			t.Errorf("ValidName(%q) = %v", name, !valid)
		}
	}
}

func TestValidBucket(t *testing.T) {
	for name, valid := range map[string]bool{
		"abc": true, "my-bucket.site": true, "Old_Bucket": true, "tenant:bucket": true, strings.Repeat("a", 255): true,
		"": false, "ab": false, ".ab": false, "..a": false, "-ab": false, ":ab": false, "a/b": false, "a b": false, "a@b": false, "ab\n": false, "a\x00b": false,
		"bücket": false, "a%2fb": false, strings.Repeat("a", 256): false,
	} {
		if mover.ValidBucket(name) != valid {
			t.Errorf("ValidBucket(%q) = %v", name, !valid)
		}
	}
}

func TestParentAndWithin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := names.Draw(t, "name")
		dir, base := mover.Parent(name)
		if mover.Join(dir, base) != name || !mover.Within(name, dir) || !mover.Within(name, name) || !mover.Within(name, "") {
			t.Errorf("Parent(%q) = %q, %q", name, dir, base)
		}
		other := names.Draw(t, "other")
		if want := other == "" || name == other || strings.HasPrefix(name, other+"/"); mover.Within(name, other) != want {
			t.Errorf("Within(%q, %q) = %v", name, other, !want)
		}
	})
}

// FuzzParseTempName shows that a name is taken for a temporary one only when an
// owner gives it: what a walk ignores is nothing that a user can have meant.
//
//safety:1 with mover/backend/posix FuzzToken
func FuzzParseTempName(f *testing.F) {
	for _, s := range []string{
		"", ".datamove-", ".datamove-a-0-0", ".datamove-task-1z-zz", ".datamove-a-0-0-0", ".datamove-A-0-0", ".datamove-a-00-0",
		".datamove-a-+1-0", ".datamove-abcdefghijklmnopq-1-1", ".datamove-a-3w5e11264sgsg-1", "x.datamove-a-0-0",
	} {
		f.Add(s, uint64(7), uint64(9))
	}
	f.Fuzz(func(t *testing.T, s string, epoch, n uint64) {
		if o, n, ok := mover.ParseTempName(s); ok && o.TempName(n) != s {
			t.Errorf("%q is read as %v, %d, whose name is %q", s, o, n, o.TempName(n))
		}
		given := mover.WriterID{Task: s, Epoch: epoch}
		name := given.TempName(n)
		o, m, ok := mover.ParseTempName(name)
		if ok && (o != given || m != n || strings.Contains(name, "/") || !mover.ValidName(name)) {
			t.Errorf("%q, the name of %v, %d, is read as %v, %d", name, given, n, o, m)
		}
		if !ok && len(s) > 0 && len(s) <= 16 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
			t.Errorf("the name of %v is not recognised: %q", given, name)
		}
	})
}

func TestErrorPrints(t *testing.T) {
	for _, row := range []struct {
		err  mover.Error
		want string
	}{
		{mover.Error{Op: "open", Location: "s3://cold/vision", Name: "part-0007", Err: fs.ErrNotExist}, "open s3://cold/vision/part-0007: file does not exist"},
		{mover.Error{Op: "stat", Location: "/", Name: "etc", Err: fs.ErrNotExist}, "stat /etc: file does not exist"},
		{mover.Error{Op: "lock", Location: "/target", Err: mover.ErrHeld}, "lock /target: held by another run"},
		{mover.Error{Op: "read", Name: "a", Err: mover.ErrCorrupt}, "read a: checksum mismatch"},
		{mover.Error{Op: "open", Location: "/d", Name: "a\nok: b\x1b[2J", Err: fs.ErrNotExist}, `open "/d/a\nok: b\x1b[2J": file does not exist`},
		{mover.Error{Op: "open", Location: "/d", Name: "\xff", Err: fs.ErrNotExist}, `open "/d/\xff": file does not exist`},
	} {
		if got := row.err.Error(); got != row.want {
			t.Errorf("%+v prints %q, want %q", row.err, got, row.want)
		}
		if !errors.Is(&row.err, row.err.Err) {
			t.Errorf("%+v hides its kind", row.err)
		}
	}
}

func TestKept(t *testing.T) {
	for _, row := range []struct {
		total   int64
		percent int
		want    int64
	}{{0, 10, 0}, {1000, 0, 0}, {1000, 10, 100}, {16 << 20, 50, 8 << 20}, {199, 50, 99}, {math.MaxInt64, 100, math.MaxInt64}, {math.MaxInt64, 99, 9131138316486228048}} {
		if got := mover.Kept(row.total, row.percent); got != row.want {
			t.Errorf("%d%% of %d: %d, want %d", row.percent, row.total, got, row.want)
		}
	}
}

func TestKindsAreDistinct(t *testing.T) {
	for i, a := range mover.Kinds() {
		for j, b := range mover.Kinds() {
			if (i == j) != errors.Is(a, b) {
				t.Errorf("%v and %v: errors.Is = %v", a, b, i != j)
			}
		}
	}
}

func TestTime(t *testing.T) {
	for _, sec := range []int64{math.MinInt32, -1, 0, 1, 1 << 33, -20_000_000_000, 20_000_000_000} {
		for _, nsec := range []int32{0, 1, 999_999_999} {
			at := mover.Time{Sec: sec, Nsec: nsec}
			if got := mover.TimeOf(at.Std()); got != at {
				t.Errorf("%+v comes back as %+v", at, got)
			}
			if later := (mover.Time{Sec: sec + 1}); !later.After(at) || at.After(later) || at.After(at) {
				t.Errorf("%+v and %+v are out of order", at, later)
			}
		}
	}
	if got := mover.TimeOf(time.Unix(1, -1)); got != (mover.Time{Nsec: 999_999_999}) {
		t.Errorf("before the second: %+v", got)
	}
}

func TestKindNames(t *testing.T) {
	for k := mover.File; k <= mover.BlockDevice; k++ {
		if got, ok := mover.ParseKind(k.String()); !ok || got != k {
			t.Errorf("%v is read as %v, %v", k, got, ok)
		}
	}
	for _, s := range []string{"", "none", "invalid", "File"} {
		if k, ok := mover.ParseKind(s); ok {
			t.Errorf("%q is read as %v", s, k)
		}
	}
}

// TestTake: one fact brings its fields and no others; all of them bring everything
// but what an entry is.
func TestTake(t *testing.T) {
	from := mover.Entry{
		Mode: 0o4755, UID: 1, GID: 2, Mtime: mover.Time{Sec: 3}, Atime: mover.Time{Sec: 4}, Ctime: mover.Time{Sec: 5},
		Xattrs: []mover.Xattr{{Name: "user.a"}}, CRC: 6, Dev: 7, Ino: 8, Gen: 9, Nlink: 10, Stored: 11, Data: []mover.Segment{{End: 12}},
	}
	var all mover.Entry
	for fact := mover.FactMode; fact <= mover.FactCRC; fact <<= 1 {
		var e mover.Entry
		e.Take(&from, fact)
		if e.Known != fact || reflect.DeepEqual(e, mover.Entry{Known: fact}) {
			t.Errorf("fact %b brought %+v", fact, e)
		}
		all.Take(&from, fact)
	}
	from.Known = all.Known
	if !reflect.DeepEqual(all, from) {
		t.Errorf("all facts are %+v, want %+v", all, from)
	}
}
