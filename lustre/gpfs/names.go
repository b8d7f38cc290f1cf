package gpfs

import (
	"fmt"
	"path"
	"strings"
)

// maxName is how long a name of a file system, fileset or pool may be, in bytes.
const maxName = 255

// checkName refuses what is no name of a file system, fileset, pool or node: names go into
// addresses and argument lists, where a '-' in front would be an option and ':' separates.
func checkName(what, name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '-' && name != "." && name != ".."
	for i := 0; ok && i < len(name); i++ {
		b := name[i]
		ok = b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("_-.+@", b) >= 0
	}
	if !ok {
		return fmt.Errorf("%s %q: %w: letters, digits, '_', '-', '.', '+' and '@', no '-' in front, %d at most", what, name, ErrName, maxName)
	}
	return nil
}

// checkPath refuses what is no absolute, clean path: junctions and files are given by it.
func checkPath(what, name string) error {
	if !strings.HasPrefix(name, "/") || path.Clean(name) != name || strings.ContainsAny(name, "\x00\n\r") || len(name) > 4095 {
		return fmt.Errorf("%s %q: %w: an absolute path without \".\", \"..\" and line ends", what, name, ErrName)
	}
	return nil
}

// percentDecode decodes %XX, as -Y output and file lists write it. What is no such
// sequence, and a NUL, is an error.
func percentDecode(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, 0) < 0 {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b == '%' {
			if i+2 >= len(s) || unhex(s[i+1]) < 0 || unhex(s[i+2]) < 0 {
				return "", fmt.Errorf("%w: a %% without two hexadecimal digits in %q", ErrReply, cut(s))
			}
			b = byte(unhex(s[i+1])<<4 | unhex(s[i+2]))
			i += 2
		}
		if b == 0 {
			return "", fmt.Errorf("%w: a NUL in %q", ErrReply, cut(s))
		}
		out = append(out, b)
	}
	return string(out), nil
}

func unhex(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
