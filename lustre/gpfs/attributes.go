package gpfs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Attributes are what GPFS knows of one file beside its inode.
type Attributes struct {
	Pool, Fileset string
	Copies        int      // of data
	Flags         []string // exposed, illreplicated, illplaced, unbalanced ...
	// Offline says that the content is on an external pool (tape): reading it waits for a recall.
	Offline bool
}

// Attributes asks mmlsattr -L, which has no -Y, about a path. -l keeps it from following a
// link that another process has put there meanwhile.
func (c *Commands) Attributes(ctx context.Context, path string) (Attributes, error) {
	if err := checkPath("file", path); err != nil {
		return Attributes{}, err
	}
	output, err := c.run(ctx, "mmlsattr", "-L", "-l", path)
	if err != nil {
		return Attributes{}, err
	}
	a, err := parseAttributes(path, output)
	if err != nil {
		return Attributes{}, c.failed("mmlsattr", err)
	}
	return a, nil
}

// parseAttributes reads lines "name: value", of which the first one repeats the name of the
// file. The command takes patterns for names ("mmlsattr command", 4.2.0), so what it says has
// to be about this file and no other. A path has no line end (checkPath).
func parseAttributes(path, output string) (a Attributes, err error) {
	first, rest, _ := strings.Cut(output, "\n")
	name, ok := strings.CutPrefix(first, "file name:")
	if !ok || strings.TrimLeft(name, " ") != path || strings.Contains(rest, "\nfile name:") {
		return a, fmt.Errorf("%w: it is not about %q alone; it begins %q", ErrReply, cut(path), cut(output))
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
	if a.Copies, err = parseCopies(values["data replication"]); err != nil {
		return a, err
	}
	a.Flags = strings.Fields(strings.ToLower(values["flags"]))
	for _, word := range strings.Fields(values["Misc attributes"]) {
		a.Offline = a.Offline || word == "OFFLINE"
	}
	return a, nil
}

// parseCopies reads "1 max 2".
func parseCopies(text string) (int, error) {
	if words := strings.Fields(text); len(words) >= 3 && words[1] == "max" {
		copies, err1 := strconv.Atoi(words[0])
		most, err2 := strconv.Atoi(words[2])
		if err1 == nil && err2 == nil && copies >= 1 && most >= copies && most < 100 {
			return copies, nil
		}
	}
	return 0, fmt.Errorf("%w: data replication is %q", ErrReply, cut(text))
}

// place assigns a file that is still empty to a pool, and sets its copies; what is "" or 0
// stays as the placement policy of the file system has it (mmchattr).
func (c *Commands) place(ctx context.Context, path, pool string, copies int) error {
	if err := checkPath("file", path); err != nil {
		return err
	}
	if strings.ContainsAny(path, "*?[") {
		return fmt.Errorf("pool or copies of %q: %w: mmchattr takes patterns for names, and this may be one", path, errors.ErrUnsupported)
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
