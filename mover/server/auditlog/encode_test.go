package auditlog

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

var update = flag.Bool("update", false, "write the golden files of this version")

// TestGolden writes the log of testdata again. A line that reads differently would
// break every log that there is.
func TestGolden(t *testing.T) {
	golden := filepath.Join("testdata", "v1")
	dir := t.TempDir()
	if *update {
		must.Do(t, os.RemoveAll(golden))
		dir = golden
	}
	o := Options{KeepLocations: true, now: clock(), chain: "000102030405060708090a0b0c0d0e0f"}
	l := opened(t, dir, o)
	for _, r := range []Record{
		{HasUID: true, UID: 1000, Actor: "ada", Peer: "unix", Method: "/datamove.v1.TaskService/SubmitTask",
			Object: "01K3ZQ5V8W", Locations: []string{"/data/run-7", "s3://archive/run-7"}, Allowed: true, Reason: "project vision"},
		{HasUID: true, UID: 0, Actor: "root", Agent: "node-7", Peer: "10.0.0.7:40512", Method: "/datamove.agent.v1.LinkService/Attend", Allowed: true},
		{Peer: "10.0.0.99:1", Method: "/datamove.v1.AdminService/DrainAgent", Object: "node-7", Code: "UNAUTHENTICATED", Reason: "no client certificate"},
		{Method: "lease.expire", Object: "dataset vision, slurm:1234", Allowed: true, Reason: "its time was over"},
	} {
		must.Do(t, l.Append(t.Context(), r))
	}
	must.Do(t, l.Rotate())
	must.Do(t, l.Append(t.Context(), Record{Actor: "m\u00e4x \"quoted\" \\ \x1b[31m\n{\"sequence\":9}\x7f \u202e \U0001f4be \xff",
		Method: "/datamove.v1.TaskService/SubmitTask", Locations: []string{"/odd\xff\nname", ""}, Code: "INVALID_ARGUMENT"}))
	must.Do(t, l.Close())
	for _, first := range []uint64{1, 6} {
		got := must.Get(os.ReadFile(filepath.Join(dir, fileName(first))))(t)
		want := must.Get(os.ReadFile(filepath.Join(golden, fileName(first))))(t)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%swant\n%s", fileName(first), got, want)
		}
	}
	whole(t, golden, l.Head())
}

// TestGoldenTorn opens the file that a kill has left, and makes the one behind it.
func TestGoldenTorn(t *testing.T) {
	dir := t.TempDir()
	before := must.Get(os.ReadFile(filepath.Join("testdata", "torn.jsonl")))(t)
	path := filepath.Join(dir, fileName(1))
	must.Do(t, os.WriteFile(path, before, 0o600))
	must.Do(t, opened(t, dir, Options{now: clock()}).Close())
	got := must.Get(os.ReadFile(path))(t)
	mended := filepath.Join("testdata", "mended.jsonl")
	if *update {
		must.Do(t, os.WriteFile(mended, got, 0o600))
	}
	want := must.Get(os.ReadFile(mended))(t)
	if !bytes.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func anyText(t *rapid.T, label string) string {
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.StringN(maxText-2, maxText+2, -1)).Draw(t, label)
}

func anyRecord(t *rapid.T) Record {
	r := Record{HasUID: rapid.Bool().Draw(t, "known"), Actor: anyText(t, "actor"), Agent: anyText(t, "agent"), By: anyText(t, "by"), Peer: anyText(t, "peer"),
		Method: anyText(t, "method"), Object: anyText(t, "object"), Allowed: rapid.Bool().Draw(t, "allowed"),
		Code: anyText(t, "code"), Reason: anyText(t, "reason")}
	if r.HasUID {
		r.UID = rapid.Uint32().Draw(t, "uid")
	}
	for range rapid.IntRange(0, 4).Draw(t, "locations") {
		r.Locations = append(r.Locations, anyText(t, "location"))
	}
	return r
}

// TestLines writes any records: each is one line of ASCII, and is read back as it is,
// but for bytes that are not text, secrets, and what is too long.
func TestLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := decided(anyRecord(t), true)
		e.Sequence, e.Time = rapid.Uint64().Draw(t, "sequence"), time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(t, "sec"), 0).UTC()
		line := appendEntry(nil, &e)
		if strings.Trim(string(line[:len(line)-1]), printable) != "" || line[len(line)-1] != '\n' || !json.Valid(line) {
			t.Fatalf("%q", line)
		}
		if got := reseal(string(line)); got != string(line) {
			t.Fatalf("the hash is not what the package comment says: %s", line)
		}
		got := must.Get(decode(line[:len(line)-1]))(t)
		if want := legible(e); !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
	})
}

// printable are the bytes of a line.
var printable = func() string {
	var b strings.Builder
	for c := byte(0x20); c <= 0x7e; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()

// legible makes of e what can be read back.
func legible(e Entry) Entry {
	for _, text := range []*string{&e.Actor, &e.Agent, &e.By, &e.Peer, &e.Method, &e.Object, &e.Code, &e.Reason} {
		*text = string([]rune(*text))
	}
	for i, location := range e.Locations {
		e.Locations[i] = string([]rune(location))
	}
	return e
}

// TestLongestLine makes the longest record that can be: it fits into a line.
func TestLongestLine(t *testing.T) {
	bad := strings.Repeat("\xff", 1<<20)
	for _, locations := range [][]string{{bad}, strings.SplitAfter(bad, "\xff"), make([]string, 1<<20), {bad[:500], bad[:9000], bad}} {
		e := decided(Record{HasUID: true, UID: 1<<32 - 1, Actor: bad, Agent: bad, By: bad, Peer: bad, Method: bad, Object: bad, Code: bad, Reason: bad, Locations: locations}, true)
		e.Sequence = 1<<64 - 1
		line := appendEntry(nil, &e)
		if _, err := decode(line[:len(line)-1]); err != nil || len(line) > maxLine {
			t.Errorf("%d bytes: %v", len(line), err)
		}
		if weight(&e) > groupBytes {
			t.Errorf("weight %d", weight(&e))
		}
		if last := e.Locations[len(e.Locations)-1]; !strings.HasSuffix(last, ellipsis) {
			t.Errorf("the last location is %.20q", last)
		}
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{"": "", "12345678": "12345678", "123456789": "12345…", "1234äöüß": "1234…", "\U0001f4be\U0001f4be\U0001f4be": "\U0001f4be…",
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80": "…"} {
		if got := clip(text, 8); got != want || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestNoSecrets looks for a secret in all that is written.
func TestNoSecrets(t *testing.T) {
	for address, want := range map[string]string{
		"s3://AKIA:hunter2@bucket/a@b":                 "s3://[secret]@bucket/a@b",
		"https://ada:hunter2@host/x":                   "https://[secret]@host/x",
		"https://host/x?X-Amz-Signature=hunter2&a=b/c": "https://host/x?[secret]",
		"HTTP://hunter2@host":                          "HTTP://[secret]@host",
		"s3://bucket/what?yes":                         "s3://bucket/what?yes",
		"/data/s3://a@b":                               "/data/s3://a@b",
		"cold:a@b":                                     "cold:a@b",
		"://a@b":                                       "://a@b",
		"file:///a@b":                                  "file:///a@b",
	} {
		if got := withoutSecret(address); got != want {
			t.Errorf("%s became %s", address, got)
		}
		e := decided(Record{Actor: address, Peer: address, Object: address, Locations: []string{address}}, true)
		line := string(appendEntry(nil, &e))
		if strings.Contains(line, "hunter2") || e.Digest != digest([]string{want}) {
			t.Errorf("%s", line)
		}
	}
}

// FuzzDecode gives any text the hash that it should have: what is taken for a line is
// exactly what is written for it.
func FuzzDecode(f *testing.F) {
	for _, name := range []string{"torn.jsonl", "mended.jsonl", filepath.Join("v1", fileName(1)), filepath.Join("v1", fileName(6))} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must.Do(f, err)
		for line := range strings.Lines(string(text)) {
			object, _, _ := strings.Cut(line, hashField)
			f.Add([]byte(object))
		}
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		line := strings.TrimSuffix(reseal(string(object)), "\n")
		e, err := decode([]byte(line))
		if err != nil {
			return
		}
		if again := appendEntry(nil, &e); string(again) != line+"\n" {
			t.Errorf("%s\nis written as\n%s", line, again)
		}
	})
}
