package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
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
func (p *Backend) ClockSkew() time.Duration { return p.transport.first.Load().skew }

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
	server := p.transport.first.Load().server
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
	endpoint, _, _ := strings.Cut(p.endpoint, " ")
	return endpoint + "/" + p.bucket
}

// profilePath is a file per bucket. Its name is a hash, because both parts of the
// address may be anything.
func (p *Backend) profilePath() string {
	return filepath.Join(p.opts.StateDir, "s3", fmt.Sprintf("profile-%016x.json", crcOf([]byte(p.profileName()))))
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

// nvme is CRC-64/NVME, for the few small objects of our own.
var nvme = crc64.MakeTable(0x9a6c9329ac4bc9b5)

func crcOf(b []byte) uint64 { return crc64.Checksum(b, nvme) }

// prober asks a server the same things rightly and wrongly. Its objects lie below
// dir, and are gone afterwards.
type prober struct {
	store       store
	bucket, dir string
	made        []string
}

var (
	probeTags  = "datamove=probe"
	probeBody  = []byte("datamove asks what this server checks\n")
	rightCRC   = encodeCRC(crcOf(probeBody))
	wrongCRC   = encodeCRC(crcOf(probeBody) + 1)
	wrongMatch = "00000000000000000000000000000000"
)

// run finds out. Only an error that leaves everything open is returned.
func (q *prober) run(ctx context.Context) (f Profile, err error) {
	first, err := q.put(ctx, "put", put{crc: rightCRC})
	if err != nil {
		return f, err
	}
	_, err = q.put(ctx, "crc", put{crc: wrongCRC})
	f.ChecksPut = rejected(err)
	o, err := q.store.head(ctx, q.key("put"), "")
	f.TellsCRC = err == nil && o.hasCRC && o.crc == crcOf(probeBody)
	q.conditions(ctx, &f, first.etag)
	q.beside(ctx, &f)
	q.multipart(ctx, &f)
	f.CopiesParts = q.copiesParts(ctx)
	f.TagsCopies = f.KeepsTags && q.tagsCopies(ctx) && q.tagged(ctx, "parts")
	_, marker := q.put(ctx, "dir/", put{})
	_, inside := q.put(ctx, "dir/file", put{})
	f.KeepsMarkers = marker == nil && inside == nil && q.lists(ctx, "dir/")
	_, below := q.put(ctx, "put/below", put{}) // "put" is an object
	_, above := q.put(ctx, "dir", put{})
	f.Twins = below == nil && above == nil && q.lists(ctx, "put", "put/below", "dir", "dir/file")
	if _, err := q.put(ctx, strings.Repeat("s", segmentBytes+1), put{}); err != nil {
		f.SegmentBytes = segmentBytes
	}
	return f, context.Cause(ctx)
}

func (q *prober) key(name string) string { return q.dir + "/" + name }

// lists reports whether all of these are in the listing; its first page has all probes.
func (q *prober) lists(ctx context.Context, names ...string) bool {
	for page, err := range q.store.list(ctx, listing{prefix: q.dir + "/"}) {
		return err == nil && !slices.ContainsFunc(names, func(name string) bool {
			return !slices.ContainsFunc(page, func(o object) bool { return o.key == q.key(name) })
		})
	}
	return false
}

// put stores the body of the probes, or nothing where the key is a directory's.
func (q *prober) put(ctx context.Context, name string, w put) (stored, error) {
	w.key = q.key(name)
	if !strings.HasSuffix(name, "/") {
		w.data = probeBody
	}
	got, err := q.store.put(ctx, w)
	if err == nil {
		q.made = append(q.made, w.key)
	}
	return got, err
}

func refused(err error) bool {
	kind := kindOf(err)
	return kind == mover.ErrChanged || kind == mover.ErrConflict
}

// conditions tries each one where it holds and where it does not. etag is that of the object "put"; where KMS encrypts, the same bytes get
// another one each time that they are put (Amazon S3 API reference, Object, ETag).
func (q *prober) conditions(ctx context.Context, f *Profile, etag string) {
	once, fresh := q.put(ctx, "once", put{ifNoneMatch: true})
	twice, again := q.put(ctx, "once", put{ifNoneMatch: true})
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
	wrong := q.store.remove(ctx, q.key("once"), "", wrongMatch)
	f.MatchesDrop = refused(wrong) && q.store.remove(ctx, q.key("once"), "", once.etag) == nil
}

// replaces reports whether a PUT minds its condition, and the ETag of the object after that.
func (q *prober) replaces(ctx context.Context, etag string, bare bool) (minds bool, now string) {
	for i, ifMatch := range []string{etag, wrongMatch} {
		got, err := q.put(ctx, "put", put{ifMatch: ifMatch, bareMatch: bare})
		if err == nil {
			etag = got.etag
		}
		minds = err == nil && i == 0 || minds && refused(err)
	}
	return minds, etag
}

func (q *prober) gets(ctx context.Context, etag string) error {
	body, _, err := q.store.get(ctx, get{key: q.key("put"), ifMatch: etag, n: -1})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, body)
	return errors.Join(err, body.Close())
}

func (q *prober) copies(ctx context.Context, etag string) error {
	_, err := q.store.copy(ctx, source{q.bucket, q.key("put"), etag}, put{key: q.key("copy")})
	if err == nil {
		q.made = append(q.made, q.key("copy"))
	}
	return err
}

// copiesParts makes an upload of a part that the server copies, and looks at what became of it: rclone (serve s3, v1.75) takes that for a part without
// content.
func (q *prober) copiesParts(ctx context.Context) bool {
	from, err := q.store.head(ctx, q.key("put"), "")
	if err != nil {
		return false
	}
	u := upload{key: q.key("copied")}
	begun, err := q.store.create(ctx, put{key: u.key})
	if err != nil {
		return false
	}
	u.id = begun.id
	q.made = append(q.made, u.key)
	defer func() { _ = q.store.abort(context.WithoutCancel(ctx), u) }() // completed, if all went well
	part, err := q.store.copyPart(ctx, u, 1, source{q.bucket, from.key, from.etag}, 0, from.size)
	if err != nil || part.etag == "" {
		return false
	}
	if _, err = q.store.complete(ctx, u, []stored{part}, put{}); err != nil {
		return false
	}
	made, err := q.store.head(ctx, u.key, "")
	return err == nil && made.size == from.size
}

// multipart tries an upload of one part: with wrong checksums, then right.
func (q *prober) multipart(ctx context.Context, f *Profile) {
	u := upload{key: q.key("parts")}
	w := put{key: u.key, fullObject: true}
	if f.KeepsTags {
		w.tags = probeTags
	}
	begun, err := q.store.create(ctx, w)
	if err != nil {
		return
	}
	u.id = begun.id
	q.made = append(q.made, u.key)
	f.ListsUploads = q.listsUpload(ctx, u)
	defer func() { _ = q.store.abort(context.WithoutCancel(ctx), u) }() // completed, if all went well
	part := func(crc string) (stored, error) {
		return q.store.part(ctx, u, 1, put{data: probeBody, crc: crc})
	}
	_, wrong := part(wrongCRC)
	got, right := part(rightCRC)
	f.ChecksPart = right == nil && rejected(wrong)
	if right != nil {
		return
	}
	got.crc = rightCRC
	complete := func(w put) (stored, error) {
		w.fullObject = true
		return q.store.complete(ctx, u, []stored{got}, w)
	}
	_, wrong = complete(put{crc: wrongCRC})
	whole, right := complete(put{crc: rightCRC})
	f.ChecksWhole = rejected(wrong) && right == nil
	if right == nil && f.CreatesOnce && f.MatchesPut {
		f.GuardsWhole = q.guards(ctx, put{key: u.key, tags: w.tags}, whole.etag, f.BareMatch)
	}
}

// guards reports whether an upload replaces only what it is told to: it is completed on three conditions, of which the last one holds.
func (q *prober) guards(ctx context.Context, w put, etag string, bare bool) bool {
	begun, err := q.store.create(ctx, w)
	if err != nil {
		return false
	}
	u := upload{key: w.key, id: begun.id}
	defer func() { _ = q.store.abort(context.WithoutCancel(ctx), u) }() // completed, if all went well
	part, err := q.store.part(ctx, u, 1, put{data: probeBody, crc: rightCRC})
	if err != nil {
		return false
	}
	for _, w := range []put{{ifNoneMatch: true}, {ifMatch: wrongMatch, bareMatch: bare}} {
		if _, err := q.store.complete(ctx, u, []stored{part}, w); !refused(err) {
			return false
		}
	}
	_, err = q.store.complete(ctx, u, []stored{part}, put{ifMatch: etag, bareMatch: bare})
	return err == nil
}

// beside finds out what an object keeps beside its bytes. The class is one without a least time or size to pay for.
func (q *prober) beside(ctx context.Context, f *Profile) {
	const class = "INTELLIGENT_TIERING"
	headers := map[string]string{"Cache-Control": "no-cache", "Content-Disposition": "inline", "Content-Language": "en"}
	if _, err := q.put(ctx, "headers", put{mime: "text/plain", kept: headers}); err == nil {
		o, err := q.store.head(ctx, q.key("headers"), "")
		f.KeepsHeaders = err == nil && o.header.Get(headerType) == "text/plain"
		for name, value := range headers {
			f.KeepsHeaders = f.KeepsHeaders && o.header.Get(name) == value
		}
	}
	if _, err := q.put(ctx, "class", put{kept: map[string]string{headerClass: class}}); err == nil {
		o, err := q.store.head(ctx, q.key("class"), "")
		f.KeepsClass = err == nil && o.header.Get(headerClass) == class
	}
	if _, err := q.put(ctx, "tags", put{tags: probeTags}); err == nil {
		f.KeepsTags = q.tagged(ctx, "tags")
		o, err := q.store.head(ctx, q.key("tags"), "")
		f.CountsTags = err == nil && o.header.Get(headerTagCount) == "1"
	}
}

// tagsCopies reports whether a copy has the tags that it says.
func (q *prober) tagsCopies(ctx context.Context) bool {
	const copied = "tags-copied"
	w := put{key: q.key(copied), tags: probeTags, tagged: true}
	if _, err := q.store.copy(ctx, source{bucket: q.bucket, key: q.key("put")}, w); err != nil {
		return false
	}
	q.made = append(q.made, w.key)
	return q.tagged(ctx, copied)
}

// tagged reports whether a probe has the tags that it was to have.
func (q *prober) tagged(ctx context.Context, name string) bool {
	tags, err := q.store.tags(ctx, q.key(name))
	return err == nil && tags == probeTags
}

func (q *prober) listsUpload(ctx context.Context, u upload) bool {
	for open, err := range q.store.uploads(ctx, q.dir+"/") {
		if err != nil || open.id == u.id {
			return err == nil
		}
	}
	return false
}

// clean removes the probes, the last first, and says which one it could not.
func (q *prober) clean(ctx context.Context) (left error) {
	for _, key := range slices.Backward(q.made) {
		if err := q.store.remove(ctx, key, "", ""); err != nil && !errors.Is(err, mover.ErrNotExist) {
			left = fmt.Errorf("%s: %w", key, err)
		}
	}
	return left
}
