package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // of a few bytes, because that is what an ETag is
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// Publish implements mover.Target. The drafts go at the same time, as many as
// Options.Parallel for the whole place.
func (p *Backend) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	out := make([]mover.Outcome, len(batch))
	var wg sync.WaitGroup
	for i, b := range batch {
		d, ok := mover.As[*draft](b)
		if !ok || d.place != p {
			out[i].Err = p.wrap("publish", "", fmt.Errorf("a draft of another place: %w", mover.ErrUsage))
			continue
		}
		if err := p.calls.Acquire(ctx, 1); err != nil {
			out[i].Err = p.wrap("publish", d.entry.Name, context.Cause(ctx))
			continue
		}
		publish := func() {
			defer p.calls.Release(1)
			out[i] = d.publish(ctx)
		}
		if i == len(batch)-1 {
			publish() // here: a goroutine less
			break
		}
		wg.Go(publish)
	}
	wg.Wait()
	return out
}

// publish makes one draft visible.
func (d *draft) publish(ctx context.Context) (out mover.Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var got s3api.Stored
	var err error
	switch {
	case d.state == published:
		return d.outcome
	case d.state != drafting:
		err = errOver
	case !d.ready:
		err = fmt.Errorf("the draft is not finished: %w", mover.ErrUsage)
	default:
		err = d.place.backup(ctx, d.entry.Name, d.key)
	}
	if err == nil {
		got, out.Level, err = d.commit(ctx)
	}
	if err != nil {
		return mover.Outcome{Err: d.place.wrap("publish", d.entry.Name, err)}
	}
	d.state = published
	d.release()
	out.ETag, out.Version = got.ETag, got.Version
	d.outcome = out
	return out
}

// assemblePause is the first pause while a server puts an upload together.
const assemblePause = 100 * time.Millisecond

// commit makes the one call after which the object is there.
func (d *draft) commit(ctx context.Context) (got s3api.Stored, level mover.Level, err error) {
	switch {
	case d.from.Key != "":
		if got, err = d.place.copy(ctx, d.from, d.fromSize, d.object()); errors.Is(err, mover.ErrChanged) {
			err = mover.Unlike(err) // the only condition is on the source
		}
		if err == nil && d.upload.ID != "" {
			err = d.place.abort(ctx, d.upload)
		}
		return got, mover.Cloned, err
	case d.upload.ID != "":
		return d.complete(ctx)
	case d.entry.Kind == mover.Dir && !d.place.profile.KeepsMarkers:
		return s3api.Stored{}, mover.Written, nil
	case d.entry.Kind == mover.Dir:
		if o, err := d.place.store.Head(ctx, d.key, ""); err == nil && o.Size > 0 {
			return s3api.Stored{}, mover.Written, nil // another writer's content: the directory is there by it
		}
	}
	return d.put(ctx)
}

// put stores a draft of one part.
func (d *draft) put(ctx context.Context) (got s3api.Stored, level mover.Level, err error) {
	w := d.object()
	w.Data = d.data
	switch {
	case d.entry.Kind == mover.Dir:
		w.ContentType = dirType
	case len(d.sums) > 0:
		w.CRC = s3api.EncodeCRC(d.sums[0].CRC)
	default:
		w.CRC = s3api.EncodeCRC(s3api.Checksum(d.data)) // a link's target, or nothing
	}
	fenced := d.entry.Kind == mover.File && d.seen.fence(&w, &d.place.profile)
	if got, err = d.place.store.Put(ctx, w); err != nil && fenced {
		got, err = d.fenced(ctx, &w, err)
	}
	if err != nil {
		return got, 0, err
	}
	if got.CRC != "" && w.CRC != "" && got.CRC != w.CRC {
		return got, 0, fmt.Errorf("stored with checksum %s, sent with %s: %w", got.CRC, w.CRC, mover.ErrCorrupt)
	}
	if w.CRC != "" && d.place.profile.ChecksPut {
		return got, mover.Server, nil
	}
	return got, mover.Written, nil
}

// complete puts the parts of an upload together.
func (d *draft) complete(ctx context.Context) (got s3api.Stored, level mover.Level, err error) {
	profile := &d.place.profile
	w := s3api.Put{Key: d.key, FullObject: profile.ChecksWhole, Multipart: true}
	parts := d.copied
	if parts == nil {
		parts = make([]s3api.Stored, len(d.sums))
		for i, r := range d.sums {
			parts[i] = s3api.Stored{Number: i + 1, ETag: r.ETag, CRC: s3api.EncodeCRC(r.CRC)}
		}
	}
	if d.entry.Known.Has(mover.FactCRC) && profile.ChecksWhole {
		w.CRC = s3api.EncodeCRC(d.entry.CRC)
	}
	fenced := d.seen.fence(&w, profile)
	got, err = d.place.complete(ctx, d.upload, parts, w)
	if err != nil && fenced && errors.Is(err, mover.ErrChanged) {
		got, err = d.overtaken(ctx, parts, err)
	}
	if err != nil && (errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrTransient) || errors.Is(err, mover.ErrTimeout)) {
		got, err = d.already(ctx, parts, err)
		d.asked = true
	}
	if err != nil {
		return got, 0, err
	}
	if w.CRC != "" && got.CRC != "" && got.CRC != w.CRC {
		return got, 0, fmt.Errorf("stored with checksum %s, sent with %s: %w", got.CRC, w.CRC, mover.ErrCorrupt)
	}
	if profile.level() < mover.Server {
		if got, err = d.look(ctx); err != nil {
			return got, 0, err
		}
	}
	if err := d.factsOf(ctx, &got); err != nil {
		return got, 0, err
	}
	switch {
	case d.copied != nil:
		return got, mover.Cloned, nil
	case w.CRC != "" && profile.level() == mover.Server:
		return got, mover.Server, nil
	}
	return got, mover.Written, nil
}

// overtaken is what a refused conditional completion has come to: an earlier call with a lost answer may have completed the upload.
func (d *draft) overtaken(ctx context.Context, parts []s3api.Stored, why error) (s3api.Stored, error) {
	o, err := d.place.store.Head(ctx, d.key, "")
	if d.is(&o, err, parts) {
		return s3api.Stored{ETag: o.ETag, Version: o.Version, Encryption: s3api.EncryptionOf(o.Header)}, d.place.abort(ctx, d.upload)
	}
	return s3api.Stored{}, fmt.Errorf("another writer has written it meanwhile: %w", why)
}

// look asks for the object that was put together, where a 200 is not to be believed.
func (d *draft) look(ctx context.Context) (s3api.Stored, error) {
	o, err := d.place.store.Head(ctx, d.key, "")
	if err == nil && o.Size != d.entry.Size {
		err = fmt.Errorf("%d bytes were put together, and %d are there: %w", d.entry.Size, o.Size, mover.ErrCorrupt)
	}
	return s3api.Stored{ETag: o.ETag, Version: o.Version}, err
}

// already looks whether a call with a lost answer has done its work. Then the
// upload is gone, and its object is there or will be when the server has put the
// parts together for an earlier call.
func (d *draft) already(ctx context.Context, parts []s3api.Stored, why error) (s3api.Stored, error) {
	end := time.Now().Add(d.place.opts.Stall)
	o, err := d.place.store.Head(ctx, d.key, "")
	for pause := assemblePause; !d.is(&o, err, parts); pause *= 2 {
		if !d.asked || !errors.Is(why, mover.ErrNotExist) || time.Now().After(end) {
			return s3api.Stored{}, why
		}
		select {
		case <-ctx.Done():
			return s3api.Stored{}, context.Cause(ctx)
		case <-time.After(pause):
		}
		o, err = d.place.store.Head(ctx, d.key, "")
	}
	if err := d.place.abort(ctx, d.upload); err != nil { // had it not been completed, it would stay
		return s3api.Stored{}, err
	}
	if e := d.place.encrypted; e != nil {
		if err := e.hold(s3api.EncryptionOf(o.Header)); err != nil {
			return s3api.Stored{}, e.undo(ctx, d.key, o.Version, err)
		}
	}
	return s3api.Stored{ETag: o.ETag, Version: o.Version}, nil
}

// is says whether an object that was asked for is what the parts make.
func (d *draft) is(o *s3api.Object, err error, parts []s3api.Stored) bool {
	switch {
	case err != nil || o.Size != d.entry.Size:
		return false
	case d.entry.Known.Has(mover.FactCRC) && o.HasCRC:
		return o.CRC == d.entry.CRC
	}
	return o.ETag == uploadETag(parts)
}

// uploadETag is the ETag that most servers give an object of parts: the MD5 of
// the MD5s that are the ETags of its parts, and their number.
func uploadETag(parts []s3api.Stored) string {
	sum := md5.New() //nolint:gosec // see the import
	for _, p := range parts {
		b, err := hex.DecodeString(p.ETag)
		if err != nil {
			return "" // this server does it otherwise
		}
		sum.Write(b)
	}
	return fmt.Sprintf("%x-%d", sum.Sum(nil), len(parts))
}

// factsOf mends the facts of an object when its upload was begun with others, or by
// another process. An upload can not be asked for them.
func (d *draft) factsOf(ctx context.Context, got *s3api.Stored) error {
	want := d.object()
	if !d.adopted && same(&want, &d.begun) {
		return d.place.retag(ctx, &want)
	}
	o, err := d.place.store.Head(ctx, d.key, "")
	if err != nil {
		return err
	}
	as := d.place.again(&o, d.key, want.Metadata)
	want.Encryption = as.Encryption
	if differs, err := d.place.changes(ctx, &o, &want); err != nil || !differs {
		return err
	}
	changed, err := d.place.copy(ctx, s3api.Source{Bucket: d.place.bucket, Key: d.key, IfMatch: o.ETag}, o.Size, want)
	switch {
	case err == nil:
		got.ETag, got.Version = changed.ETag, changed.Version
	case d.place.encrypted != nil:
		err = d.place.encrypted.undo(ctx, d.key, "", err)
	}
	return err
}

// copy has the server copy an object, whatever its size.
func (p *Backend) copy(ctx context.Context, from s3api.Source, size int64, to s3api.Put) (s3api.Stored, error) {
	oneCall := size <= p.copies.whole
	if !oneCall && !p.profile.CopiesParts {
		return s3api.Stored{}, fmt.Errorf("it has %d bytes, and the store copies no object of more than %d: it has no UploadPartCopy: %w", size, p.copies.whole, mover.ErrUnsupported)
	}
	if from.Bucket == p.bucket && (!oneCall || !p.profile.TagsCopies) {
		if err := p.retagged(ctx, from.Key, &to); err != nil {
			return s3api.Stored{}, err
		}
	}
	got, err := p.copied(ctx, from, size, to, oneCall)
	if err == nil {
		err = p.retag(ctx, &to)
	}
	return got, err
}

func (p *Backend) copied(ctx context.Context, from s3api.Source, size int64, to s3api.Put, oneCall bool) (s3api.Stored, error) {
	if oneCall {
		return p.store.Copy(ctx, from, to)
	}
	to.FullObject = p.profile.ChecksWhole
	got, err := p.copyAsUpload(ctx, from, size, to)
	if errors.Is(err, errNoSums) {
		to.FullObject = false
		got, err = p.copyAsUpload(ctx, from, size, to)
	}
	return got, err
}

func (p *Backend) copyAsUpload(ctx context.Context, from s3api.Source, size int64, to s3api.Put) (s3api.Stored, error) {
	u, err := p.create(ctx, to)
	if err != nil {
		return s3api.Stored{}, err
	}
	parts, err := p.copyParts(ctx, u, from, size, to)
	var got s3api.Stored
	if err == nil {
		w := s3api.Put{FullObject: to.FullObject}
		if to.FullObject {
			w.CRC = to.CRC
		}
		got, err = p.complete(ctx, u, parts, w)
	}
	if err != nil {
		err = errors.Join(err, p.abort(context.WithoutCancel(ctx), u))
	}
	return got, err
}

// backup copies what is about to be replaced or removed.
func (p *Backend) backup(ctx context.Context, name, key string) error {
	if p.opts.Backup == "" {
		return nil
	}
	o, err := p.store.Head(ctx, key, "")
	if errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	to := p.again(&o, p.opts.Backup+key[len(p.prefix):], o.Metadata())
	if _, err = p.copy(ctx, s3api.Source{Bucket: p.bucket, Key: key, IfMatch: o.ETag}, o.Size, to); err != nil {
		return fmt.Errorf("backup of %s to %s: %w", mover.Printable(name), mover.Printable(to.Key), ours(err))
	}
	return nil
}
