package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

const described = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactCtime | mover.FactXattrs | mover.FactLinks

// dataset is what a walk that hashes finds on a file system.
func dataset() []mover.Entry {
	return []mover.Entry{
		{Name: "", Kind: mover.Dir, Known: described, Mode: 0o755},
		{Name: "empty", Kind: mover.Dir, Known: described, Mode: 0o700},
		{Name: "images", Kind: mover.Dir, Known: described, Mode: 0o755, Mtime: mover.Time{Sec: 5}},
		{Name: "images/1.png", Kind: mover.File, Known: described | mover.FactCRC, Size: 9, Mode: 0o644, CRC: 0xae8b14860a799888, UID: 1000, GID: 100,
			Mtime: mover.Time{Sec: 1700000000, Nsec: 1}, Nlink: 2, Dev: 1, Ino: 7},
		{Name: "images/2.png", Kind: mover.File, Known: described | mover.FactCRC, Size: 9, Mode: 0o644, CRC: 0xae8b14860a799888, UID: 1000, GID: 100,
			Mtime: mover.Time{Sec: 1700000000, Nsec: 1}, Nlink: 2, Dev: 1, Ino: 7},
		{Name: "images/\xff", Kind: mover.File, Known: described | mover.FactCRC, Mode: 0o400},
		{Name: "latest", Kind: mover.Symlink, Known: described, Mode: 0o777, Target: "images/2.png"},
		{Name: "null", Kind: mover.CharDevice, Known: described, Mode: 0o666, Rdev: 259},
	}
}

func digestOf(t interface{ Fatalf(string, ...any) }, entries []mover.Entry) string {
	packed, _ := write(t, Header{}, entries)
	digest, _, _, err := Digest(bytes.NewReader(packed))
	if err != nil {
		t.Fatalf("digest: %v", err)
	}
	return digest
}

// TestDigestGolden holds the digest of a dataset as it is: when it changes, no
// dataset in the world is found any more by its digest.
func TestDigestGolden(t *testing.T) {
	const text = `{"format":"datamove-dataset","version":1}
{"name":"empty","kind":"dir","mode":"0700"}
{"name":"images","kind":"dir","mode":"0755"}
{"name":"images/1.png","kind":"file","size":9,"mode":"0644","crc64nvme":"ae8b14860a799888"}
{"name":"images/2.png","kind":"file","size":9,"mode":"0644","crc64nvme":"ae8b14860a799888"}
{"name64":"aW1hZ2VzL/8=","kind":"file","size":0,"mode":"0400","crc64nvme":"0000000000000000"}
{"name":"latest","kind":"symlink","target":"images/2.png"}
{"name":"null","kind":"chardev","mode":"0666","rdev":259}
`
	const want = "03354b1d6ad8c1e242a81c78e4df6041593340b9f95da3dd83fd2ff893ad1cbc"
	if sum := sha256.Sum256([]byte(text)); hex.EncodeToString(sum[:]) != want {
		t.Errorf("the canonical text has the digest %x", sum)
	}
	packed, _ := write(t, Header{Source: "/data"}, dataset())
	got, entries, size, err := Digest(bytes.NewReader(packed))
	if err != nil || got != want || entries != 7 || size != 18 {
		t.Errorf("Digest = %s, %d, %d, %v; want %s, 7, 18", got, entries, size, err, want)
	}
	if got := digestOf(t, nil); got != "8f62bda76ecb2bcd90cabbd00f0de12f92ef1ff970a32d02f02bf1823741700b" {
		t.Errorf("the empty dataset has the digest %s", got)
	}
}

// TestDigestTellsContent changes one fact at a time: what a dataset is changes the
// digest, and what happened to a replica of it does not.
func TestDigestTellsContent(t *testing.T) {
	first := digestOf(t, dataset())
	for _, c := range []struct {
		what   string
		change func(all []mover.Entry) []mover.Entry
		same   bool
	}{
		{"staged by another user", func(all []mover.Entry) []mover.Entry { all[3].UID, all[3].GID = 0, 0; return all }, true},
		{"other times", func(all []mover.Entry) []mover.Entry { all[3].Mtime = mover.Time{Sec: 1}; return all }, true},
		{"owners are not known", func(all []mover.Entry) []mover.Entry { all[3].Known = mover.FactMode | mover.FactCRC; return all }, true},
		{"an attribute more", func(all []mover.Entry) []mover.Entry {
			all[3].Xattrs = []mover.Xattr{{Name: "user.a", Value: []byte("b")}}
			return all
		}, true},
		{"two files instead of two names of one", func(all []mover.Entry) []mover.Entry { all[3].Nlink, all[4].Nlink = 1, 1; return all }, true},
		{"holes", func(all []mover.Entry) []mover.Entry {
			all[3].Known |= mover.FactHoles
			all[3].Data = []mover.Segment{{Start: 3, End: 9}}
			return all
		}, true},
		{"an ETag", func(all []mover.Entry) []mover.Entry { all[3].ETag, all[3].Version = "x", "y"; return all }, true},
		{"another root", func(all []mover.Entry) []mover.Entry { all[0].Mode = 0o700; return all }, true},
		{"no root", func(all []mover.Entry) []mover.Entry { return all[1:] }, true},
		{"mode of a link", func(all []mover.Entry) []mover.Entry { all[6].Mode = 0o755; return all }, true},

		{"another name", func(all []mover.Entry) []mover.Entry { all[3].Name = "images/0.png"; return all }, false},
		{"another kind", func(all []mover.Entry) []mover.Entry { all[7].Kind = mover.BlockDevice; return all }, false},
		{"another size", func(all []mover.Entry) []mover.Entry { all[3].Size++; return all }, false},
		{"another content", func(all []mover.Entry) []mover.Entry { all[3].CRC++; return all }, false},
		{"another mode", func(all []mover.Entry) []mover.Entry { all[3].Mode |= 0o111; return all }, false},
		{"another target", func(all []mover.Entry) []mover.Entry { all[6].Target = "images/1.png"; return all }, false},
		{"another device", func(all []mover.Entry) []mover.Entry { all[7].Rdev++; return all }, false},
		{"one less", func(all []mover.Entry) []mover.Entry { return all[:7] }, false},
		{"an empty directory less", func(all []mover.Entry) []mover.Entry { return append(all[:1], all[2:]...) }, false},
	} {
		if got := digestOf(t, c.change(dataset())); (got == first) != c.same {
			t.Errorf("%s: the digest is the same: %v, want %v", c.what, got == first, c.same)
		}
	}
}

func TestDigestRefuses(t *testing.T) {
	without := dataset()
	without[4].Known &^= mover.FactCRC
	packed, _ := write(t, Header{}, without)
	if _, _, _, err := Digest(bytes.NewReader(packed)); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "images/2.png") {
		t.Errorf("a file without a checksum: %v", err)
	}
	packed, _ = write(t, Header{}, dataset())
	text := plain(t, packed)
	for _, c := range []struct {
		what string
		text []byte
	}{
		{"nothing", nil},
		{"no manifest", []byte("hello\n")},
		{"cut off", text[:len(text)-20]},
		{"a size changed", bytes.Replace(text, []byte(`"size":9`), []byte(`"size":8`), 1)},
		{"a name that leads out", bytes.Replace(text, []byte(`"latest"`), []byte(`"../est"`), 1)},
		{"more behind the end", append(bytes.Clone(text), text...)},
	} {
		if digest, _, _, err := Digest(bytes.NewReader(c.text)); !errors.Is(err, mover.ErrCorrupt) || digest != "" {
			t.Errorf("%s: %q, %v; want it to be refused as damaged", c.what, digest, err)
		}
	}
}

// TestDigestIsOfTheSet: two datasets have one digest when, and only when, they have
// equal names with equal content.
func TestDigestIsOfTheSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		a, b := someEntries(seed), someEntries(seed)
		if i := rapid.IntRange(-1, len(b)-1).Draw(t, "changed"); i >= 0 {
			b[i].CRC ^= 1 << rapid.IntRange(0, 63).Draw(t, "bit")
			if digestOf(t, a) == digestOf(t, b) {
				t.Fatalf("a bit of a checksum does not count")
			}
			return
		}
		for i := range b {
			b[i].UID, b[i].Mtime = rapid.Uint32().Draw(t, "uid"), mover.Time{Sec: rapid.Int64().Draw(t, "mtime")}
			b[i].Known |= mover.FactOwner | mover.FactMtime
		}
		if digestOf(t, a) != digestOf(t, b) {
			t.Fatalf("owners and times count")
		}
	})
}

func someEntries(seed uint64) []mover.Entry {
	random := rand.New(rand.NewPCG(seed, 0))
	all := make([]mover.Entry, 1+random.IntN(20))
	for i := range all {
		all[i] = mover.Entry{Name: string(rune('a'+i)) + "\xff", Kind: mover.File, Known: mover.FactCRC, Size: random.Int64N(1 << 40), CRC: random.Uint64()}
	}
	return all
}

// TestDigestAs: what a store can not say of a dataset is no part of it, and a replica on a file system is one all the same; a
// content, a name or a mode more or less is not.
func TestDigestAs(t *testing.T) {
	bare := func(edit func([]mover.Entry) []mover.Entry) (entries []mover.Entry) {
		for _, e := range dataset() {
			if e.Kind == mover.File {
				e.Known &= mover.FactCRC
				entries = append(entries, e)
			}
		}
		return edit(entries)
	}
	files := func() (entries []mover.Entry) {
		for _, e := range dataset() {
			if e.Kind == mover.File || e.Kind == mover.Dir {
				entries = append(entries, e)
			}
		}
		return entries
	}
	as := func(original, replica []mover.Entry) (bool, int64) {
		of, _ := write(t, Header{}, original)
		r, _ := write(t, Header{}, replica)
		digest, entries, _, err := DigestAs(bytes.NewReader(r), bytes.NewReader(of))
		must.Do(t, err)
		return digest == digestOf(t, original), entries
	}
	all := func(e []mover.Entry) []mover.Entry { return e }
	changed := func(edit func([]mover.Entry) []mover.Entry) []mover.Entry { return edit(files()) }
	for _, c := range []struct {
		what              string
		original, replica []mover.Entry
		want              bool
	}{
		{"itself", dataset(), dataset(), true},
		{"a store's, on a file system", bare(all), files(), true},
		{"a store's, in a store", bare(all), bare(all), true},
		{"a file system's, in a store", dataset(), bare(all), false},
		{"a store's, of which one is missing", bare(all), changed(func(e []mover.Entry) []mover.Entry { return e[:len(e)-1] }), false},
		{"a store's, and one more", bare(func(e []mover.Entry) []mover.Entry { return e[1:] }), files(), false},
		{"a store's, with another content", bare(all), changed(func(e []mover.Entry) []mover.Entry { e[3].CRC++; return e }), false},
		{"a store's, with another size", bare(all), changed(func(e []mover.Entry) []mover.Entry { e[3].Size++; return e }), false},
		{"another mode", dataset(), func() []mover.Entry { e := dataset(); e[3].Mode = 0o600; return e }(), false},
	} {
		if got, _ := as(c.original, c.replica); got != c.want {
			t.Errorf("%s: the same is %v", c.what, got)
		}
	}
	if _, n := as(bare(all), files()); n != 3 {
		t.Errorf("%d entries count", n)
	}
	of, _ := write(t, Header{}, bare(all))
	r, _ := write(t, Header{}, files())
	if _, _, _, err := DigestAs(bytes.NewReader(r), bytes.NewReader(of[:len(of)/2])); err == nil {
		t.Error("half a manifest is the whole")
	}
}
