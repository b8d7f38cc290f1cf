// Package atomicfile writes a file that is there whole or not at all, also after a power cut: draft, sync, rename, sync
// of the directory.
//
// A [File] is a draft in the directory of the file that it is going to be. [File.Publish] gives it its name,
// [File.Close] drops what was not published. Both work in the directory that [Create] opened, even if a rename puts
// another one in its place meanwhile. A link is followed on the way to the directory (unless [CreateIn] is given a
// root), never at the draft, and never at the name: there the file takes the place of the link.
//
// A process that is killed leaves at most the draft. Its name is the caller's choice, so that a caller that sweeps can
// tell it. A File is of one goroutine; several drafts of one file are independent if their names are (see
// [Options.Draft]).
//
// Permissions of the directory, and what an earlier file had (owner, mode, attributes), are the caller's.
// TestOrder and TestFailure show the promise.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Options are how a file is written. The zero value replaces, is durable, and is the owner's alone.
type Options struct {
	Mode      fs.FileMode // before the umask; 0 means 0600
	Exclusive bool        // Publish fails with fs.ErrExist where something has the name
	Unsynced  bool        // whole for every reader, but after a power cut perhaps empty or not there

	// Draft names the draft in the directory of the file. Its last * becomes random. One without a * is for callers that
	// hold a lock: what has that name is of a process that was killed, and is removed. "" means ".new-*".
	Draft string
}

// File is a draft that is open for writing.
type File struct {
	*os.File
	o     Options
	root  *os.Root // the directory of the draft and of the file
	draft string   // "" when it is gone
	name  string
}

// Create opens a draft of the file with a path.
func Create(path string, o Options) (*File, error) {
	dir, name := filepath.Split(path)
	root, err := os.OpenRoot(filepath.Clean(dir)) // "" is "."
	if err != nil {
		return nil, err
	}
	return create(root, name, o)
}

// CreateIn opens a draft of a file below a root, over no link that leads out of it.
func CreateIn(root *os.Root, path string, o Options) (*File, error) {
	dir, name := filepath.Split(path)
	root, err := root.OpenRoot(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	return create(root, name, o)
}

// create takes the root over.
func create(root *os.Root, name string, o Options) (*File, error) {
	f := &File{o: o, root: root, name: name}
	err := plain(name)
	if err == nil {
		err = f.open()
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return f, nil
}

// plain refuses what is no name in a directory.
func plain(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsRune(name, filepath.Separator) {
		return &os.PathError{Op: "create", Path: name, Err: syscall.EINVAL}
	}
	return nil
}

// triesName are how often a random name may be taken.
const triesName = 100

func (f *File) open() error {
	mode := f.o.Mode
	if mode == 0 {
		mode = 0o600
	}
	pattern := f.o.Draft
	if pattern == "" {
		pattern = ".new-*"
	}
	star := strings.LastIndexByte(pattern, '*')
	for tries := 0; ; tries++ {
		name := pattern
		if star >= 0 {
			name = pattern[:star] + random() + pattern[star+1:]
		} else if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) && star >= 0 && tries < triesName {
			continue
		}
		f.File, f.draft = file, name
		return err
	}
}

// Publish gives the draft its name, closes it, and returns when both are on stable storage. After an error the draft is
// gone; the file may have its name if what failed is the sync of the directory.
func (f *File) Publish() error { return f.PublishAs(f.name) }

// PublishAs is Publish under another name in the same directory, for a file that is named by its content.
func (f *File) PublishAs(name string) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := plain(name); err != nil {
		return err
	}
	if !f.o.Unsynced {
		if err := sync(f.File); err != nil {
			return err
		}
	}
	if err := f.File.Close(); err != nil { // a network file system may say only here that it has lost something
		return err
	}
	if f.o.Exclusive {
		err = f.root.Link(f.draft, name) // unlike a rename it takes the place of nothing
	} else if err = f.root.Rename(f.draft, name); err == nil {
		f.draft = ""
	}
	if err != nil {
		return err
	}
	err = f.drop()
	if f.o.Unsynced {
		return err
	}
	return errors.Join(err, SyncIn(f.root, "."))
}

// Close drops a draft that was not published. It may be called at any time.
func (f *File) Close() error {
	err := f.File.Close()
	if errors.Is(err, fs.ErrClosed) {
		err = nil
	}
	return errors.Join(err, f.drop(), f.root.Close())
}

func (f *File) drop() error {
	if f.draft == "" {
		return nil
	}
	err := f.root.Remove(f.draft)
	f.draft = ""
	if errors.Is(err, fs.ErrNotExist) {
		return nil // swept, or the directory is gone
	}
	return err
}

// Write makes a file with a path hold a text.
func Write(path string, text []byte, o Options) error {
	f, err := Create(path, o)
	return write(f, err, text)
}

// WriteIn is Write below a root.
func WriteIn(root *os.Root, path string, text []byte, o Options) error {
	f, err := CreateIn(root, path, o)
	return write(f, err, text)
}

func write(f *File, err error, text []byte) error {
	if err != nil {
		return err
	}
	if _, err := f.File.Write(text); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Publish()
}

// SyncDir puts the names in a directory on stable storage.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// SyncIn puts a file below a root, or the names in a directory, on stable storage.
func SyncIn(root *os.Root, path string) error {
	dir, err := root.Open(path)
	if err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir *os.File) error {
	err := sync(dir)
	if errors.Is(err, syscall.EINVAL) { // some network file systems have no sync of a directory
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// Tests see what is synced and when, and have a name be taken.
var (
	sync   = (*os.File).Sync
	random = rand.Text
)
