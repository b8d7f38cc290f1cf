package gpfs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Credentials are a user of the GUI and his password. They print as [secret], whatever the verb.
type Credentials struct {
	user, password string
}

// Format prints [secret].
func (Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[secret]") }

// MarshalText prints [secret], for encoders of a value that has them.
func (Credentials) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// maxCredentials is how large a file of credentials may be, in bytes.
const maxCredentials = 64 << 10

// ReadCredentials reads a file of lines SCALE_USER=... and SCALE_PASSWORD=...; empty lines
// and those that begin with # are left out. The value is what follows the sign, as it is. The
// file has to belong to the caller or to root, and no other user may read or write it. An error
// repeats nothing of what is in it.
func ReadCredentials(path string) (Credentials, error) {
	// O_NONBLOCK: a FIFO in its place is refused below and must not be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return Credentials{}, fmt.Errorf("credentials of the GUI: %w", err)
	}
	defer f.Close()
	if err := private(f); err != nil {
		return Credentials{}, fmt.Errorf("credentials of the GUI: %q %w", path, err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCredentials+1))
	if err != nil || len(text) > maxCredentials {
		return Credentials{}, fmt.Errorf("credentials of the GUI: %q can not be read, or is larger than %d bytes", path, maxCredentials)
	}
	c, ok := parseCredentials(text)
	if !ok {
		return c, fmt.Errorf("credentials of the GUI: %q needs lines that begin with SCALE_USER= and SCALE_PASSWORD=", path)
	}
	return c, nil
}

// private reports why an open file is no place for a secret.
func private(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return fmt.Errorf("is not a regular file: %w", fs.ErrPermission)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("can be read by others (mode %04o): chmod 600 it, and change the password: %w", st.Mode&0o7777, fs.ErrPermission)
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Errorf("belongs to uid %d, who is neither root nor the caller: %w", st.Uid, fs.ErrPermission)
	}
	return nil
}

func parseCredentials(text []byte) (Credentials, bool) {
	var c Credentials
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimSuffix(lines.Text(), "\r"), "=")
		switch strings.TrimSpace(name) {
		case "SCALE_USER":
			c.user = value
		case "SCALE_PASSWORD":
			c.password = value
		}
	}
	return c, c.user != "" && c.password != "" && !strings.Contains(c.user, ":")
}
