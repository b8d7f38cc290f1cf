package aws

import (
	"context"
	"encoding/csv"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// The types in the st_mode of a File; without one it is a regular file.
const (
	TypeMask    uint32 = 0o170000
	TypeDir     uint32 = 0o040000
	TypeRegular uint32 = 0o100000
	TypeSymlink uint32 = 0o120000
)

// File is one on an FSx file system, as its clients see it.
type File struct {
	Name     string    // below the mount point: "ckpt/step-9/rank-0"
	Body     []byte    // contents, or what a symlink says; nil when they are released
	Size     int64     // in bytes, also when it is released; Write fills it in
	Mode     uint32    // st_mode
	UID, GID uint32    //
	ATime    time.Time // zero: when it was written
	MTime    time.Time // zero: when it was written
	Dirty    bool      // it is not in S3 as it is here
	Released bool      // its contents are in S3 only

	changed time.Time // by the server's clock
	object  string    // s3://bucket/key where it was exported to, or imported from
}

// Tree is the files of a file system. Only what was written is in it: directories above a file are not made, and not exported.
type Tree struct {
	server  *Server // its mutex guards all
	system  *fileSystem
	files   map[string]*File
	failing map[string]string // by name: the ErrorCode that its export gets
}

// FileSystem is the files of a file system, or nil when there is none with the id.
func (s *Server) FileSystem(id string) *Tree {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.byID(id); f != nil {
		return f.tree
	}
	return nil
}

// Write has a client write a file, and close it. It is dirty then.
func (t *Tree) Write(f File) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	now := t.server.now()
	f.Name = path.Clean("/" + f.Name)[1:]
	f.Size, f.Dirty, f.Released, f.changed = int64(len(f.Body)), true, false, now
	if f.Mode&TypeMask == 0 {
		f.Mode |= TypeRegular
	}
	if f.MTime.IsZero() {
		f.MTime = now
	}
	if f.ATime.IsZero() {
		f.ATime = now
	}
	f.Body = slices.Clone(f.Body)
	t.files[f.Name] = &f
	t.server.moved("DataWriteBytes", t.system.id, f.Size, now)
}

// Remove has a client remove a file, or a directory with all below it.
func (t *Tree) Remove(name string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.drop("/" + name)
}

func (t *Tree) drop(dir string) {
	maps.DeleteFunc(t.files, func(name string, _ *File) bool { return within("/"+name, dir) })
}

// Read has a client read a file. What is released comes back from S3 first, as Lustre's HSM does it.
func (t *Tree) Read(ctx context.Context, name string) (File, error) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	f := t.files[name]
	if f == nil {
		return File{}, fmt.Errorf("read %s: %w", printable(name), fs.ErrNotExist)
	}
	if f.Released {
		body, err := t.server.opts.Store.get(ctx, f.object)
		if err != nil {
			return File{}, fmt.Errorf("read %s: its contents are in S3 only: %w", printable(name), err)
		}
		f.Body, f.Size, f.Released = body, int64(len(body)), false
	}
	f.ATime = t.server.now()
	t.server.moved("DataReadBytes", t.system.id, f.Size, f.ATime)
	return f.copy(), nil
}

// Files is all of it, by name.
func (t *Tree) Files() []File {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	var all []File
	for _, name := range slices.Sorted(maps.Keys(t.files)) {
		all = append(all, t.files[name].copy())
	}
	return all
}

func (f *File) copy() File {
	c := *f
	c.Body = slices.Clone(f.Body)
	return c
}

// FailExport has exports of a file end with an ErrorCode of completion reports ("S3AccessDenied", "S3Error", ...) from now on; "" ends that.
func (t *Tree) FailExport(name, code string) {
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	t.failing[name] = code
}

// below are the names of files that are any of the paths, or below one; no paths is all.
func (t *Tree) below(paths []string, want func(*File) bool) (names []string) {
	for name, f := range t.files {
		inside := len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool { return within("/"+name, "/"+strings.TrimLeft(p, "/")) })
		if inside && want(f) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// home is the object that a file belongs to, s3://bucket/key, and whose association that is. Without an association there is none.
func (t *Tree) home(f *File) (object string, of *association) {
	for _, a := range t.server.linked(t.system.id) {
		if rest, ok := strings.CutPrefix("/"+f.Name, directory(a.FileSystemPath)); ok && a.Lifecycle != deleting {
			object = directory(a.DataRepositoryPath) + rest
			if f.Mode&TypeMask == TypeDir {
				object = directory(object)
			}
			return object, a
		}
	}
	return "", nil
}

// export puts a file into S3 and says with which ErrorCode it failed; "" is not at all. The codes are those of
// https://docs.aws.amazon.com/fsx/latest/LustreGuide/data-repo-event-logs.html; for a name that is no UTF-8 there is none, and here it is InternalError.
func (t *Tree) export(ctx context.Context, name string) (code string) {
	f := t.files[name]
	if f == nil {
		return "" // it was removed meanwhile
	}
	object, a := t.home(f)
	_, key, _ := cutObject(object)
	switch {
	case t.failing[name] != "":
		return t.failing[name]
	case a == nil:
		return "" // its association was deleted meanwhile: it is skipped, and stays dirty
	case a.Lifecycle != available:
		return "S3AccessDenied"
	case !utf8.ValidString(name):
		return "InternalError"
	case len(key) > 1024:
		return "PathSizeTooLong"
	}
	body := f.Body
	if f.Released {
		var err error
		if body, err = t.server.opts.Store.get(ctx, f.object); err != nil {
			return errorCode(err)
		}
	}
	if err := t.server.opts.Store.put(ctx, object, body, f.metadata()); err != nil {
		return errorCode(err)
	}
	f.Dirty, f.object = false, object
	return ""
}

// exportByItself puts out what was closed long enough ago.
func (s *Server) exportByItself(ctx context.Context, a *association, now time.Time) {
	t := s.byID(a.FileSystemID).tree
	for _, name := range t.below([]string{a.FileSystemPath}, func(f *File) bool { return f.Dirty && !now.Before(f.changed.Add(s.opts.Lasts.AutoExport)) }) {
		_ = t.export(ctx, name) // it stays dirty, and in the queue
	}
}

// importAll reads the listing of a prefix: names, sizes and metadata. Contents stay where they are.
func (t *Tree) importAll(ctx context.Context, a *association, prefix string) (failures []failure, err error) {
	objects, err := t.server.opts.Store.list(ctx, prefix)
	for _, object := range objects {
		rest, ok := strings.CutPrefix(object, directory(a.DataRepositoryPath))
		if !ok || rest == "" {
			continue
		}
		name := strings.Trim(directory(a.FileSystemPath)+rest, "/")
		if name != path.Clean(name) || strings.HasSuffix(rest, "//") {
			failures = append(failures, failure{name, "S3ObjectPathNotPosixCompliant"})
			continue
		}
		old := t.files[name]
		if old != nil && old.Dirty {
			continue // what a client wrote is newer
		}
		f, err := t.server.opts.Store.head(ctx, object)
		if err == nil && old != nil && old.Mode&TypeMask != f.Mode&TypeMask {
			err = importError("S3ObjectTypeMismatch")
		}
		if err != nil {
			failures = append(failures, failure{name, errorCode(err)})
			continue
		}
		f.Name, f.object, f.changed, f.Released = name, object, t.server.now(), f.Mode&TypeMask == TypeRegular
		t.files[name] = f
	}
	return failures, err
}

// failure is a line of a completion report.
type failure struct{ path, code string }

// report writes a completion report as https://docs.aws.amazon.com/fsx/latest/LustreGuide/task-completion-report.html has it: FilePath, FileStatus and ErrorCode as RFC 4180 has them, and no
// heading. A path that begins with @, +, - or = is in quotation marks of its own; the page says single ones and shows double ones, as here.
func report(failures []failure) []byte {
	var text strings.Builder
	w := csv.NewWriter(&text)
	w.UseCRLF = true
	for _, f := range failures {
		if strings.HasPrefix(f.path, "@") || strings.HasPrefix(f.path, "+") || strings.HasPrefix(f.path, "-") || strings.HasPrefix(f.path, "=") {
			f.path = `"` + f.path + `"`
		}
		_ = w.Write([]string{f.path, "failed", f.code}) // into memory
	}
	w.Flush()
	return []byte(text.String())
}

// reportName is where the report of a task is.
func (t *dataTask) reportName() string {
	name := "failures.csv"
	if t.Type == importTask {
		name = "report.csv"
	}
	return strings.TrimRight(t.Report.Path, "/") + "/" + t.id + "/" + name
}
