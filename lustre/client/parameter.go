package client

import (
	"errors"
	"io"
	"io/fs"
	"strings"
)

// maxParameter is how much of one of a client's parameters is read: the list of the OSTs
// of a pool is the longest, with 2,000 names.
const maxParameter = 1 << 20

// readParameter reads a file of a client's parameters.
func readParameter(files fs.FS, name string) (string, error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxParameter))
	return strings.TrimSpace(string(b)), err
}

// places are where a parameter may be: Lustre has moved them from proc to sys.
func (c *Client) places(of, kind, name string) []string {
	tail := of + "/" + c.Name + "-" + kind + c.instance + "/" + name
	return []string{"sys/fs/lustre/" + tail, "proc/fs/lustre/" + tail, "sys/kernel/debug/lustre/" + tail}
}

// parameter reads one of this mount's parameters: of "lov", kind "clilov-", or of "llite", kind "".
func (c *Client) parameter(of, kind, name string) (string, error) {
	var errs []error
	for _, place := range c.places(of, kind, name) {
		value, err := readParameter(c.k.files(), place)
		if err == nil {
			return value, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
