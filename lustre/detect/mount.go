package detect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is one line of /proc/self/mountinfo.
type Mount struct {
	ID      uint64
	Root    string // of the file system: which directory of it is mounted
	Point   string // where, as this process sees it
	Options string // of the mount, "rw,relatime"
	Type    string // "lustre", "fuse.ceph-fuse"
	Source  string // "10.0.0.1@tcp:/lab"
	Super   string // options of the file system
}

// maxLine bounds a line: two paths of up to 4096 bytes, each byte written as four, a
// source and options of up to a page each are far below.
const maxLine = 1 << 20

// mountOf finds the mount that fd was opened through. ok is false when this process
// does not see it: it belongs to another namespace, or there is no /proc.
func mountOf(fd int) (m Mount, ok bool, err error) {
	id, err := mountID(fd)
	if err != nil {
		return m, false, err
	}
	// While mounts come and go, a line can be missed.
	for range 3 {
		f, err := os.Open("/proc/self/mountinfo")
		if err != nil {
			return m, false, nil
		}
		m, ok, err = findMount(f, id)
		f.Close()
		if ok || err != nil {
			return m, ok, err
		}
	}
	return m, false, nil
}

// mountID is the number of the mount of fd: from statx(2) since Linux 5.8.
func mountID(fd int) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st)
	if err == nil && st.Mask&unix.STATX_MNT_ID != 0 {
		return st.Mnt_id, nil
	}
	return oldMountID(fd)
}

// oldMountID is mountID before Linux 5.8, from /proc; 0, which no mount has, when there
// is none.
func oldMountID(fd int) (uint64, error) {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, nil
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, "mnt_id:"); found {
			return strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, nil
}

// findMount reads a table up to the line of that number. Lines that are none are passed
// over: the others are right all the same.
func findMount(r io.Reader, id uint64) (Mount, bool, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	number := strconv.FormatUint(id, 10)
	for lines.Scan() {
		if first, _, _ := strings.Cut(lines.Text(), " "); first != number {
			continue
		}
		if m, err := parseMount(lines.Text()); err == nil {
			return m, true, nil
		}
	}
	if err := lines.Err(); err != nil {
		return Mount{}, false, fmt.Errorf("table of mounts: %w", err)
	}
	return Mount{}, false, nil
}

var errLine = errors.New("it is no line of a table of mounts")

// parseMount reads a line (proc_pid_mountinfo(5)): number, parent, device, root, point,
// options, any number of optional fields, "-", type, source, options. A source may be
// empty, so fields are what one blank divides.
func parseMount(line string) (Mount, error) {
	fields := strings.Split(line, " ")
	dash := -1
	for i := 6; i < len(fields); i++ {
		if fields[i] == "-" {
			dash = i
			break
		}
	}
	if dash < 0 || len(fields) < dash+4 {
		return Mount{}, errLine
	}
	id, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return Mount{}, errLine
	}
	return Mount{
		ID: id, Root: unescape(fields[3]), Point: unescape(fields[4]), Options: unescape(fields[5]),
		Type: unescape(fields[dash+1]), Source: unescape(fields[dash+2]), Super: unescape(fields[dash+3]),
	}, nil
}

// unescape turns \040 and its like back: the kernel writes blanks, tabs, line ends,
// backslashes and some others of its tables as three octal digits.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b = append(b, byte(n))
				i += 3
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}
