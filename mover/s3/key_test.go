package s3

import (
	"errors"
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
	for _, s := range []string{"a/b", "a%01", "%2Edatamove", "%\x01%41", "\xe4%E4", "%25%25", "caf%C3%A9\xff", "%EF%BF%BD", ".datamove/.datamove"} {
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
		if name, err := DecodeKey(s); err == nil {
			if key, err := EncodeKey(name); err != nil || key != s {
				t.Fatalf("key %q -> %q -> %q, %v", s, name, key, err)
			}
		}
	})
}
