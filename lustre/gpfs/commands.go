package gpfs

import (
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

// section runs a command with -Y and returns one section of its output, nil when it is not there.
func (c *Commands) section(ctx context.Context, section, command string, arguments ...string) (*table, error) {
	output, err := c.run(ctx, command, append(arguments, "-Y")...)
	if err != nil {
		return nil, err
	}
	tables, err := parseTables(command, output)
	if err != nil {
		return nil, c.failed(command, err)
	}
	return tables[section], nil
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
	t, err := c.section(ctx, "", "mmlsfs", name)
	if err != nil {
		return FileSystem{}, err
	}
	// Here a row is an attribute and a column its value.
	values := map[string]string{}
	if err := c.read("mmlsfs", t, func(w row) {
		if device := w.text("deviceName"); device == name || device == "/dev/"+name {
			values[w.text("fieldName")] = w.text("data")
		}
	}); err != nil {
		return FileSystem{}, err
	}
	r := &reading{}
	number := func(field string) int64 {
		n, err := strconv.ParseInt(values[field], 10, 64)
		if err != nil || n < 0 {
			r.fail(field, fmt.Sprintf("is %q, and not a whole number", cut(values[field])))
		}
		return n
	}
	text := func(field string) string {
		if _, ok := values[field]; !ok {
			r.fail(field, "is missing")
		}
		return values[field]
	}
	found := FileSystem{
		Name: name, Mount: text("defaultMountPoint"), BlockBytes: number("blockSize"),
		Copies: int(min(number("defaultDataReplicas"), 99)), MaxCopies: int(min(number("maxDataReplicas"), 99)),
		FilesetQuotas: strings.Contains(strings.ToLower(text("quotasEnforced")), "fileset"),
		FilesetStatfs: strings.EqualFold(text("filesetdfEnabled"), "yes"),
	}
	if r.err != nil {
		return FileSystem{}, c.failed("mmlsfs", r.err)
	}
	return found, nil
}

// Filesets returns all filesets of a file system (mmlsfileset).
func (c *Commands) Filesets(ctx context.Context, fileSystem string) ([]Fileset, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	t, err := c.section(ctx, "", "mmlsfileset", fileSystem)
	if err != nil {
		return nil, err
	}
	var found []Fileset
	err = c.read("mmlsfileset", t, func(w row) {
		f := Fileset{Name: w.text("filesetName"), Junction: w.text("path"), InodeSpace: w.count("inodeSpace")}
		f.ID = uint32(min(w.count("id"), 1<<32-1))
		if w.text("status") == "Linked" {
			f.RootInode = uint64(w.count("rootInode"))
		} else {
			f.Junction = ""
		}
		found = append(found, f)
	})
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
	t, err := c.section(ctx, "", "mmlsquota", "-j", name, fileSystem)
	if err != nil {
		return false, quota, err
	}
	err = c.quotas("mmlsquota", t, fileSystem, func(e quotaEntry) {
		if e.name == name {
			found, quota = true, e.quota(time.Now())
		}
	})
	return found, quota, err
}

// FilesetQuotas returns those of all filesets that have an entry (mmrepquota -j).
func (c *Commands) FilesetQuotas(ctx context.Context, fileSystem string) ([]lustre.Quota, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	t, err := c.section(ctx, "", "mmrepquota", "-j", fileSystem)
	if err != nil {
		return nil, err
	}
	var found []lustre.Quota
	err = c.quotas("mmrepquota", t, fileSystem, func(e quotaEntry) { found = append(found, e.quota(time.Now())) })
	return found, err
}

func (c *Commands) quotas(command string, t *table, fileSystem string, take func(quotaEntry)) error {
	return c.read(command, t, func(w row) {
		if w.text("quotaType") != filesetQuota || w.text("filesystemName") != fileSystem {
			return
		}
		e := quotaEntry{
			name: w.text("name"), id: w.count("id"),
			blocks: held{w.kib("blockUsage"), w.kib("blockInDoubt"), w.kib("blockQuota"), w.kib("blockLimit"), w.text("blockGrace")},
			files:  held{w.count("filesUsage"), w.count("filesInDoubt"), w.count("filesQuota"), w.count("filesLimit"), w.text("filesGrace")},
		}
		if w.r.err == nil {
			take(e)
		}
	})
}

// SetFilesetQuota sets the limits of a fileset, all four (mmsetquota).
func (c *Commands) SetFilesetQuota(ctx context.Context, fileSystem, name string, l lustre.Limits) error {
	if err := errors.Join(checkName("file system", fileSystem), checkName("fileset", name), checkLimits(l)); err != nil {
		return err
	}
	_, err := c.run(ctx, "mmsetquota", fileSystem+":"+name,
		"--block", kib(l.SoftBytes)+"K:"+kib(l.HardBytes)+"K",
		"--files", fmt.Sprintf("%d:%d", l.SoftFiles, l.HardFiles))
	return err
}

// CreateFileset makes a fileset, and links it where it has a junction (mmcrfileset,
// mmlinkfileset); fs.ErrExist when there is one of that name. The owner and mode of its root
// directory are the business of whoever linked it: chown and chmod do that.
func (c *Commands) CreateFileset(ctx context.Context, fileSystem string, n NewFileset) error {
	if err := errors.Join(checkName("file system", fileSystem), n.check()); err != nil {
		return err
	}
	arguments := []string{fileSystem, n.Name}
	if n.Comment != "" {
		arguments = append(arguments, "-t", n.Comment)
	}
	if n.Independent {
		arguments = append(arguments, "--inode-space", "new")
		if n.MaxFiles > 0 {
			arguments = append(arguments, "--inode-limit", strconv.FormatInt(n.MaxFiles, 10))
		}
	}
	if _, err := c.run(ctx, "mmcrfileset", arguments...); err != nil || n.Junction == "" {
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
// -Y, and where its table is not what we know, by mmdf, which asks every disk.
func (c *Commands) Pools(ctx context.Context, fileSystem string) ([]Pool, error) {
	if err := checkName("file system", fileSystem); err != nil {
		return nil, err
	}
	output, err := c.run(ctx, "mmlspool", fileSystem, "all", "-L")
	if err != nil {
		return nil, err
	}
	if found, ok := parsePools(output); ok {
		return found, nil
	}
	t, err := c.section(ctx, "poolTotal", "mmdf", fileSystem)
	if err != nil {
		return nil, err
	}
	var found []Pool
	err = c.read("mmdf", t, func(w row) {
		found = append(found, Pool{Name: w.text("poolName"), TotalBytes: w.kib("poolSize"), FreeBytes: w.kib("freeBlocks")})
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
