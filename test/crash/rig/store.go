package rig

import (
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/patience"
)

// Store is an S3 server for the program, which reaches it through a proxy.
type Store struct {
	*Proxy
	server *s3test.Server
}

// NewStore starts a server, and lets p reach it.
func NewStore(t testing.TB, p *Program) *Store {
	t.Helper()
	server := s3test.Start(t, false)
	if server.Dir == "" {
		t.Skip("the server is not ours: what lies in it can not be looked at from behind")
	}
	s := &Store{Proxy: NewProxy(t, server.Endpoint), server: server}
	p.Env = append(p.Env, "AWS_ENDPOINT_URL_S3="+s.URL, "AWS_ACCESS_KEY_ID="+server.Access, "AWS_SECRET_ACCESS_KEY="+server.Secret, "AWS_REGION=us-east-1")
	return s
}

// Bucket is the name of its bucket.
func (s *Store) Bucket() string { return s.server.Bucket }

// Keys are the credentials, as a file of them has them.
func (s *Store) Keys() string {
	return "AWS_ACCESS_KEY_ID=" + s.server.Access + "\nAWS_SECRET_ACCESS_KEY=" + s.server.Secret + "\n"
}

// At is the location of a prefix.
func (s *Store) At(prefix string) string { return "s3://" + s.server.Bucket + "/" + prefix }

// Dir is where the server keeps the objects of a prefix as files.
func (s *Store) Dir(prefix string) string { return filepath.Join(s.server.Dir, prefix) }

// Own is what the program keeps below a prefix for itself.
func (s *Store) Own(t testing.TB, prefix string) []string {
	t.Helper()
	return names(t, filepath.Join(s.Dir(prefix), ".datamove"))
}

// Uploads is how many multipart uploads are open in the bucket.
func (s *Store) Uploads(t testing.TB) int {
	t.Helper()
	return len(s.UploadDirs(t))
}

// UploadDirs is where the server keeps the parts of each of them. An upload that it is putting
// together is none that is open, and may become one again: it is waited for. Who asked for that
// may have been killed, and the next run finds the object while its parts still lie there.
func (s *Store) UploadDirs(t testing.TB) (dirs []string) {
	t.Helper()
	patience.Until(t, "the server has put its uploads together", nil, func() bool {
		var err error
		if dirs, err = filepath.Glob(filepath.Join(s.server.Dir, ".sgwtmp", "multipart", "*", "*")); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasSuffix(dir, ".inprogress") }) // so versitygw calls it
	})
	return dirs
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	all := make([]string, len(entries))
	for i, e := range entries {
		all[i] = e.Name()
	}
	return all
}

// Look reads the objects of a prefix from behind the server's back. The result has
// the names of the entries, and of each entry what Objects leaves.
func (s *Store) Look(t testing.TB, prefix string) Tree {
	t.Helper()
	tree := Tree{}
	dir := s.Dir(prefix)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		key, err := filepath.Rel(dir, path)
		if err != nil || key == "." {
			return err
		}
		if key == ".datamove" {
			return fs.SkipDir
		}
		name, err := s3.DecodeKey(key)
		if err != nil {
			return err
		}
		if d.IsDir() {
			tree[name] = Node{Type: fs.ModeDir}
			return nil
		}
		n := Node{}
		if n.Sum, err = sum(path); err == nil {
			tree[name] = n
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return tree
}

// Objects is what of a tree is to be seen in a store: the contents, and the
// targets of links as contents.
func Objects(tree Tree) Tree {
	objects := Tree{}
	for name, n := range tree {
		switch {
		case name == ".":
		case n.Type == fs.ModeDir:
			objects[name] = Node{Type: fs.ModeDir}
		case n.Type == fs.ModeSymlink:
			objects[name] = Node{Sum: maphash.String(seed, n.Target)}
		case n.Type == 0:
			objects[name] = Node{Sum: n.Sum}
		}
	}
	return objects
}
