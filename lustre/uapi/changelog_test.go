package uapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// lfsLine is a record as lfs changelog prints it.
func lfsLine(c lustre.Change) string {
	line := fmt.Sprintf("%d %02d%-5s %s 0x%x t=%v ef=0x13 u=%d:%d nid=%s", c.Index, c.Type, c.Type,
		c.Time.Format("15:04:05.000000000 2006.01.02"), c.Flags, c.File, c.UID, c.GID, c.Client)
	if !c.Parent.IsZero() {
		line += " p=" + c.Parent.String()
	}
	if c.Name != "" {
		line += " " + c.Name
	}
	return line
}

// What was read from the device of a Lustre is what lfs printed of it. The fixture is cut
// within its 37th record.
func TestChangesOfALustre(t *testing.T) {
	t.Parallel()
	raw := fixture(t, "changelog-raw-head")
	text := must.Get(os.ReadFile("testdata/changelog-head.txt"))(t)
	printed := bufio.NewScanner(bytes.NewReader(text))
	printed.Scan() // the command
	rest, n := raw, 0
	for ; ; n++ {
		c, size, err := DecodeChange(rest)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("the cut record: %v; want %v", err, ErrMalformed)
			}
			break
		}
		if !printed.Scan() || lfsLine(c) != printed.Text() {
			t.Fatalf("got  %s\nwant %s", lfsLine(c), printed.Text())
		}
		if again := AppendChange(nil, c, false); !bytes.Equal(again, rest[:size]) {
			t.Fatalf("record %d written again:\n%x\nit was\n%x", c.Index, again, rest[:size])
		}
		rest = rest[size:]
	}
	if n != 36 {
		t.Errorf("%d records; want 36", n)
	}
}

var changes = map[string]lustre.Change{
	"rename over a file": {
		Index: 7, Time: time.Unix(1795184235, 999999999).UTC(), Type: lustre.ChangeRename, Flags: 3,
		File: lustre.FID{Seq: 1, OID: 2}, Parent: lustre.FID{Seq: 3, OID: 4}, Name: "new",
		OldFile: lustre.FID{Seq: 5, OID: 6}, OldParent: lustre.FID{Seq: 7, OID: 8, Ver: 9}, OldName: "old",
		UID: 1001, GID: 1002, Client: "10.77.0.1@tcp", Known: lustre.KnowsOwner | lustre.KnowsClient,
	},
	"all there is": {
		Index: 1 << 60, Time: time.Unix(1, 0).UTC(), Type: lustre.ChangeOpen, Flags: 0xfff, Name: "a\nb\xff", OpenMode: 0x42, Xattr: "user.x", Job: "cp.1001",
		Client: "192.168.7.9@o2ib12", Known: lustre.KnowsOwner | lustre.KnowsClient | lustre.KnowsJob | lustre.KnowsOpenMode | lustre.KnowsXattr,
	},
	"an old server": {Index: 1, Time: time.Unix(0, 0).UTC(), Type: lustre.ChangeCreate, Name: "f"},
	"the log is off": {
		Index: 9, Time: time.Unix(2, 0).UTC(), Type: lustre.ChangeMark, Name: "lab-MDT0000", Marker: 0x20001,
	},
	"the server itself": {Index: 2, Time: time.Unix(3, 4).UTC(), Type: lustre.ChangeHSM, Flags: 0x680, Known: lustre.KnowsClient},
	"another network":   {Index: 2, Time: time.Unix(3, 4).UTC(), Known: lustre.KnowsClient, Client: "7@<77:1>"},
	"a number":          {Index: 2, Time: time.Unix(3, 4).UTC(), Known: lustre.KnowsClient, Client: "7@kfi3"},
}

func TestChangeRoundTrip(t *testing.T) {
	t.Parallel()
	for name, want := range changes {
		for _, big := range []bool{false, true} {
			b := AppendChange([]byte("before"), want, big)[len("before"):]
			got, size, err := DecodeChange(append(b, "the next record"...))
			if err != nil || got != want || size != len(b) {
				t.Errorf("%s, big NIDs %v: %+v, %d of %d bytes, %v; want %+v", name, big, got, size, len(b), err, want)
			}
			for cut := range b {
				if _, _, err := DecodeChange(b[:cut]); !errors.Is(err, ErrMalformed) {
					t.Errorf("%s, cut after %d of %d bytes: %v; want %v", name, cut, len(b), err, ErrMalformed)
				}
			}
		}
	}
	six := lustre.Change{Time: time.Unix(3, 4).UTC(), Known: lustre.KnowsClient, Client: "fd00::7@tcp1"}
	if got, _, err := DecodeChange(AppendChange(nil, six, true)); err != nil || got != six {
		t.Errorf("an address of IPv6: %+v, %v", got, err)
	}
}

func TestHostileChanges(t *testing.T) {
	t.Parallel()
	base := AppendChange(nil, changes["rename over a file"], false)
	extra := changeSize + renameSize // where its cr_extra_flags are
	for name, alter := range map[string]func(b []byte){
		"a name that leaves its directory": func(b []byte) { copy(b[len(b)-7:], "../\x00old") },
		"the name of the directory above":  func(b []byte) { copy(b[len(b)-7:], "..\x00lder") },
		"three names":                      func(b []byte) { copy(b[len(b)-7:], "a\x00b\x00c\x00d") },
		"an unknown extension":             func(b []byte) { b[extra] |= 0x20 },
		"a user of 64 bits":                func(b []byte) { b[extra+extraSize+5] = 1 },
		"a second of too many nanoseconds": func(b []byte) { b[27] |= 0x3f },
		"a type of 32 bits":                func(b []byte) { b[5] = 1 },
		"a longer name than there is":      func(b []byte) { b[0] = 8 },
	} {
		b := bytes.Clone(base)
		alter(b)
		if c, _, err := DecodeChange(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v; want %v", name, c, err, ErrMalformed)
		}
	}
}

func TestNID(t *testing.T) {
	t.Parallel()
	long := append([]byte{4, 77, 0, 1}, bytes.Repeat([]byte{0xab}, 20)...)
	if got := nidText(long, true); got != "abababababababab@<77:1>" {
		t.Errorf("an address of eight bytes: %q", got)
	}
	if got := nidText(bytes.Repeat([]byte{0xff}, nidSize), true); !strings.HasSuffix(got, "@<255:65535>") {
		t.Errorf("any address: %q", got)
	}
	for _, nid := range []string{"", "nonsense", "10.0.0.1@", "1.2.3.4@tcpx", "fd00::1@tcp"} {
		if b := nidBytes(nid, false); !bytes.Equal(b, make([]byte, nidSize)) {
			t.Errorf("%q became %x", nid, b)
		}
	}
}

func FuzzChange(f *testing.F) {
	for _, c := range changes {
		f.Add(AppendChange(nil, c, false))
		f.Add(AppendChange(nil, c, true))
	}
	if raw, err := os.ReadFile("testdata/changelog-raw-head.bin"); err == nil {
		f.Add(raw[:117])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, size, err := DecodeChange(b)
		if err != nil {
			return
		}
		if size < changeSize || size > len(b) || size > MaxChange {
			t.Fatalf("a record of %d bytes in %d", size, len(b))
		}
		again := AppendChange(nil, c, true)
		if got, _, err := DecodeChange(again); err != nil || (got != c && got.Client == c.Client) {
			t.Fatalf("%+v was written and read as %+v, %v", c, got, err)
		}
	})
}
