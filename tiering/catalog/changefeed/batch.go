package changefeed

import (
	"context"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/tiering/catalog"
)

// Batch is what a feed hands over.
type Batch struct {
	// Names are those that something happened to, below the root of the tree. One that ends in a slash may be another directory than it was, or was not heard of for
	// a while: it is read whole. They are raw bytes, and hostile.
	Names []string
	// All says that anything may have happened anywhere, and Why.
	All bool
	Why string

	Events int            // of the source, that made this
	Since  time.Time      // when the oldest of them happened, or was heard; zero is not known
	Marks  []catalog.Mark // where the feed stands after this; none of one without memory
}

// Take takes a batch. When it has returned nil, what was seen and the marks are on stable storage.
type Take func(ctx context.Context, b Batch) error

// Marks says where a part of a feed stands; nil is nowhere.
type Marks func(part string) ([]byte, error)

// Feed tells of the changes in one tree.
type Feed interface {
	// Run hands over batches until ctx is done, take fails, or the source does. It can be run again, and goes on from the marks; where it can not, its
	// first batch says All. errors.ErrUnsupported, mover.ErrUsage and mover.ErrPermission mean that to run it again would not help.
	Run(ctx context.Context, marks Marks, take Take) error
}

// Ours reports whether a name is one that walks do not show: what the mover makes for itself while it works.
func Ours(name string) bool {
	if !strings.Contains(name, mover.TempPrefix) {
		return false
	}
	for segment := range strings.SplitSeq(name, "/") {
		rest, prefixed := strings.CutPrefix(segment, mover.TempPrefix)
		if !prefixed {
			continue
		}
		if _, _, temp := mover.ParseTempName(segment); temp || segment == mover.TrashName || isLock(rest) {
			return true
		}
	}
	return false
}

// isLock knows the names of locks: lock, and lock-16 hexadecimal digits (package posix).
func isLock(rest string) bool {
	rest, is := strings.CutPrefix(rest, "lock")
	return is && (rest == "" || len(rest) == 17 && rest[0] == '-' && strings.Trim(rest[1:], "0123456789abcdef") == "")
}
