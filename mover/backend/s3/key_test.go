package s3

import (
	"errors"
	"strings"
	"testing"

	"datamove.dev/mover"
)

func TestKeys(t *testing.T) {
	for _, row := range []struct{ name, key string }{
		{"", ""},
		{"a/b.txt", "a/b.txt"},
		{"ümlaut/日本", "ümlaut/日本"},
		{"a\x01b", "a%01b"},
		{"line\nbreak", "line%0Abreak"},
		{"del\x7f", "del%7F"},
		{"latin\xe4/ok", "latin%E4/ok"},
		{"100%", "100%"},
		{"hour=12%3A00", "hour=12%3A00"}, // as other tools wrote it: nothing of ours looks so
		{"caf%C3%A9", "caf%C3%A9"},
		{"a%01b", "a%2501b"}, // would be read as a control byte
		{"a%2501b", "a%252501b"},
		{"%\x01", "%%01"},
		{"%41\x01", "%2541%01"},
		{".datamove", "%2Edatamove"},
		{".datamove/lock", "%2Edatamove/lock"},
		{"%2Edatamove", "%252Edatamove"},
		{"sub/.datamove", "sub/%2Edatamove"},
		{".datamove2", ".datamove2"},
		{"\uFFFD", "%EF%BF%BD"},
	} {
		key, err := EncodeKey(row.name)
		if err != nil || key != row.key {
			t.Errorf("EncodeKey(%q) = %q, %v; want %q", row.name, key, err, row.key)
		}
		if name, err := DecodeKey(row.key); err != nil || name != row.name {
			t.Errorf("DecodeKey(%q) = %q, %v; want %q", row.key, name, err, row.name)
		}
	}
}

//safety:6 keys like `../x`, `a//b`, `/abs`
func TestKeysThatNameNothing(t *testing.T) {
	for _, key := range []string{"a//b", "/abs", "../x", "a/./b", "a/..", "dir/", "a\x01", "\xff", "\uFFFD", ".datamove/lock", "a\x00"} {
		if name, err := DecodeKey(key); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("DecodeKey(%q) = %q, %v; want ErrUsage", key, name, err)
		}
	}
	for _, name := range []string{"a//b", "..", "/a", "a\x00"} {
		if key, err := EncodeKey(name); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("EncodeKey(%q) = %q, %v; want ErrUsage", name, key, err)
		}
	}
}

// FuzzKey: names and keys are one to one, and no key has a byte that servers
// treat badly.
//
//safety:6 with TestKeysThatNameNothing
func FuzzKey(f *testing.F) {
	for _, s := range []string{"a/b", "a%01", "%2Edatamove", "%\x01%41", "\xe4%E4", "%25%25", "caf%C3%A9\xff", "%EF%BF%BD", ".datamove/.datamove", "n\nl", "a//b", "%01key:%252F", "\x01key:%2F\x01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := EncodeKey(s); err == nil {
			if hasBad(key) {
				t.Fatalf("key %q of %q has bad bytes", key, s)
			}
			if name, err := DecodeKey(key); err != nil || name != s {
				t.Fatalf("%q -> %q -> %q, %v", s, key, name, err)
			}
		} else if mover.ValidName(s) {
			t.Fatalf("valid name %q refused: %v", s, err)
		}
		if name, err := nameOf(s); err != nil && len(s) <= KeyBytes && !isOwn(s) && !strings.HasSuffix(s, "/") && mover.ValidName(name) {
			if key, raw := rawKey(name); !raw || key != s {
				t.Fatalf("key %q -> %q -> %q, %v", s, name, key, raw)
			}
		}
		if name, err := DecodeKey(s); err == nil {
			if key, err := EncodeKey(name); err != nil || key != s {
				t.Fatalf("key %q -> %q -> %q, %v", s, name, key, err)
			}
		}
	})
}

// TestKeysWithoutNames: a key that leads to no name has one that leads to it alone, and a file that is named so elsewhere has none.
//
//safety:6 with TestKeysThatNameNothing
func TestKeysWithoutNames(t *testing.T) {
	for _, row := range []struct{ key, name string }{
		{"n\nl", "\x01key:n%0Al"},
		{"a//b", "a/\x01key:%2Fb"},
		{"/abs", "\x01key:%2Fabs"},
		{"../x", "\x01key:..%2Fx"},
		{"n%0Al/x//y", "n\nl/x/\x01key:%2Fy"},
		{"%01key:..%252Fx", "\x01key:%2501key:..%25252Fx"}, // of a file that is named as a key is
	} {
		if name, err := nameOf(row.key); err == nil || name != row.name {
			t.Errorf("nameOf(%q) = %q, %v; want %q", row.key, name, err, row.name)
		}
		if key, raw := rawKey(row.name); !raw || key != row.key {
			t.Errorf("rawKey(%q) = %q, %v; want %q", row.name, key, raw, row.key)
		}
	}
	for _, name := range []string{"", "a", "\x01", "d/\x01control", "d/\x01", "\x01key:.datamove%2Flock", "\x01key:a%2F", "\x01key:%2F", "\x01key:plain", "\x01..%2Fx"} {
		if key, raw := rawKey(name); raw {
			t.Errorf("rawKey(%q) = %q", name, key)
		}
	}
}

// TestLongSegments: a server that keeps objects as files gets no long segment, and what it has all the same is looked at and removed.
func TestLongSegments(t *testing.T) {
	p := &Backend{profile: Profile{SegmentBytes: segmentBytes, KeepsMarkers: true}}
	name := "d/" + strings.Repeat("s", segmentBytes+1)
	if key, err := p.key(name); err != nil || key != name {
		t.Errorf("%q, %v", key, err)
	}
	if marker, err := p.marker(name); err != nil || marker != name+"/" {
		t.Errorf("%q, %v", marker, err)
	}
	if _, err := p.draft(t.Context(), mover.Entry{Name: name, Kind: mover.File}, mover.Hints{}); !errors.Is(err, mover.ErrUnsupported) || !errors.Is(err, mover.ErrNoSuchName) {
		t.Errorf("a draft: %v", err)
	}
	if err := p.mkdir(t.Context(), mover.Entry{Name: name, Kind: mover.Dir}); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("a directory: %v", err)
	}
}
