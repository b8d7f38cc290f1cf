package gpfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"datamove.dev/lustre"
)

// tables runs a command with -Y and returns the sections of its output by their names.
func (c *Commands) tables(ctx context.Context, command string, arguments ...string) (map[string]*table, error) {
	output, err := c.run(ctx, command, append(arguments, "-Y")...)
	if err != nil {
		return nil, err
	}
	tables, err := parseTables(command, output)
	if err != nil {
		return nil, c.failed(command, err)
	}
	return tables, nil
}

func (c *Commands) failed(command string, err error) error {
	return &Error{Op: command, Where: c.dir, Err: err}
}

func (c *Commands) read(command string, t *table, take func(row)) error {
	if t == nil {
		return c.failed(command, fmt.Errorf("%w: a section of its output is missing", ErrReply))
	}
	if err := t.read(take); err != nil {
		return c.failed(command, err)
	}
	return nil
}

// FileSystem returns one file system (mmlsfs).
func (c *Commands) FileSystem(ctx context.Context, name string) (FileSystem, error) {
	if err := checkName("file system", name); err != nil {
		return FileSystem{}, err
	}
	tables, err := c.tables(ctx, "mmlsfs", name)
	if err != nil {
		return FileSystem{}, err
	}
	// Here a row is an attribute and a column its value.
	values := map[string]string{}
	if err := c.read("mmlsfs", tables[""], func(w row) {
		if device := w.text("deviceName"); device == name || device == "/dev/"+name {
			values[w.text("fieldName")] = w.text("data")
		}
	}); err != nil {
		return FileSystem{}, err
	}
	for _, needed := range []string{"defaultMountPoint", "quotasEnforced"} {
		if _, ok := values[needed]; !ok {
			return FileSystem{}, c.failed("mmlsfs", fmt.Errorf("%w: %s is missing", ErrReply, needed))
		}
	}
	return FileSystem{Mount: values["defaultMountPoint"], FilesetQuotas: holdsFilesets(values["quotasEnforced"])}, nil
}

// Filesets returns all filesets of a file system (mmlsfileset).
func (c *Commands) Filesets(ctx context.Context, fileSystem string) ([]Fileset, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	tables, err := c.tables(ctx, "mmlsfileset", fileSystem)
	if err != nil {
		return nil, err
	}
	var found []Fileset
	err = c.read("mmlsfileset", tables[""], func(w row) { found = append(found, readFileset(w.text("filesetName"), w)) })
	return found, err
}

// Fileset returns one; fs.ErrNotExist when there is none of that name.
func (c *Commands) Fileset(ctx context.Context, fileSystem, name string) (Fileset, error) {
	if err := checkName("fileset", name); err != nil {
		return Fileset{}, err
	}
	all, err := c.Filesets(ctx, fileSystem)
	if err != nil {
		return Fileset{}, err
	}
	for _, f := range all {
		if f.Name == name {
			return f, nil
		}
	}
	return Fileset{}, c.failed("mmlsfileset", fmt.Errorf("fileset %q: %w", name, fs.ErrNotExist))
}

// FilesetQuota returns the limits of a fileset and what it holds (mmlsquota -j); found is false
// when there is no entry.
func (c *Commands) FilesetQuota(ctx context.Context, fileSystem, name string) (found bool, quota lustre.Quota, err error) {
	if err := errors.Join(checkName("file system", fileSystem), checkName("fileset", name)); err != nil {
		return false, quota, err
	}
	tables, err := c.tables(ctx, "mmlsquota", "-j", name, fileSystem)
	if err != nil {
		return false, quota, err
	}
	// The section has been seen with the kind of quota as its name, and without.
	err = c.read("mmlsquota", cmp.Or(tables["fileset"], tables[""]), func(w row) {
		if w.text("quotaType") == filesetQuota && w.text("filesystemName") == fileSystem && w.text("name") == name {
			found, quota = true, entryOf(w, "name", "id").quota(time.Now())
		}
	})
	return found, quota, err
}

// SetFilesetQuota sets the limits of a fileset, all four (mmsetquota).
func (c *Commands) SetFilesetQuota(ctx context.Context, fileSystem, name string, l lustre.Limits) error {
	if err := errors.Join(checkName("file system", fileSystem), checkName("fileset", name), checkLimits(l)); err != nil {
		return err
	}
	_, err := c.run(ctx, "mmsetquota", fileSystem+":"+name,
		"--block", inKiB(l.SoftBytes)+"K:"+inKiB(l.HardBytes)+"K",
		"--files", fmt.Sprintf("%d:%d", l.SoftFiles, l.HardFiles))
	return err
}

// CreateFileset makes a fileset and links it (mmcrfileset, mmlinkfileset); fs.ErrExist when
// there is one of that name. The caller sets the mode of its root directory: chmod does that.
func (c *Commands) CreateFileset(ctx context.Context, fileSystem string, n NewFileset) error {
	if err := errors.Join(checkName("file system", fileSystem), n.check()); err != nil {
		return err
	}
	if _, err := c.run(ctx, "mmcrfileset", fileSystem, n.Name, "--inode-space", n.Within); err != nil {
		return err
	}
	return c.LinkFileset(ctx, fileSystem, n.Name, n.Junction)
}

// LinkFileset makes a fileset visible at a junction (mmlinkfileset).
func (c *Commands) LinkFileset(ctx context.Context, fileSystem, name, junction string) error {
	return c.change(ctx, "mmlinkfileset", fileSystem, name, checkPath("junction", junction), "-J", junction)
}

// UnlinkFileset takes a fileset out of the tree (mmunlinkfileset). force does it while files of it are open.
func (c *Commands) UnlinkFileset(ctx context.Context, fileSystem, name string, force bool) error {
	if force {
		return c.change(ctx, "mmunlinkfileset", fileSystem, name, nil, "-f")
	}
	return c.change(ctx, "mmunlinkfileset", fileSystem, name, nil)
}

// DeleteFileset deletes an unlinked fileset with everything in it (mmdelfileset -f).
func (c *Commands) DeleteFileset(ctx context.Context, fileSystem, name string) error {
	return c.change(ctx, "mmdelfileset", fileSystem, name, nil, "-f")
}

func (c *Commands) change(ctx context.Context, command, fileSystem, name string, wrong error, more ...string) error {
	if err := errors.Join(checkName("file system", fileSystem), checkName("fileset", name), wrong); err != nil {
		return err
	}
	_, err := c.run(ctx, command, append([]string{fileSystem, name}, more...)...)
	return err
}

// Pools returns the storage pools of a file system: by mmlspool, which is quick and has no
// -Y (and with -L another form), and where its table is not what we know, by mmdf, which asks every disk.
func (c *Commands) Pools(ctx context.Context, fileSystem string) ([]Pool, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	output, err := c.run(ctx, "mmlspool", fileSystem)
	if err != nil {
		return nil, err
	}
	if found, ok := parsePools(output); ok {
		return found, nil
	}
	tables, err := c.tables(ctx, "mmdf", fileSystem)
	if err != nil {
		return nil, err
	}
	var found []Pool
	err = c.read("mmdf", tables["poolTotal"], func(w row) {
		found = append(found, Pool{Name: w.text("poolName"), TotalBytes: kib(w, "poolSize"), FreeBytes: kib(w, "freeBlocks")})
	})
	return found, err
}

// A line of mmlspool: name, id, block size with its unit, data and metadata as yes or no,
// then KiB of data in all and free, with a percentage; the same of metadata follows.
var poolLine = regexp.MustCompile(`^(\S+)\s+\d+\s+[\d.]+ ?[KMG]B?\s+(?:yes|no)\s+(?:yes|no)\s+(\d+)\s+(\d+)\s+\(\s*\d+%\)`)

// parsePools reads the table of mmlspool. ok is false when a line below its header is of
// another form.
func parsePools(output string) (found []Pool, ok bool) {
	began := false
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if !began {
			began = strings.HasPrefix(line, "Name ") && strings.Contains(line, "Total Data in (KB)")
			continue
		}
		fields := poolLine.FindStringSubmatch(line)
		if fields == nil || checkName("pool", fields[1]) != nil {
			return nil, false
		}
		total, err1 := strconv.ParseInt(fields[2], 10, 64)
		free, err2 := strconv.ParseInt(fields[3], 10, 64)
		if err1 != nil || err2 != nil || max(total, free) >= 1<<53 {
			return nil, false
		}
		found = append(found, Pool{Name: fields[1], TotalBytes: total << 10, FreeBytes: free << 10})
	}
	return found, began && len(found) > 0
}
