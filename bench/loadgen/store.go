package loadgen

import "context"

// store is where the files of a run lie: the run's directory on a file system, or its prefix in a bucket. Names are relative to it. Ranks call it at the same time.
type store interface {
	Mkdir(ctx context.Context, name string) error
	// Create makes a new file, and opens it for writing. Nothing has its name.
	Create(ctx context.Context, name string, t *Tree) (file, error)
	// Share opens a file for writing that other ranks write as well.
	Share(ctx context.Context, name string, t *Tree) (file, error)
	Open(ctx context.Context, name string, t *Tree) (file, error)
	Stat(ctx context.Context, name string, t *Tree) error
	Rename(ctx context.Context, from, to string) error
	Unlink(ctx context.Context, name string, t *Tree) error
	// List counts the names in a directory, and looks at each when it has to.
	List(ctx context.Context, name string, look bool) (int64, error)

	// Ready makes what is needed for a work, and says what is done about the page cache.
	Ready(ctx context.Context, w *Work) (cache string, err error)
	// Sync brings everything to stable storage.
	Sync(ctx context.Context) error
	// Remove removes a directory with all that is in it.
	Remove(ctx context.Context, name string) error
	// Clean removes what the run has made, and the run's directory.
	Clean(ctx context.Context) error
	Close() error
}

// file is an open one. One that is read may be read by ranks at the same time.
type file interface {
	WriteAt(ctx context.Context, b []byte, off int64) error
	ReadAt(ctx context.Context, b []byte, off int64) error
	// Close ends its use: what was written is there afterwards, and durable where that is asked for.
	Close(ctx context.Context) error
}
