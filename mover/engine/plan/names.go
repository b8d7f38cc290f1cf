package plan

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"datamove.dev/mover"
)

// Names is a list of entries that take part: each of them, all below it, and the
// directories that lead to it.
type Names struct {
	sorted []string        // in the order of bytes, as if each were a directory
	inside []int32         // for each of sorted: the one before that it lies below; -1 is none
	seen   []atomic.Uint32 // one bit for each of sorted
	all    bool            // the root is one of them
}

// The bounds of a list of names.
const (
	maxNameBytes = 1 << 16 // of one name; Linux takes 4096 in one call, and we open step by step
	maxListBytes = 1 << 30 // of all names, which are held in memory; so there are fewer than 1<<31
)

// ReadNames reads a list of names, relative to the root, that end in a newline, or
// in a zero byte when the list has one. Empty lines are ignored, and so are a
// leading "./" and a trailing "/", as find and tar write them.
func ReadNames(r io.Reader) (*Names, error) {
	in := bufio.NewReaderSize(r, maxNameBytes)
	end, err := separator(in)
	if err != nil {
		return nil, err
	}
	var names []string
	var total int64
	for line := 1; ; line++ {
		raw, err := in.ReadSlice(end)
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("name %d is longer than %d bytes: %w", line, maxNameBytes, mover.ErrUsage)
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("read the names: %w", err)
		}
		if total += int64(len(raw)); total > maxListBytes {
			return nil, fmt.Errorf("more than %d bytes of names: %w", maxListBytes, mover.ErrUsage)
		}
		name, ok, problem := cleanName(string(bytes.TrimSuffix(raw, []byte{end})))
		if problem != nil {
			return nil, fmt.Errorf("name %d: %w", line, problem)
		}
		if ok {
			names = append(names, name)
		}
		if err == io.EOF {
			return NewNames(names)
		}
	}
}

// separator looks for a zero byte in what comes first.
func separator(in *bufio.Reader) (byte, error) {
	first, err := in.Peek(maxNameBytes)
	if err != nil && err != io.EOF {
		return 0, fmt.Errorf("read the names: %w", err)
	}
	if bytes.IndexByte(first, 0) >= 0 {
		return 0, nil
	}
	return '\n', nil
}

// cleanName brings a name of a list into our form. It reports false for an empty line.
func cleanName(raw string) (name string, ok bool, err error) {
	if raw == "" {
		return "", false, nil
	}
	name = raw
	for strings.HasPrefix(name, "./") {
		name = strings.TrimLeft(name[2:], "/")
	}
	if name != "/" {
		name = strings.TrimRight(name, "/")
	}
	if name == "." {
		name = ""
	}
	if !mover.ValidName(name) {
		return "", false, fmt.Errorf("%q is not a name below the source: it must be relative, without empty, \".\" or \"..\" segments: %w", raw, mover.ErrUsage)
	}
	return name, true, nil
}

// NewNames returns the list of the given names, which it keeps.
func NewNames(names []string) (*Names, error) {
	for _, name := range names {
		if !mover.ValidName(name) {
			return nil, fmt.Errorf("%q is not a name: %w", name, mover.ErrUsage)
		}
	}
	slices.SortFunc(names, compareDirs)
	names = slices.Compact(names)
	n := &Names{
		sorted: names,
		inside: make([]int32, len(names)),
		seen:   make([]atomic.Uint32, (len(names)+31)/32),
		all:    len(names) > 0 && names[0] == "",
	}
	for i, name := range names {
		n.inside[i] = n.above(int32(i)-1, name)
	}
	return n, nil
}

func compareDirs(a, b string) int { return mover.CompareNames(a, true, b, true) }

// above returns the last of the names up to i that name lies below; -1 is none. All
// that sorts between a directory and something in it lies in that directory, so
// the way up from i leads there.
func (n *Names) above(i int32, name string) int32 {
	for i >= 0 && !mover.Within(name, n.sorted[i]) {
		i = n.inside[i]
	}
	return i
}

// find returns where name is, or would be, among the names.
func (n *Names) find(name string) (int, bool) {
	return slices.BinarySearchFunc(n.sorted, name, compareDirs)
}

// has reports whether an entry is named, lies below one that is, or leads to one.
func (n *Names) has(name string, kind mover.Kind) bool {
	if n.all {
		return true
	}
	i, found := n.find(name)
	if found || n.above(int32(i)-1, name) >= 0 {
		return true
	}
	return kind == mover.Dir && i < len(n.sorted) && mover.Within(n.sorted[i], name)
}

func (n *Names) mark(name string) {
	if i, found := n.find(name); found {
		n.seen[i/32].Or(1 << (i % 32))
	}
}

func (n *Names) missing(limit int) (names []string, count int) {
	for i, name := range n.sorted {
		if name == "" || n.seen[i/32].Load()&(1<<(i%32)) != 0 {
			continue
		}
		count++
		if len(names) < limit {
			names = append(names, name)
		}
	}
	return names, count
}
