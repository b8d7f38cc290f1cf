package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// Limits of S3; see "Amazon S3 multipart upload limits" in its user guide. AWS
// takes larger objects than MaxBytes by now; other servers do not.
const (
	maxParts  = 10_000
	partMin   = 5 << 20
	partUsual = 16 << 20
	copyMax   = 5 << 30 // one CopyObject, one part
	maxBytes  = 5 << 40
)

// Backend is a mover.Backend in a bucket.
type Backend struct {
	opts       Options
	store      s3api.Store
	client     *s3api.Client // of the store
	encrypted  *encrypted    // around it; nil where no encryption is asked for
	bucket     string
	prefix     string // "" or with '/' at its end
	address    string
	profile    Profile
	calls      *semaphore.Weighted // what the place has in flight by itself
	markers    markers
	uploads    uploads
	rules      bucketRules
	tagsHidden tally       // objects with tags that may not be read
	tagsTold   atomic.Bool // the server says with objects how many tags they have, or knows none
	// guardsHidden are objects that were changed, with an ACL or locks that may not be read.
	guardsHidden tally
	unseen       remark
	// unanswered are salts of locks that may have been written, although no answer said so.
	unanswered sync.Map
	walks      walkSizes
	copies     copySizes
}

// copySizes say how the store copies an object.
type copySizes struct {
	whole int64 // up to this size in one call
	part  int64 // of a larger one, where that makes no more than maxParts
}

var defaultCopies = copySizes{whole: copyMax, part: 1 << 30}

var _ mover.Backend = (*Backend)(nil)

// Open opens the place. It makes one call, to see that the bucket is there, and a
// few more where a profile is missing.
func Open(ctx context.Context, o Options) (*Backend, error) {
	p := &Backend{opts: o, address: address(&o), walks: defaultSizes, copies: defaultCopies}
	if err := p.open(ctx); err != nil {
		p.hangUp()
		return nil, p.wrap("open", "", s3api.Lasting(err))
	}
	return p, nil
}

func address(o *Options) string {
	if prefix := strings.Trim(o.Prefix, "/"); prefix != "" {
		return "s3://" + o.Bucket + "/" + prefix
	}
	return "s3://" + o.Bucket
}

func (p *Backend) open(ctx context.Context) error {
	if err := p.dial(ctx, p.opts.API()); err != nil {
		return err
	}
	err := p.client.CheckRegion(ctx)
	if err == nil {
		err = p.learn(ctx)
	}
	return p.client.CheckScheme(ctx, err)
}

// hangUp closes the idle connections.
func (p *Backend) hangUp() {
	if p.client != nil {
		p.client.Close()
	}
}

// dial makes the client of the store, and calls none of its servers.
func (p *Backend) dial(ctx context.Context, api s3api.Options) (err error) {
	o := &p.opts
	if err := o.complete(); err != nil {
		return err
	}
	if p.client, err = s3api.Dial(ctx, api); err != nil {
		return err
	}
	api = p.client.Options()
	o.Region, o.Stall, o.Logger = api.Region, api.Stall, api.Logger
	p.store = p.client
	p.bucket, p.prefix = o.Bucket, o.Prefix
	p.calls = semaphore.NewWeighted(int64(cmp.Or(o.Parallel, s3api.MaxParallel)))
	if o.Encryption != "" {
		p.encrypted = &encrypted{
			Store: p.store, asked: s3api.Encryption{Algorithm: o.Encryption, Key: o.KMSKey}, bucket: p.bucket, where: o.Region, removal: o.Stall,
			probe: func() string { return p.ownKey(probePrefix + randomName()) }, proving: semaphore.NewWeighted(1),
		}
		p.store = p.encrypted
	}
	return nil
}

// String is the address of the place.
func (p *Backend) String() string { return p.address }

// usualParallel are the calls of a walk that are in flight.
const usualParallel = 16

// ahead is how many directories a walk lists ahead.
func (p *Backend) ahead() int { return cmp.Or(p.opts.Parallel, usualParallel) }

// first is how many calls are worth having in flight at first. With more streams
// than the processors serve, what comes in has left their caches before it is
// written: 16 of them on 2 cores take a tenth longer than 4 to 8.
func (p *Backend) first() int { return min(p.ahead(), 4*runtime.GOMAXPROCS(0)) }

// Capabilities implements mover.Backend.
func (p *Backend) Capabilities() mover.Capabilities {
	kept := keeps
	if !p.profile.TellsCRC {
		kept &^= mover.FactCRC
	}
	kept &^= mover.FactsOfObject &^ p.profile.keepsObject()
	var updates int64
	if !p.profile.CopiesParts && !p.profile.Probed.IsZero() {
		updates = p.copies.whole
	}
	return mover.Capabilities{
		System: p.profile.Server, Store: true, Guards: true, Untrusted: !p.opts.Trusted,
		Keeps: kept, Level: p.profile.level(), Least: p.profile.least(), Remote: true, NeedsManifest: true, DirsByContent: !p.profile.KeepsMarkers,
		FileAndDirShareName: p.profile.Twins || p.profile.Probed.IsZero(), // that it was not seen is no reason to say that S3 has none
		AnyKey:              true,
		SmallBytes:          1 << 20, BatchFiles: 32, BatchBytes: 4 << 20,
		PartBytes: partUsual, PartMin: partMin, PartAlign: 1, MaxParts: maxParts, MaxBytes: maxBytes, UpdateBytes: updates,
		Parallel: p.first(), MaxParallel: s3api.MaxParallel,
	}
}

// Located implements mover.Locator: buckets of Amazon have one name for all regions, others one for each endpoint.
func (p *Backend) Located() (volume, path string, err error) {
	host := "aws"
	if !p.client.Amazon() {
		host = p.client.Endpoint()
	}
	return host + "/" + p.opts.Bucket, strings.Trim(p.prefix, "/"), nil
}

var (
	_ mover.Sender  = (*Backend)(nil)
	_ mover.Locator = (*Backend)(nil)
)

// Sending implements mover.Sender.
func (p *Backend) Sending() (onTheWay, all time.Duration) { return p.client.Sending() }

// Close implements mover.Backend.
func (p *Backend) Close() error {
	p.hangUp()
	return nil
}

// key returns the whole key of a name, or says why it can not have one.
func (p *Backend) key(name string) (string, error) {
	key, raw := rawKey(name)
	if !raw {
		return p.encoded(name)
	}
	return p.whole(key)
}

// encoded is the whole key of a name that is not of a key which leads to no name.
func (p *Backend) encoded(name string) (string, error) {
	key, err := EncodeKey(name)
	if err != nil {
		return "", err
	}
	return p.whole(key)
}

func (p *Backend) whole(key string) (string, error) {
	if n := len(p.prefix) + len(key); n > KeyBytes {
		return "", mover.NoSuchName(fmt.Errorf("its key has %d bytes, and keys end at %d: %w", n, KeyBytes, mover.ErrUnsupported))
	}
	return p.prefix + key, nil
}

// takes says why the server takes no new object under a key. What is there is there.
func (p *Backend) takes(key string) error {
	limit := p.profile.SegmentBytes
	for seg := range strings.SplitSeq(key, "/") {
		if limit > 0 && len(seg) > limit {
			return mover.NoSuchName(fmt.Errorf("a segment of its key has %d bytes, and this server takes %d: %w", len(seg), limit, mover.ErrUnsupported))
		}
	}
	return nil
}

// marker is the key that a directory's marker has; "" for the root of a bucket.
func (p *Backend) marker(name string) (string, error) {
	if name == "" {
		return p.prefix, nil
	}
	key, err := p.encoded(name)
	if err == nil && len(key) == KeyBytes {
		err = mover.NoSuchName(fmt.Errorf("its marker has %d bytes, and keys end at %d: %w", KeyBytes+1, KeyBytes, mover.ErrUnsupported))
	}
	return key + "/", err
}

// ownKey is the key of something of ours.
func (p *Backend) ownKey(name string) string { return p.prefix + own + "/" + name }

// Stat implements mover.Backend. A name can be a file and a directory at once in S3;
// then it is the file.
func (p *Backend) Stat(ctx context.Context, name string) (mover.Entry, error) {
	e, err := p.stat(ctx, name)
	return e, p.wrap("stat", name, err)
}

func (p *Backend) stat(ctx context.Context, name string) (mover.Entry, error) {
	if name == "" {
		return p.statDir(ctx, "")
	}
	key, err := p.key(name)
	if err != nil {
		return mover.Entry{}, err
	}
	o, err := p.store.Head(ctx, key, "")
	if errors.Is(err, mover.ErrNotExist) {
		return p.statDir(ctx, name)
	}
	if err != nil {
		return mover.Entry{}, err
	}
	e, symlink := entryOf(name, &o)
	if symlink {
		return p.readSymlink(ctx, e, key)
	}
	err = p.tell(ctx, &e, &o)
	return e, err
}

// statDir finds a directory by what is in it. The root is always there.
func (p *Backend) statDir(ctx context.Context, name string) (mover.Entry, error) {
	marker, err := p.marker(name)
	if err != nil {
		return mover.Entry{}, err
	}
	e := mover.Entry{Name: name, Kind: mover.Dir}
	if marker == "" {
		return e, nil
	}
	found, err := p.firstKeys(ctx, marker, 1)
	switch {
	case err != nil:
		return mover.Entry{}, err
	case len(found) > 0 && found[0] == marker:
		return p.statMarker(ctx, e, marker)
	case len(found) == 0 && name != "":
		return mover.Entry{}, fmt.Errorf("no such object: %w", mover.ErrNotExist)
	}
	return e, nil
}

// firstKeys lists up to n keys that begin with a prefix.
func (p *Backend) firstKeys(ctx context.Context, prefix string, n int) (keys []string, err error) {
	for page, err := range p.store.List(ctx, s3api.Listing{Prefix: prefix, Max: n}) {
		if err != nil {
			return nil, err
		}
		for i := range page {
			if keys = append(keys, page[i].Key); len(keys) == n {
				return keys, nil
			}
		}
	}
	return keys, nil
}

func (p *Backend) statMarker(ctx context.Context, e mover.Entry, marker string) (mover.Entry, error) {
	o, err := p.store.Head(ctx, marker, "")
	if errors.Is(err, mover.ErrNotExist) {
		return e, nil // a server that lists it but can not tell more
	}
	if err != nil {
		return mover.Entry{}, err
	}
	decodeMeta(&e, o.Meta)
	if o.Size > 0 { // content of others, which a walk tells of
		return e, nil
	}
	decodeObject(&e, &o)
	err = p.tell(ctx, &e, &o)
	return e, err
}

// entryOf is the entry of an object as its headers tell it. A symlink's target is
// still to be read.
func entryOf(name string, o *s3api.Object) (e mover.Entry, symlink bool) {
	e = mover.Entry{Name: name, Kind: mover.File, Size: max(0, o.Size), ETag: o.ETag, Version: o.Version, Mtime: mover.TimeOf(o.Modified)}
	if key, raw := rawKey(name); raw {
		e.Key = key
	}
	symlink = decodeMeta(&e, o.Meta) && o.Size > 0 && o.Size <= targetBytes
	decodeObject(&e, o)
	if o.HasCRC {
		e.CRC = o.CRC
		e.Known |= mover.FactCRC
	}
	e.Stored = e.Size
	return e, symlink
}

// wrap gives an error its operation and its name, once.
func (p *Backend) wrap(op, name string, err error) error {
	var already *mover.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	if key, raw := rawKey(name); raw {
		name = key
	}
	e := &mover.Error{Op: op, Location: p.address, Name: name, Err: err}
	if p.client != nil { // else nothing has been asked of the store
		p.client.Describe(e)
	}
	return e
}

// Region asks in which region a bucket is, in one call or two, without reading or
// writing anything in it. It is mover.ErrUnsupported where the store does not say.
func Region(ctx context.Context, o Options) (string, error) {
	p := &Backend{opts: o, address: address(&o)}
	defer p.hangUp()
	err := p.dial(ctx, p.opts.API())
	var region string
	if err == nil {
		region, err = p.client.Region(ctx)
	}
	return region, p.wrap("region of", "", err)
}
