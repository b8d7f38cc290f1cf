package gpfs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Attributes are what GPFS knows of one file beside its inode.
type Attributes struct {
	Pool, Fileset     string
	Copies, MaxCopies int      // of data
	Flags             []string // exposed, illreplicated, illplaced, unbalanced ...
	// Offline says that the content is on an external pool (tape): reading it waits for a recall.
	Offline bool
}

// Attributes asks mmlsattr -L, which has no -Y, about a path. -l keeps it from following a
// link that somebody has put there meanwhile.
func (c *Commands) Attributes(ctx context.Context, path string) (Attributes, error) {
	if err := checkPath("file", path); err != nil {
		return Attributes{}, err
	}
	output, err := c.run(ctx, "mmlsattr", "-L", "-l", path)
	if err != nil {
		return Attributes{}, err
	}
	a, err := parseAttributes(output)
	if err != nil {
		return Attributes{}, c.failed("mmlsattr", err)
	}
	return a, nil
}

// parseAttributes reads lines "name: value". The first line repeats the name of the file,
// which may be anything but has no line end (checkPath); it is passed by.
func parseAttributes(output string) (a Attributes, err error) {
	first, rest, _ := strings.Cut(output, "\n")
	if !strings.HasPrefix(first, "file name:") {
		return a, fmt.Errorf("%w: it begins %q", ErrReply, cut(output))
	}
	values := map[string]string{}
	for line := range strings.Lines(rest) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	a.Pool, a.Fileset = values["storage pool name"], values["fileset name"]
	if a.Pool == "" || a.Fileset == "" {
		return a, fmt.Errorf("%w: storage pool name or fileset name is missing", ErrReply)
	}
	if a.Copies, a.MaxCopies, err = parseCopies(values["data replication"]); err != nil {
		return a, err
	}
	a.Flags = strings.Fields(strings.ToLower(values["flags"]))
	for _, word := range strings.Fields(values["Misc attributes"]) {
		a.Offline = a.Offline || word == "OFFLINE"
	}
	return a, nil
}

// parseCopies reads "1 max 2".
func parseCopies(text string) (copies, most int, err error) {
	words := strings.Fields(text)
	if len(words) >= 3 && words[1] == "max" {
		copies, err = strconv.Atoi(words[0])
		if err == nil {
			most, err = strconv.Atoi(words[2])
		}
		if err == nil && copies >= 1 && most >= copies && most < 100 {
			return copies, most, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: data replication is %q", ErrReply, cut(text))
}

// place assigns a file that is still empty to a pool, and sets its copies; what is "" or 0
// stays as the placement policy of the file system has it (mmchattr).
func (c *Commands) place(ctx context.Context, path, pool string, copies int) error {
	if err := checkPath("file", path); err != nil {
		return err
	}
	arguments := []string{"-l"}
	if pool != "" {
		if err := checkName("pool", pool); err != nil {
			return err
		}
		arguments = append(arguments, "-P", pool)
	}
	if copies > 0 {
		arguments = append(arguments, "-r", strconv.Itoa(copies))
	}
	_, err := c.run(ctx, "mmchattr", append(arguments, path)...)
	return err
}
