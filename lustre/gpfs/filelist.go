package gpfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// Listed is one line of a list that mmapplypolicy wrote. It read the inode on disk, which can
// be behind; look again before something is done. A file with several names has a line for each.
type Listed struct {
	Inode      uint64
	Generation uint32
	Snapshot   uint64 // 0 is the live file system
	Bytes      int64
	Path       string // absolute, where the file system is mounted on the node that scanned
}

// maxListLine is how long a line may be: a path of 4,095 bytes that are all escaped, and the rest.
const maxListLine = 3*4096 + 1024

// ReadList reads a list line by line: "inode generation snapshot show -- path", where show
// is the size and show and path are escaped with %, so that neither has a space. A line
// of another form ends it with an error: what a list leaves out by mistake is not known.
// Source of the form: "File list format", IBM Storage Scale 5.2.3.
func ReadList(r io.Reader) iter.Seq2[Listed, error] {
	return func(yield func(Listed, error) bool) {
		lines := bufio.NewReaderSize(r, maxListLine)
		for number := 1; ; number++ {
			line, err := lines.ReadSlice('\n')
			switch {
			case errors.Is(err, bufio.ErrBufferFull):
				err = fmt.Errorf("%w: it is longer than %d bytes", ErrReply, maxListLine)
			case err == io.EOF && len(line) == 0:
				return
			case err == io.EOF:
				err = fmt.Errorf("%w: it has no end: the list was cut off", ErrReply)
			}
			var l Listed
			if err == nil {
				l, err = parseListed(string(line[:len(line)-1]))
			}
			if err != nil {
				yield(Listed{}, fmt.Errorf("line %d of the list: %w", number, err))
				return
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

func parseListed(line string) (l Listed, err error) {
	head, path, ok := strings.Cut(line, " -- ")
	fields := strings.Fields(head)
	if !ok || len(fields) != 4 {
		return l, fmt.Errorf("%w: %q is not inode, generation, snapshot, size, -- and a path", ErrReply, cut(line))
	}
	generation, e1 := strconv.ParseUint(fields[1], 10, 32)
	l.Inode, err = strconv.ParseUint(fields[0], 10, 64)
	snapshot, e2 := strconv.ParseUint(fields[2], 10, 64)
	show, e3 := percentDecode(fields[3])
	bytes, e4 := strconv.ParseUint(show, 10, 63)
	if err := errors.Join(err, e1, e2, e3, e4); err != nil {
		return Listed{}, fmt.Errorf("%w: %q: %w", ErrReply, cut(head), err)
	}
	l.Generation, l.Snapshot, l.Bytes = uint32(generation), snapshot, int64(bytes)
	if l.Path, err = percentDecode(path); err != nil {
		return Listed{}, err
	}
	if !strings.HasPrefix(l.Path, "/") || len(l.Path) > 4095 || climbs(l.Path) {
		return Listed{}, fmt.Errorf("%w: %q is no absolute path", ErrReply, cut(l.Path))
	}
	return l, nil
}

// climbs reports whether a path has a part that leads up or nowhere.
func climbs(path string) bool {
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return true
		}
	}
	return false
}
