package daemon

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestBrokerDir: what a message broker has left goes, and nothing else does.
func TestBrokerDir(t *testing.T) {
	for _, c := range []struct {
		name    string
		make    func(t *testing.T, at, elsewhere string) // at is the folder
		removed bool
		says    string // "" is nothing
	}{
		{"none", func(*testing.T, string, string) {}, true, ""},
		{"of a broker that was killed", func(t *testing.T, at, _ string) { folders(t, at+"/jetstream") }, true, "removed the folder"},
		{"of one that was killed when it began", func(t *testing.T, at, _ string) { folders(t, at+"/jetstream/$G/streams", at+"/jetstream/$SYS") }, true, "removed the folder"},
		{"with a file", func(t *testing.T, at, _ string) {
			folders(t, at+"/jetstream")
			must.Do(t, os.WriteFile(at+"/jetstream/notes", []byte("mine"), 0o600))
		}, false, "notes"},
		{"a link", func(t *testing.T, at, elsewhere string) {
			folders(t, elsewhere+"/jetstream")
			must.Do(t, os.Symlink(elsewhere, at))
		}, false, "is left"},
		{"with a link", func(t *testing.T, at, elsewhere string) {
			folders(t, at, elsewhere+"/jetstream")
			must.Do(t, os.Symlink(elsewhere+"/jetstream", at+"/jetstream"))
		}, false, "jetstream"},
		{"a file", func(t *testing.T, at, _ string) { must.Do(t, os.WriteFile(at, []byte("mine"), 0o600)) }, false, "is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			data, elsewhere := filepath.Join(dir, "state"), filepath.Join(dir, "elsewhere")
			folders(t, data, elsewhere)
			c.make(t, filepath.Join(data, "queue"), elsewhere)
			before := treeOf(t, dir)
			var log bytes.Buffer
			h := &host{log: slog.New(slog.NewTextHandler(&log, nil))}
			h.at.data = data
			h.removeBroker()
			after := treeOf(t, dir)
			switch {
			case c.removed && after != " elsewhere state":
				t.Errorf("left: %s", after)
			case !c.removed && after != before:
				t.Errorf("changed: %s", after)
			}
			if said := log.String(); (said != "") != (c.says != "") || !strings.Contains(said, c.says) {
				t.Errorf("it says %q, want %q", said, c.says)
			}
		})
	}
}

func folders(t *testing.T, all ...string) {
	t.Helper()
	for _, dir := range all {
		must.Do(t, os.MkdirAll(dir, 0o700))
	}
}

// treeOf is all names below a directory; it follows no link.
func treeOf(t *testing.T, dir string) (names string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			names += strings.Replace(path, dir+"/", " ", 1)
		}
		return err
	}))
	return names
}
