package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/backend/s3/s3api"
)

// Profile is what the server of a bucket really does. Its zero value trusts
// nothing. A claim is true only when the right request was taken and the wrong one
// refused.
type Profile struct {
	Format  int       `json:"format"` // profileFormat
	Probed  time.Time `json:"probed"` // zero: never
	Address string    `json:"address"`
	Server  string    `json:"server"` // as it calls itself

	ChecksPut    bool `json:"checksPut"`    // compares the CRC-64/NVME of an object
	ChecksPart   bool `json:"checksPart"`   // of a part
	ChecksWhole  bool `json:"checksWhole"`  // of all parts together, on CompleteMultipartUpload
	TellsCRC     bool `json:"tellsCRC"`     // gives it back on HEAD
	CreatesOnce  bool `json:"createsOnce"`  // PUT If-None-Match: *
	MatchesPut   bool `json:"matchesPut"`   // PUT If-Match
	BareMatch    bool `json:"bareMatch"`    // but only when the ETag has no quotes (Ceph RGW)
	GuardsWhole  bool `json:"guardsWhole"`  // CompleteMultipartUpload If-Match and If-None-Match
	MatchesGet   bool `json:"matchesGet"`   // GET If-Match
	MatchesDrop  bool `json:"matchesDrop"`  // DELETE If-Match
	MatchesCopy  bool `json:"matchesCopy"`  // CopyObject x-amz-copy-source-if-match
	CopiesParts  bool `json:"copiesParts"`  // UploadPartCopy
	KeepsMarkers bool `json:"keepsMarkers"` // "dir/" is an object beside "dir/file"
	Twins        bool `json:"twins"`        // "x" and "x/y" are there at the same time
	ListsUploads bool `json:"listsUploads"` // ListMultipartUploads of a prefix tells all below it
	KeepsHeaders bool `json:"keepsHeaders"` // those of mover.FactHeaders
	KeepsTags    bool `json:"keepsTags"`    // that a PUT says, and gives them back
	TagsCopies   bool `json:"tagsCopies"`   // those that CopyObject and CreateMultipartUpload say, too
	CountsTags   bool `json:"countsTags"`   // says on HEAD how many an object has
	KeepsClass   bool `json:"keepsClass"`   // a storage class that a PUT says
	SegmentBytes int  `json:"segmentBytes"` // longest segment of a key; 0 is any
}

const (
	profileFormat = 9
	profileAge    = 7 * 24 * time.Hour
	segmentBytes  = 255 // of servers that keep objects as files
)

// Profile returns what is known of the bucket's server.
func (p *Backend) Profile() Profile { return p.profile }

// ClockSkew is how far the clock of this machine was ahead of the server's when it
// answered first. Servers refuse requests beyond 15 minutes.
func (p *Backend) ClockSkew() time.Duration { return p.client.ClockSkew() }

// level is the integrity that every object published here has.
func (f *Profile) level() mover.Level {
	if f.ChecksPut && f.ChecksPart && f.ChecksWhole {
		return mover.Server
	}
	return mover.Written
}

// least is the integrity that every object needs: what a server has not compared
// has to be read back from it.
func (f *Profile) least() mover.Level {
	if f.level() == mover.Server {
		return mover.Server
	}
	return mover.Read
}

// learn fills the profile: from the cache, or by probing where that is allowed.
// Either way it has seen the bucket.
func (p *Backend) learn(ctx context.Context) error {
	if _, err := p.firstKeys(ctx, p.prefix, 1); err != nil {
		return err
	}
	if err := p.proveEncryption(ctx); err != nil {
		return err
	}
	server := p.client.Server()
	if p.readProfile() && time.Since(p.profile.Probed) < profileAge {
		return nil
	}
	if !p.opts.Writable {
		p.profile = Profile{Server: server}
		return nil
	}
	found, doubt, err := p.probed(ctx)
	if err != nil {
		return err
	}
	found.Format, found.Probed, found.Address, found.Server = profileFormat, time.Now().UTC().Truncate(time.Second), p.profileName(), server
	p.profile = found
	p.opts.Logger.InfoContext(ctx, "probed the bucket", "place", p.address, "profile", found)
	if doubt != nil {
		p.opts.Logger.WarnContext(ctx, "what the store can do is not known for sure, and asked for again the next time", "place", p.address, "err", doubt)
		return nil
	}
	if err := p.writeProfile(); err != nil {
		p.opts.Logger.WarnContext(ctx, "the profile of the bucket is not kept", "err", err)
	}
	return nil
}

func (p *Backend) profileName() string {
	return p.client.Endpoint() + "/" + p.bucket
}

// profilePath is a file per bucket. Its name is a hash, because both parts of the
// address may be anything.
func (p *Backend) profilePath() string {
	return filepath.Join(p.opts.StateDir, "s3", fmt.Sprintf("profile-%016x.json", s3api.Checksum([]byte(p.profileName()))))
}

func (p *Backend) readProfile() bool {
	text, err := os.ReadFile(p.profilePath())
	if err != nil {
		return false
	}
	var f Profile
	if json.Unmarshal(text, &f) != nil || f.Format != profileFormat || f.Address != p.profileName() {
		return false
	}
	p.profile = f
	return true
}

func (p *Backend) writeProfile() error {
	text, err := json.MarshalIndent(&p.profile, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(p.profilePath(), append(text, '\n'))
}

// replaceFile writes a small file of ours so that a reader sees all or nothing.
func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.Options{Unsynced: true})
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// prober asks a server the same things rightly and wrongly. Its objects lie below
// dir, and are gone afterwards.
type prober struct {
	store       s3api.Store
	bucket, dir string
	made        []string // also what may have been made, as its answer was lost
	unanswered  bool     // an upload may have been begun, and its id is not known
}

// makes notes a key that a call has made, unless its error says that it has not.
func (q *prober) makes(key string, err error) {
	if err == nil || !s3api.Declined(err) {
		q.made = append(q.made, key)
	}
}

// begin begins an upload.
func (q *prober) begin(ctx context.Context, w s3api.Put) (s3api.Upload, error) {
	begun, err := q.store.CreateUpload(ctx, w)
	q.unanswered = q.unanswered || err != nil && !s3api.Declined(err)
	return s3api.Upload{Key: w.Key, ID: begun.ID}, err
}

var (
	probeTags  = "datamove=probe"
	probeBody  = []byte("datamove asks what this server checks\n")
	rightCRC   = s3api.EncodeCRC(s3api.Checksum(probeBody))
	wrongCRC   = s3api.EncodeCRC(s3api.Checksum(probeBody) + 1)
	wrongMatch = "00000000000000000000000000000000"
)

// run finds out. Only an error that leaves everything open is returned.
func (q *prober) run(ctx context.Context) (f Profile, err error) {
	first, err := q.put(ctx, "put", s3api.Put{CRC: rightCRC})
	if err != nil {
		return f, err
	}
	_, err = q.put(ctx, "crc", s3api.Put{CRC: wrongCRC})
	f.ChecksPut = rejected(err)
	o, err := q.store.Head(ctx, q.key("put"), "")
	f.TellsCRC = err == nil && o.HasCRC && o.CRC == s3api.Checksum(probeBody)
	q.conditions(ctx, &f, first.ETag)
	q.beside(ctx, &f)
	q.multipart(ctx, &f)
	f.CopiesParts = q.copiesParts(ctx)
	f.TagsCopies = f.KeepsTags && q.tagsCopies(ctx) && q.tagged(ctx, "parts")
	_, marker := q.put(ctx, "dir/", s3api.Put{})
	_, inside := q.put(ctx, "dir/file", s3api.Put{})
	f.KeepsMarkers = marker == nil && inside == nil && q.lists(ctx, "dir/")
	_, below := q.put(ctx, "put/below", s3api.Put{}) // "put" is an object
	_, above := q.put(ctx, "dir", s3api.Put{})
	f.Twins = below == nil && above == nil && q.lists(ctx, "put", "put/below", "dir", "dir/file")
	if _, err := q.put(ctx, strings.Repeat("s", segmentBytes+1), s3api.Put{}); err != nil {
		f.SegmentBytes = segmentBytes
	}
	return f, context.Cause(ctx)
}

func (q *prober) key(name string) string { return q.dir + "/" + name }

// lists reports whether all of these are in the listing; its first page has all probes.
func (q *prober) lists(ctx context.Context, names ...string) bool {
	for page, err := range q.store.List(ctx, s3api.Listing{Prefix: q.dir + "/"}) {
		return err == nil && !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(page, func(o s3api.Object) bool { return o.Key == q.key(name) })
		})
	}
	return false
}

// put stores the body of the probes, or nothing where the key is a directory's.
func (q *prober) put(ctx context.Context, name string, w s3api.Put) (s3api.Stored, error) {
	w.Key = q.key(name)
	if !strings.HasSuffix(name, "/") {
		w.Data = probeBody
	}
	got, err := q.store.Put(ctx, w)
	q.makes(w.Key, err)
	return got, err
}

func refused(err error) bool {
	kind := s3api.KindOf(err)
	return kind == mover.ErrChanged || kind == mover.ErrConflict
}

// conditions tries each one where it holds and where it does not. etag is that of the object "put"; where KMS encrypts, the same bytes get
// another one each time that they are put (Amazon S3 API reference, Object, ETag).
func (q *prober) conditions(ctx context.Context, f *Profile, etag string) {
	once, fresh := q.put(ctx, "once", s3api.Put{IfNoneMatch: true})
	twice, again := q.put(ctx, "once", s3api.Put{IfNoneMatch: true})
	f.CreatesOnce = fresh == nil && refused(again)
	if again == nil {
		once = twice
	}

	f.MatchesPut, etag = q.replaces(ctx, etag, false)
	if !f.MatchesPut {
		f.BareMatch, etag = q.replaces(ctx, etag, true)
		f.MatchesPut = f.BareMatch
	}

	f.MatchesGet = q.gets(ctx, etag) == nil && refused(q.gets(ctx, wrongMatch))
	f.MatchesCopy = q.copies(ctx, etag) == nil && refused(q.copies(ctx, wrongMatch))
	wrong := q.store.Remove(ctx, q.key("once"), "", wrongMatch)
	f.MatchesDrop = refused(wrong) && q.store.Remove(ctx, q.key("once"), "", once.ETag) == nil
}

// replaces reports whether a PUT minds its condition, and the ETag of the object after that.
func (q *prober) replaces(ctx context.Context, etag string, bare bool) (minds bool, now string) {
	for i, ifMatch := range []string{etag, wrongMatch} {
		got, err := q.put(ctx, "put", s3api.Put{IfMatch: ifMatch, BareMatch: bare})
		if err == nil {
			etag = got.ETag
		}
		minds = err == nil && i == 0 || minds && refused(err)
	}
	return minds, etag
}

func (q *prober) gets(ctx context.Context, etag string) error {
	body, _, err := q.store.Get(ctx, s3api.Get{Key: q.key("put"), IfMatch: etag, N: -1})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

func (q *prober) copies(ctx context.Context, etag string) error {
	_, err := q.store.Copy(ctx, s3api.Source{Bucket: q.bucket, Key: q.key("put"), IfMatch: etag}, s3api.Put{Key: q.key("copy")})
	q.makes(q.key("copy"), err)
	return err
}

// copiesParts makes an upload of a part that the server copies, and looks at what became of it: rclone (serve s3, v1.75) takes that for a part without
// content.
func (q *prober) copiesParts(ctx context.Context) bool {
	from, err := q.store.Head(ctx, q.key("put"), "")
	if err != nil {
		return false
	}
	u, err := q.begin(ctx, s3api.Put{Key: q.key("copied")})
	if err != nil {
		return false
	}
	q.made = append(q.made, u.Key)
	defer func() { _ = q.store.AbortUpload(context.WithoutCancel(ctx), u) }() // completed, if all went well
	part, err := q.store.CopyPart(ctx, u, 1, s3api.Source{Bucket: q.bucket, Key: from.Key, IfMatch: from.ETag}, 0, from.Size)
	if err != nil || part.ETag == "" {
		return false
	}
	if _, err = q.store.CompleteUpload(ctx, u, []s3api.Stored{part}, s3api.Put{}); err != nil {
		return false
	}
	made, err := q.store.Head(ctx, u.Key, "")
	return err == nil && made.Size == from.Size
}

// multipart tries an upload of one part: with wrong checksums, then right.
func (q *prober) multipart(ctx context.Context, f *Profile) {
	w := s3api.Put{Key: q.key("parts"), FullObject: true}
	if f.KeepsTags {
		w.Tags = probeTags
	}
	u, err := q.begin(ctx, w)
	if err != nil {
		return
	}
	q.made = append(q.made, u.Key)
	f.ListsUploads = q.listsUpload(ctx, u)
	defer func() { _ = q.store.AbortUpload(context.WithoutCancel(ctx), u) }() // completed, if all went well
	part := func(crc string) (s3api.Stored, error) {
		return q.store.UploadPart(ctx, u, 1, s3api.Put{Data: probeBody, CRC: crc})
	}
	_, wrong := part(wrongCRC)
	got, right := part(rightCRC)
	f.ChecksPart = right == nil && rejected(wrong)
	if right != nil {
		return
	}
	got.CRC = rightCRC
	complete := func(w s3api.Put) (s3api.Stored, error) {
		w.FullObject = true
		return q.store.CompleteUpload(ctx, u, []s3api.Stored{got}, w)
	}
	_, wrong = complete(s3api.Put{CRC: wrongCRC})
	whole, right := complete(s3api.Put{CRC: rightCRC})
	f.ChecksWhole = rejected(wrong) && right == nil
	if right == nil && f.CreatesOnce && f.MatchesPut {
		f.GuardsWhole = q.guards(ctx, s3api.Put{Key: u.Key, Tags: w.Tags}, whole.ETag, f.BareMatch)
	}
}

// guards reports whether an upload replaces only what it is told to: it is completed on three conditions, of which the last one holds.
func (q *prober) guards(ctx context.Context, w s3api.Put, etag string, bare bool) bool {
	u, err := q.begin(ctx, w)
	if err != nil {
		return false
	}
	defer func() { _ = q.store.AbortUpload(context.WithoutCancel(ctx), u) }() // completed, if all went well
	part, err := q.store.UploadPart(ctx, u, 1, s3api.Put{Data: probeBody, CRC: rightCRC})
	if err != nil {
		return false
	}
	for _, w := range []s3api.Put{{IfNoneMatch: true}, {IfMatch: wrongMatch, BareMatch: bare}} {
		if _, err := q.store.CompleteUpload(ctx, u, []s3api.Stored{part}, w); !refused(err) {
			return false
		}
	}
	_, err = q.store.CompleteUpload(ctx, u, []s3api.Stored{part}, s3api.Put{IfMatch: etag, BareMatch: bare})
	return err == nil
}

// beside finds out what an object keeps beside its bytes. The class is one without a least time or size to pay for.
func (q *prober) beside(ctx context.Context, f *Profile) {
	const class = "INTELLIGENT_TIERING"
	headers := map[string]string{"Cache-Control": "no-cache", "Content-Disposition": "inline", "Content-Language": "en"}
	if _, err := q.put(ctx, "headers", s3api.Put{ContentType: "text/plain", Headers: headers}); err == nil {
		o, err := q.store.Head(ctx, q.key("headers"), "")
		f.KeepsHeaders = err == nil && o.Header.Get(headerType) == "text/plain"
		for name, value := range headers {
			f.KeepsHeaders = f.KeepsHeaders && o.Header.Get(name) == value
		}
	}
	if _, err := q.put(ctx, "class", s3api.Put{Headers: map[string]string{headerClass: class}}); err == nil {
		o, err := q.store.Head(ctx, q.key("class"), "")
		f.KeepsClass = err == nil && o.Header.Get(headerClass) == class
	}
	if _, err := q.put(ctx, "tags", s3api.Put{Tags: probeTags}); err == nil {
		f.KeepsTags = q.tagged(ctx, "tags")
		o, err := q.store.Head(ctx, q.key("tags"), "")
		f.CountsTags = err == nil && o.Header.Get(headerTagCount) == "1"
	}
}

// tagsCopies reports whether a copy has the tags that it says.
func (q *prober) tagsCopies(ctx context.Context) bool {
	const copied = "tags-copied"
	w := s3api.Put{Key: q.key(copied), Tags: probeTags, ReplaceTags: true}
	_, err := q.store.Copy(ctx, s3api.Source{Bucket: q.bucket, Key: q.key("put")}, w)
	if q.makes(w.Key, err); err != nil {
		return false
	}
	return q.tagged(ctx, copied)
}

// tagged reports whether a probe has the tags that it was to have.
func (q *prober) tagged(ctx context.Context, name string) bool {
	tags, err := q.store.Tags(ctx, q.key(name))
	return err == nil && tags == probeTags
}

func (q *prober) listsUpload(ctx context.Context, u s3api.Upload) bool {
	for open, err := range q.store.ListUploads(ctx, q.dir+"/") {
		if err != nil || open.ID == u.ID {
			return err == nil
		}
	}
	return false
}

// clean removes the probes, the last first, and says which one it could not.
func (q *prober) clean(ctx context.Context) (left error) {
	for _, key := range slices.Backward(q.made) {
		if err := q.store.Remove(ctx, key, "", ""); err != nil && !errors.Is(err, mover.ErrNotExist) {
			left = fmt.Errorf("%s: %w", key, err)
		}
	}
	if !q.unanswered {
		return left
	}
	for { // the first one of them at a time: see steady
		var open s3api.Upload
		for u, err := range q.store.ListUploads(ctx, q.dir+"/") {
			if err != nil {
				return errors.Join(left, err)
			}
			open = u
			break
		}
		if !strings.HasPrefix(open.Key, q.dir+"/") {
			return left
		}
		if err := q.store.AbortUpload(ctx, open); err != nil && !errors.Is(err, mover.ErrNotExist) {
			return errors.Join(left, fmt.Errorf("%s: %w", open.Key, err))
		}
	}
}

// probesLast is how old probes are that no run makes use of any more.
const probesLast = time.Hour

// cleanOld removes the probes of runs that were killed.
func (p *Backend) cleanOld(ctx context.Context) error {
	since := p.client.NotBefore(time.Now()).Add(-probesLast)
	for page, err := range p.store.List(ctx, s3api.Listing{Prefix: p.ownKey(probePrefix)}) {
		if err != nil {
			return err
		}
		for i := range page {
			if page[i].Modified.IsZero() || page[i].Modified.After(since) {
				continue
			}
			if err := p.store.Remove(ctx, page[i].Key, "", ""); err != nil && !errors.Is(err, mover.ErrNotExist) {
				return fmt.Errorf("%s: %w", page[i].Key, err)
			}
		}
	}
	return nil
}

// probePrefix begins the names of probes.
const probePrefix = "probe-"

// rejected reports whether err says that the server compared and found a difference.
func rejected(err error) bool { return err != nil && s3api.KindOf(err) == mover.ErrCorrupt }
