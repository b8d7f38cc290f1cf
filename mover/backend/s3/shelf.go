package s3

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// manifestName is where the manifest of a prefix lies, below PREFIX/.datamove/.
const manifestName = "manifest-v1.jsonl.zst"

// OpenManifest reads the manifest that lies with the objects. ErrNotExist when
// there is none.
func (p *Backend) OpenManifest(ctx context.Context) (io.ReadCloser, error) {
	r, err := p.openManifest(ctx, p.ownKey(manifestName))
	if err != nil {
		return nil, p.wrap("open manifest", "", err)
	}
	return r, nil
}

// OpenManifestAbove reads the nearest manifest of a prefix that this one is below, and says by which name it is there. ErrNotExist when there is
// none. A caller that may not see that is told by a note.
func (p *Backend) OpenManifestAbove(ctx context.Context) (r io.ReadCloser, below string, err error) {
	for above := p.prefix; above != ""; {
		above = above[:strings.LastIndexByte(above[:len(above)-1], '/')+1]
		if below, err = DecodeKey(strings.TrimSuffix(p.prefix[len(above):], "/")); err != nil {
			break
		}
		r, err = p.openManifest(ctx, above+own+"/"+manifestName)
		if err == nil {
			return r, below, nil
		}
		if kind := s3api.KindOf(err); kind == mover.ErrPermission && !errors.Is(err, mover.ErrTransient) {
			p.unseen.once(fmt.Sprintf("whether a manifest above %s tells of ACLs, extended attributes and hard links of what is in it is not known: %s may not be read", p.address, above+own))
		} else if kind != mover.ErrNotExist {
			return nil, "", p.wrap("open manifest above", "", err)
		}
	}
	return nil, "", p.wrap("open manifest above", "", mover.ErrNotExist)
}

// OpenManifestBelow reads the manifest of a directory. ErrNotExist when there is none.
func (p *Backend) OpenManifestBelow(ctx context.Context, dir string) (r io.ReadCloser, err error) {
	prefix, err := p.marker(dir)
	if err == nil {
		r, err = p.openManifest(ctx, prefix+own+"/"+manifestName)
	}
	if err != nil {
		return nil, p.wrap("open manifest", dir, err)
	}
	return r, nil
}

func (p *Backend) openManifest(ctx context.Context, key string) (io.ReadCloser, error) {
	o, err := p.store.Head(ctx, key, "")
	if err != nil {
		return nil, err
	}
	c := &content{place: p, key: key, etag: o.ETag}
	c.entry = mover.Entry{Name: own + "/" + manifestName, Kind: mover.File, Size: o.Size, ETag: o.ETag}
	r, err := c.Range(ctx, 0, o.Size)
	if err != nil || !o.HasCRC {
		return r, err
	}
	return &checkedReader{ReadCloser: r, sum: crc64.New(s3api.ChecksumTable), want: o.CRC}, nil
}

// checkedReader compares what was read with the checksum that the store kept.
type checkedReader struct {
	io.ReadCloser
	sum  hash.Hash64
	want uint64
}

func (r *checkedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.sum.Write(p[:n])
	if err == io.EOF && r.sum.Sum64() != r.want {
		err = fmt.Errorf("manifest has checksum %016x, its store kept %016x: %w", r.sum.Sum64(), r.want, mover.ErrCorrupt)
	}
	return n, err
}

// PutManifest replaces the manifest, whole, by what write writes. It is spooled to
// a file without a name in the state directory, because its length and checksum go
// before it. A process that is confined to its roots can write there, and not in /tmp.
func (p *Backend) PutManifest(ctx context.Context, write func(io.Writer) error) error {
	return p.wrap("put manifest", "", p.putManifest(ctx, write))
}

// RemoveManifest removes the manifest and the marker of the root: what is left of
// a tree without entries. What is missing is no error.
func (p *Backend) RemoveManifest(ctx context.Context) error {
	keys := []string{p.ownKey(manifestName)}
	first, err := p.firstKeys(ctx, p.prefix, 1)
	if err != nil {
		return p.wrap("remove manifest", "", err)
	}
	if p.prefix != "" && slices.Contains(first, p.prefix) { // versitygw refuses to remove one that is not there
		keys = append(keys, p.prefix)
	}
	for _, key := range keys {
		if err := p.store.Remove(ctx, key, "", ""); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return p.wrap("remove manifest", "", err)
		}
	}
	return nil
}

func (p *Backend) putManifest(ctx context.Context, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(p.profilePath())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	spool, err := os.CreateTemp(dir, ".manifest-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, spool.Close()) }()
	if err := os.Remove(spool.Name()); err != nil { // nothing is left after a crash
		return err
	}
	sum := crc64.New(s3api.ChecksumTable)
	if err := write(io.MultiWriter(spool, sum)); err != nil {
		return err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if size <= partUsual {
		return p.putSpool(ctx, io.NewSectionReader(spool, 0, size), size, sum.Sum64())
	}
	return p.putSpoolParts(ctx, spool, size, sum.Sum64())
}

func (p *Backend) putSpool(ctx context.Context, body io.Reader, size int64, sum uint64) error {
	_, err := p.store.Put(ctx, s3api.Put{Key: p.ownKey(manifestName), Body: body, Size: size, ContentType: "application/zstd", CRC: s3api.EncodeCRC(sum)})
	return err
}

func (p *Backend) putSpoolParts(ctx context.Context, spool io.ReaderAt, size int64, sum uint64) (err error) {
	w := s3api.Put{Key: p.ownKey(manifestName), ContentType: "application/zstd", FullObject: p.profile.ChecksWhole}
	u, err := p.create(ctx, w)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.abort(context.WithoutCancel(ctx), u))
		}
	}()
	var parts []s3api.Stored
	step := max(partUsual, (size+maxParts-1)/maxParts)
	for off := int64(0); off < size; off += step {
		n := min(step, size-off)
		hash := crc64.New(s3api.ChecksumTable)
		if _, err := io.Copy(hash, io.NewSectionReader(spool, off, n)); err != nil {
			return err
		}
		part, err := p.store.UploadPart(ctx, u, len(parts)+1, s3api.Put{Body: io.NewSectionReader(spool, off, n), Size: n, CRC: s3api.EncodeCRC(hash.Sum64())})
		if err != nil {
			return err
		}
		part.CRC = s3api.EncodeCRC(hash.Sum64())
		parts = append(parts, part)
	}
	if w.FullObject {
		w.CRC = s3api.EncodeCRC(sum)
	}
	_, err = p.complete(ctx, u, parts, w)
	return err
}
