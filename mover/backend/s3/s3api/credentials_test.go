package s3api

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.env")
	write := func(text string) {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("# ours\nexport AWS_ACCESS_KEY_ID='one'\nAWS_SECRET_ACCESS_KEY = \"first\"\nOTHER=x\n")
	f := &keyFile{path: path}
	v, err := f.Retrieve(t.Context())
	if err != nil || v.AccessKeyID != "one" || v.SecretAccessKey != "first" {
		t.Fatalf("%q, %v", v.AccessKeyID, err)
	}
	write("AWS_ACCESS_KEY_ID=two\nAWS_SECRET_ACCESS_KEY=second\nAWS_SESSION_TOKEN=s\n")
	later := time.Now().Add(time.Hour)
	must.Do(t, os.Chtimes(path, later, later))
	if v, _ := f.Retrieve(t.Context()); v.AccessKeyID != "one" {
		t.Error("looked again at once")
	}
	f.checked = time.Now().Add(-keysCheckEvery)
	if v, err := f.Retrieve(t.Context()); err != nil || v.AccessKeyID != "two" || v.SessionToken != "s" {
		t.Errorf("rotated keys: %q, %v", v.AccessKeyID, err)
	}
}

func TestKeyFileNeverTells(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.env")
	must.Do(t, os.WriteFile(path, []byte("AWS_SECRET_ACCESS_KEY=hunter2\nhunter3\n"), 0o600))
	_, err := (&keyFile{path: path}).Retrieve(t.Context())
	if !errors.Is(err, mover.ErrUsage) || strings.Contains(err.Error(), "hunter") {
		t.Errorf("%v", err)
	}
	if _, err := (&keyFile{path: path + "x"}).Retrieve(t.Context()); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
