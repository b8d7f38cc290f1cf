package client

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// FID returns the FID of an open file or directory.
func (c *Client) FID(ctx context.Context, fd int) (lustre.FID, error) { return fileID(ctx, c.k, fd) }

func fileID(ctx context.Context, k kernel, fd int) (lustre.FID, error) {
	f, err := ask(ctx, k, fd, uapi.IocPathToFID, make([]byte, uapi.FIDSize), uapi.DecodeFID)
	if err == nil && f.IsZero() {
		err = errors.New("it has none")
	}
	if err != nil {
		return lustre.FID{}, fmt.Errorf("FID: %w", err)
	}
	return f, nil
}

// elsewhereMost is how many names in a row, outside of what is mounted, are passed by.
const elsewhereMost = 64

// maxLinks is where the asking for names of one file ends: more than ldiskfs allows.
const maxLinks = 70000

// Paths returns all paths of a file below the mount, one for each hard link that its MDT
// keeps track of. A FID that names nothing any more is fs.ErrNotExist. Only root may
// ask, or any user where it is mounted with user_fid2path.
//
// Where a subdirectory is mounted, and with [At], paths are those below that directory, and a
// server says of a name elsewhere what it says of a file that is gone (mdt_path_current of
// lustre/mdt/mdt_handler.c). Paths skips it. A file with its first name elsewhere can
// not be told from one that is gone.
func (c *Client) Paths(ctx context.Context, f lustre.FID) ([]string, error) {
	var paths []string
	elsewhere := 0
	for link := uint32(0); link < maxLinks; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		b := uapi.EncodeFIDToPath(f, link)
		_, err := c.k.ioctl(c.root, uapi.IocFIDToPath, b)
		if errors.Is(err, unix.ENOENT) && len(paths) > 0 && elsewhere < elsewhereMost {
			elsewhere++
			link++
			continue
		}
		if err != nil {
			return nil, pathError(f, err)
		}
		elsewhere = 0
		path, next, err := uapi.DecodeFIDToPath(b)
		if err != nil {
			return nil, fmt.Errorf("path of %v: %w", f, err)
		}
		path = strings.TrimPrefix(path, "/")
		if path != "" && !filepath.IsLocal(path) {
			return nil, fmt.Errorf("path of %v: %q is not below the mount", f, path)
		}
		if next > link || len(paths) == 0 || path != paths[0] { // beyond the last one is the first
			paths = append(paths, path)
		}
		if next <= link { // as it was asked for: there are no more
			break
		}
		link = next
	}
	return paths, nil
}

func pathError(f lustre.FID, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("path of %v: only root may ask, or anybody where Lustre is mounted with user_fid2path: %w", f, err)
	}
	return fmt.Errorf("path of %v: %w", f, unsupported(err))
}

// Link is one name of a file, in one directory.
type Link struct {
	Parent lustre.FID
	Name   string
}

// Links returns the directories that an open file is in, and its names there. Any user may
// ask. A file that loses a name meanwhile can be short of another one.
func (c *Client) Links(ctx context.Context, fd int) ([]Link, error) {
	var links []Link
	for n := uint32(0); n < maxLinks; n++ {
		link, err := ask(ctx, c.k, fd, uapi.IocGetParent, uapi.EncodeGetParent(n), uapi.DecodeGetParent)
		if errors.Is(err, unix.ENODATA) {
			break
		}
		if err == nil && link.Name != "" && (strings.Contains(link.Name, "/") || !filepath.IsLocal(link.Name)) {
			err = fmt.Errorf("%q is no name", link.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("links: %w", err)
		}
		links = append(links, Link(link))
	}
	return links, nil
}

// OpenFID opens a file by its FID, wherever it is now. Only root can. With [OpenToAsk] as
// flags, a released file is not restored. The caller closes it.
func (c *Client) OpenFID(ctx context.Context, f lustre.FID, flags int) (int, error) {
	if err := ctx.Err(); err != nil {
		return -1, err
	}
	fd, err := c.k.openat(c.root, ".lustre/fid/"+f.Name(), flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %v: %w", f, err)
	}
	return fd, nil
}
