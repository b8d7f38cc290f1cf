package manifest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files")

func write(t interface{ Fatalf(string, ...any) }, h Header, entries []mover.Entry) ([]byte, Summary) {
	var b bytes.Buffer
	w, err := NewWriter(&b, h)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatalf("write %q: %v", entries[i].Name, err)
		}
	}
	sum, err := w.Close()
	if err != nil {
		t.Fatalf("close: %v", err)
	}
	return b.Bytes(), sum
}

func read(r io.Reader) (all []mover.Entry, sum Summary, err error) {
	m, err := NewReader(r)
	if err != nil {
		return nil, Summary{}, err
	}
	defer m.Close()
	for {
		e, err := m.Next()
		if err == io.EOF {
			return all, m.Summary(), nil
		}
		if err != nil {
			return all, Summary{}, err
		}
		all = append(all, e)
	}
}

func plain(t interface{ Fatalf(string, ...any) }, packed []byte) []byte {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer d.Close()
	text, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return text
}

// example has one entry for each thing that the format can say.
func example() []mover.Entry {
	const stated = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime
	return []mover.Entry{
		{Name: "", Kind: mover.Dir, Known: stated, Mode: 0o755, Mtime: mover.Time{Sec: 1700000000}},
		{Name: "a.txt", Kind: mover.File, Known: stated | mover.FactCRC | mover.FactAtime | mover.FactCtime, Size: 9, Mode: 0o4755, UID: 1000, GID: 100,
			Mtime: mover.Time{Sec: 1700000000, Nsec: 1}, Atime: mover.Time{Sec: 1}, Ctime: mover.Time{Sec: 2},
			CRC: 0xae8b14860a799888, ETag: `"0123-2"`, Version: "v.1"},
		{Name: "a", Kind: mover.Dir, Known: stated | mover.FactXattrs, Mode: 0o1777, Mtime: mover.Time{Sec: -1, Nsec: 500_000_000},
			Xattrs: []mover.Xattr{{Name: "user.a", Value: []byte("b")}, {Name: "user.\xff", Value: []byte{}}}},
		{Name: "a/before 1678", Kind: mover.File, Known: stated | mover.FactXattrs, Mtime: mover.Time{Sec: -1 << 63}, Xattrs: []mover.Xattr{}},
		{Name: "a/device", Kind: mover.BlockDevice, Known: stated, Rdev: 0x801},
		{Name: "a/empty sparse", Kind: mover.File, Known: mover.FactHoles, Size: 1 << 40},
		{Name: "a/fifo", Kind: mover.FIFO},
		{Name: "a/link 1", Kind: mover.File, Known: mover.FactLinks, Nlink: 3, Dev: 9, Ino: 77, Size: 4},
		{Name: "a/link 2", Kind: mover.File, Known: mover.FactLinks, Nlink: 3, Dev: 9, Ino: 77, Size: 4},
		{Name: "a/newline\n\"quoted\" \\ \x01\u2028", Kind: mover.Socket},
		{Name: "a/sparse", Kind: mover.File, Known: mover.FactHoles, Size: 100, Data: []mover.Segment{{Start: 10, End: 20}, {Start: 30, End: 100}}},
		{Name: "a/symlink", Kind: mover.Symlink, Target: "../\xfe"},
		{Name: "\xff\xfe", Kind: mover.CharDevice, Rdev: 1<<64 - 1},
		{Name: "\xff\xff", Kind: mover.Symlink, Target: "é"},
	}
}

func TestGolden(t *testing.T) {
	h := Header{Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Source: "/data"}
	packed, sum := write(t, h, example())
	text := plain(t, packed)
	golden := filepath.Join("testdata", "v1.jsonl")
	if *update {
		must.Do(t, os.WriteFile(golden, text, 0o644))
		must.Do(t, os.WriteFile(golden+".zst", packed, 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if !bytes.Equal(text, want) {
		t.Errorf("it is written as\n%s\nwant\n%s", text, want)
	}
	for _, file := range []string{golden, golden + ".zst"} {
		f, err := os.Open(file)
		must.Do(t, err)
		defer f.Close()
		got, gotSum, err := read(f)
		if err != nil || gotSum != sum {
			t.Fatalf("%s: %v, %+v", file, err, gotSum)
		}
		compare(t, got, example())
	}
}

// compare wants equal entries; inodes only have to make the same groups.
func compare(t interface{ Fatalf(string, ...any) }, got, want []mover.Entry) {
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	first := func(all []mover.Entry, e mover.Entry) int {
		return slices.IndexFunc(all, func(o mover.Entry) bool { return o.Dev == e.Dev && o.Ino == e.Ino && o.Nlink > 1 })
	}
	for i := range want {
		g, w := got[i], want[i]
		if w.Kind != mover.Dir {
			if linked(&w) && first(got, g) != first(want, w) {
				t.Fatalf("%q is in another group", w.Name)
			}
			w.Nlink = max(w.Nlink, 1)
			w.Known |= mover.FactLinks
		}
		g.Dev, g.Ino, w.Dev, w.Ino = 0, 0, 0, 0
		if !reflect.DeepEqual(g, w) {
			t.Fatalf("read    %+v\nwritten %+v", g, w)
		}
	}
}

func genTime(t *rapid.T) mover.Time {
	return mover.Time{
		Sec:  rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 2)).Draw(t, "sec"),
		Nsec: int32(rapid.OneOf(rapid.Int64Range(0, second-1), rapid.Just[int64](0)).Draw(t, "nsec")),
	}
}

func genEntry(t *rapid.T) mover.Entry {
	raw := func(label string) string {
		return string(rapid.SliceOfN(rapid.OneOf(rapid.ByteRange(1, 46), rapid.ByteRange(48, 255)), 1, 6).Draw(t, label))
	}
	e := mover.Entry{
		Name:  strings.ReplaceAll(raw("name"), ".", "_"),
		Kind:  mover.Kind(rapid.IntRange(int(mover.File), int(mover.BlockDevice)).Draw(t, "kind")),
		Known: mover.Facts(rapid.Uint16Range(0, 1<<9-1).Draw(t, "known")) &^ (mover.FactHoles | mover.FactLinks),
	}
	if e.Known.Has(mover.FactMode) {
		e.Mode = rapid.Uint32Range(0, 0o7777).Draw(t, "mode")
	}
	if e.Known.Has(mover.FactOwner) {
		e.UID = rapid.Uint32().Draw(t, "uid")
	}
	if e.Known.Has(mover.FactGroup) {
		e.GID = rapid.Uint32().Draw(t, "gid")
	}
	for _, c := range []struct {
		fact mover.Facts
		at   *mover.Time
	}{{mover.FactMtime, &e.Mtime}, {mover.FactAtime, &e.Atime}, {mover.FactCtime, &e.Ctime}} {
		if e.Known.Has(c.fact) {
			*c.at = genTime(t)
		}
	}
	if e.Known.Has(mover.FactXattrs) {
		e.Xattrs = []mover.Xattr{}
		names := map[string]bool{}
		for range rapid.IntRange(0, 3).Draw(t, "xattrs") {
			names[raw("xattr name")] = true
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			value := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "value")
			e.Xattrs = append(e.Xattrs, mover.Xattr{Name: name, Value: append([]byte{}, value...)})
		}
	}
	switch e.Kind {
	case mover.File:
		e.Size = rapid.Int64Range(0, 1<<50).Draw(t, "size")
		if rapid.Bool().Draw(t, "crc") {
			e.Known, e.CRC = e.Known|mover.FactCRC, rapid.Uint64().Draw(t, "crc value")
		}
		if e.Size > 2 && rapid.Bool().Draw(t, "holes") {
			e.Known |= mover.FactHoles
			e.Data = []mover.Segment{{Start: 0, End: 1}, {Start: e.Size - 1, End: e.Size}}
		}
		if rapid.Bool().Draw(t, "stored") {
			e.ETag = "e" + rapid.StringN(0, 4, 9).Draw(t, "etag")
		}
	case mover.Symlink:
		e.Target = raw("target")
	case mover.CharDevice, mover.BlockDevice:
		e.Rdev = rapid.Uint64().Draw(t, "rdev")
	}
	if e.Kind != mover.Dir && rapid.Bool().Draw(t, "hard link") {
		e.Known |= mover.FactLinks
		e.Nlink, e.Ino, e.Dev = 3, rapid.Uint64Range(1, 3).Draw(t, "inode"), 1
	}
	return e
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(genEntry), 0, 20).Draw(t, "entries")
		slices.SortFunc(entries, func(a, b mover.Entry) int { return mover.Compare(&a, &b) })
		entries = slices.CompactFunc(entries, func(a, b mover.Entry) bool { return mover.Compare(&a, &b) == 0 })
		count := map[uint64]uint32{}
		for i := range entries { // an inode has as many names as it says, or some are elsewhere
			if count[entries[i].Ino]++; count[entries[i].Ino] > 3 {
				entries[i].Known, entries[i].Nlink = entries[i].Known&^mover.FactLinks, 0
			}
		}
		packed, sum := write(t, Header{}, entries)
		got, gotSum, err := read(bytes.NewReader(packed))
		if err != nil || gotSum != sum {
			t.Fatalf("%v, %+v, want %+v\n%s", err, gotSum, sum, plain(t, packed))
		}
		compare(t, got, entries)
		again, _ := write(t, Header{}, got)
		if !bytes.Equal(again, packed) {
			t.Fatalf("what was read is written as\n%s\nwant\n%s", plain(t, again), plain(t, packed))
		}
	})
}

// TestDigest wants the digest to be of what is equal between copies, and of nothing else.
func TestDigest(t *testing.T) {
	digest := func(change func(e *mover.Entry)) string {
		all := example()
		change(&all[1])
		_, sum := write(t, Header{}, all)
		return sum.Digest
	}
	same := digest(func(*mover.Entry) {})
	_, labelled := write(t, Header{Source: "elsewhere", Created: time.Now()}, example())
	if labelled.Digest != same {
		t.Error("the header counts")
	}
	for what, change := range map[string]func(*mover.Entry){
		"atime": func(e *mover.Entry) { e.Atime.Sec++ },
		"ctime": func(e *mover.Entry) { e.Ctime.Sec++ },
		"etag":  func(e *mover.Entry) { e.ETag = "x" },
		"inode": func(e *mover.Entry) { e.Ino++ },
		"holes": func(e *mover.Entry) { e.Known |= mover.FactHoles },
	} {
		if digest(change) != same {
			t.Errorf("%s counts", what)
		}
	}
	for what, change := range map[string]func(*mover.Entry){
		"content": func(e *mover.Entry) { e.CRC++ },
		"size":    func(e *mover.Entry) { e.Size++ },
		"name":    func(e *mover.Entry) { e.Name = "a.tx" },
		"mode":    func(e *mover.Entry) { e.Mode = 0 },
		"owner":   func(e *mover.Entry) { e.UID++ },
		"mtime":   func(e *mover.Entry) { e.Mtime.Nsec++ },
		"xattrs":  func(e *mover.Entry) { e.Known |= mover.FactXattrs },
	} {
		if digest(change) == same {
			t.Errorf("%s does not count", what)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	for what, entries := range map[string][]mover.Entry{
		"order":    {{Name: "b", Kind: mover.File}, {Name: "a", Kind: mover.File}},
		"twice":    {{Name: "a", Kind: mover.File}, {Name: "a", Kind: mover.File}},
		"escape":   {{Name: "../a", Kind: mover.File}},
		"kind":     {{Name: "a"}},
		"size":     {{Name: "a", Kind: mover.File, Size: -1}},
		"sum":      {{Name: "a", Kind: mover.File, Size: 1<<63 - 1}, {Name: "b", Kind: mover.File, Size: 1}},
		"target":   {{Name: "a", Kind: mover.Symlink}},
		"segments": {{Name: "a", Kind: mover.File, Size: 5, Known: mover.FactHoles, Data: []mover.Segment{{Start: 3, End: 6}}}},
		"xattrs":   {{Name: "a", Kind: mover.File, Xattrs: []mover.Xattr{{Name: "b"}, {Name: "a"}}}},
	} {
		var b bytes.Buffer
		w, err := NewWriter(&b, Header{})
		must.Do(t, err)
		for i := range entries {
			err = w.Write(&entries[i])
		}
		if !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := w.Close(); err == nil {
			t.Errorf("%s: it was closed as if it were whole", what)
		}
		if _, _, err := read(&b); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: it is read as if it were whole: %v", what, err)
		}
	}
}

//safety:8 with mover/engine/plan TestManyNamesBetween
func TestManyHoles(t *testing.T) {
	e := mover.Entry{Name: "a", Kind: mover.File, Size: 1 << 30, Known: mover.FactHoles}
	for i := range int64(maxSegments + 1) {
		e.Data = append(e.Data, mover.Segment{Start: 10 * i, End: 10*i + 1})
	}
	packed, _ := write(t, Header{}, []mover.Entry{e})
	got, _, err := read(bytes.NewReader(packed))
	must.Do(t, err)
	data := got[0].Data
	if len(data) > maxSegments || data[0].Start != 0 || data[len(data)-1].End != e.Data[maxSegments].End {
		t.Errorf("%d segments, from %v to %v", len(data), data[0], data[len(data)-1])
	}
}

// TestManyLongLeaders opens more groups of hard links than may be remembered by the
// bytes of their names: those beyond are files of their own, and who claims more is
// refused.
func TestManyLongLeaders(t *testing.T) {
	long := strings.Repeat("/"+strings.Repeat("n", 255), maxName/256-1)
	var entries []mover.Entry
	hostile := []string{`{"format":"datamove-manifest","version":1}`}
	for i := range uint64(maxLeaders/len(long) + 10) {
		e := mover.Entry{Name: fmt.Sprintf("%05d", i) + long, Kind: mover.FIFO, Known: mover.FactLinks, Ino: i + 1, Nlink: 2}
		entries = append(entries, e)
		hostile = append(hostile, fmt.Sprintf(`{"name":%q,"kind":"fifo","links":2}`, e.Name))
	}
	packed, _ := write(t, Header{}, entries)
	got, _, err := read(bytes.NewReader(packed))
	if err != nil || got[0].Nlink != 2 || got[len(got)-1].Nlink != 1 {
		t.Errorf("%d entries: %v", len(got), err)
	}
	_, _, err = read(strings.NewReader(strings.Join(hostile, "\n") + "\n"))
	if !errors.Is(err, mover.ErrCorrupt) || !strings.Contains(err.Error(), "too many groups") {
		t.Error(err)
	}
}

// TestCutOff cuts a manifest at every byte, compressed and plain.
//
//safety:2 with TestFlippedBits
func TestCutOff(t *testing.T) {
	packed, _ := write(t, Header{}, example())
	for _, whole := range [][]byte{packed, plain(t, packed)} {
		for n := range whole {
			if _, _, err := read(bytes.NewReader(whole[:n])); !errors.Is(err, mover.ErrCorrupt) {
				t.Fatalf("cut at %d of %d: %v", n, len(whole), err)
			}
		}
	}
}

// TestFlippedBits flips every bit of the plain text: nothing of it is read as whole,
// but for the header's notes.
//
//safety:2 a manifest that was changed, or ends too early
func TestFlippedBits(t *testing.T) {
	packed, _ := write(t, Header{}, example()[:3])
	whole := plain(t, packed)
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			got, _, err := read(bytes.NewReader(b))
			if err == nil && !reflect.DeepEqual(facts(got), facts(example()[:3])) {
				t.Fatalf("bit %d of byte %d: read as whole\n%s", bit, i, b)
			}
		}
	}
}

// facts is what the digest vouches for.
func facts(all []mover.Entry) (text []string) {
	for i := range all {
		text = append(text, string(appendEntry(nil, &all[i], "", true)))
	}
	return text
}

func TestBrokenReader(t *testing.T) {
	broken := errors.New("connection reset")
	packed, _ := write(t, Header{}, example())
	for n := range len(packed) - 1 {
		r := io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(broken))
		if _, _, err := read(r); !errors.Is(err, broken) || errors.Is(err, mover.ErrCorrupt) {
			t.Fatalf("at %d: %v", n, err)
		}
	}
}

//safety:6 names in a manifest
func TestHostileLines(t *testing.T) {
	const header, end = `{"format":"datamove-manifest","version":1}`, `{"end":true,"entries":1,"bytes":0,"digest":""}`
	for what, lines := range map[string][]string{
		"empty":            {},
		"other format":     {`{"format":"x","version":1}`},
		"no JSON":          {`hello`},
		"escape":           {header, `{"name":"../x","kind":"fifo"}`},
		"absolute":         {header, `{"name":"/x","kind":"fifo"}`},
		"zero byte":        {header, `{"name":"a\u0000","kind":"fifo"}`},
		"half a surrogate": {header, `{"name":"\ud800","kind":"fifo"}`},
		"no UTF-8":         {header, "{\"name\":\"\xff\",\"kind\":\"fifo\"}"},
		"base64":           {header, `{"name64":"=","kind":"fifo"}`},
		"twice":            {header, `{"name":"a","name64":"YQ==","kind":"fifo"}`},
		"other case":       {header, `{"Name":"a","kind":"fifo"}`},
		"no kind":          {header, `{"name":"a"}`},
		"kind none":        {header, `{"name":"a","kind":"none"}`},
		"negative size":    {header, `{"name":"a","kind":"file","size":-1}`},
		"huge size":        {header, `{"name":"a","kind":"file","size":9223372036854775808}`},
		"size of a fifo":   {header, `{"name":"a","kind":"fifo","size":0}`},
		"no size":          {header, `{"name":"a","kind":"file"}`},
		"mode":             {header, `{"name":"a","kind":"fifo","mode":"99"}`},
		"time":             {header, `{"name":"a","kind":"fifo","mtime":"1e9"}`},
		"minus nothing":    {header, `{"name":"a","kind":"fifo","mtime":"-0.000000000"}`},
		"link nowhere":     {header, `{"name":"a","kind":"fifo","link":"0","links":2}`},
		"too many names": {header, `{"name":"a","kind":"fifo","links":2}`, `{"name":"b","kind":"fifo","link":"a","links":2}`,
			`{"name":"c","kind":"fifo","link":"a","links":2}`},
		"behind the end":  {header, `{"name":"a","kind":"fifo"}`, end, end},
		"wrong digest":    {header, `{"name":"a","kind":"fifo"}`, end},
		"endless":         {header, `{"name":"` + strings.Repeat("a", maxLine)},
		"long name":       {header, `{"name":"` + strings.Repeat("a", maxName+1) + `","kind":"fifo"}`},
		"deep":            {header, `{"xattrs":` + strings.Repeat("[", 1<<20)},
		"endless xattrs":  {header, `{"xattrs":[[`},
		"more behind":     {header, `{"name":"a","kind":"fifo"}{}`},
		"a comma too few": {header, `{"name":"a""kind":"fifo"}`},
	} {
		_, _, err := read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
		if !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, err := read(strings.NewReader(`{"format":"datamove-manifest","version":2}` + "\n"))
	if !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("version 2: %v", err)
	}
}

//safety:4/datasets with mover/coordinator TestManifests
//safety:6 with TestHostileLines
func FuzzReader(f *testing.F) {
	packed, _ := write(f, Header{Source: "x"}, example())
	f.Add(packed)
	f.Add(plain(f, packed))
	f.Add([]byte(`{"format":"datamove-manifest","version":1}` + "\n" + `{"name":"\ud83d\ude00\n","kind":"dir","mode":"0755","mtime":"-0.500000000"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, sum, err := read(bytes.NewReader(b))
		last := mover.Entry{}
		for i, e := range got {
			if why := problem(&e); why != "" || i > 0 && mover.Compare(&last, &e) >= 0 {
				t.Fatalf("read %+v: %s", e, why)
			}
			last = e
		}
		if err != nil {
			return
		}
		if _, again := write(t, Header{}, got); again != sum {
			t.Fatalf("read as %+v, written as %+v", sum, again)
		}
	})
}

// FuzzLine writes lines again that were read without their manifest.
//
//safety:6 with TestHostileLines
func FuzzLine(f *testing.F) {
	for _, e := range example() {
		f.Add(string(appendEntry(nil, &e, "", false)))
	}
	f.Add(`{"name":"\ud83d\ude00\n","kind":"dir","mode":"0755","mtime":"-0.500000000"}`)
	f.Fuzz(func(t *testing.T, line string) {
		var first, second record
		if first.decode([]byte(line)) != "" {
			return
		}
		again := appendEntry(nil, &first.entry, first.link, false)
		if why := second.decode(again); why != "" && first.links < 2 {
			t.Fatalf("%q is written as %q: %s", line, again, why)
		} else if why == "" && !reflect.DeepEqual(first.entry, second.entry) {
			t.Fatalf("%q is written as %q", line, again)
		}
	})
}

func many(n int) []mover.Entry {
	all := make([]mover.Entry, n)
	for i := range all {
		all[i] = mover.Entry{
			Name: fmt.Sprintf("train/part-%04d/image-%08d.jpg", i/1000, i), Kind: mover.File, Size: int64(i) * 7, Mode: 0o644, UID: 1000, GID: 1000,
			Mtime: mover.Time{Sec: 1700000000 + int64(i), Nsec: int32(i)}, CRC: uint64(i) * 0x9e3779b97f4a7c15, ETag: fmt.Sprintf("%032x", i),
			Known: mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactCRC,
		}
	}
	return all
}

func BenchmarkWrite(b *testing.B) {
	all := many(100_000)
	b.ReportAllocs()
	for b.Loop() {
		packed, _ := write(b, Header{}, all)
		b.ReportMetric(float64(len(packed))/float64(len(all)), "bytes/entry")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/entry")
}

func BenchmarkRead(b *testing.B) {
	all := many(100_000)
	packed, _ := write(b, Header{}, all)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range Entries(bytes.NewReader(packed)) {
			must.Do(b, err)
			n++
		}
		if n != len(all) {
			b.Fatalf("%d entries", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/entry")
}
