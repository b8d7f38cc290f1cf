package burst

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst/pricing"
)

// Record is what is known of a burst, and survives us. Everything that is made in AWS has its token here before it is asked for, so that an answer that is lost is asked for
// again and nothing is made twice.
type Record struct {
	ID          string    `json:"id"`          // random: it is in tags and tokens
	Declaration string    `json:"declaration"` // its text
	Owner       string    `json:"owner"`       // the account that declared it
	State       State     `json:"state"`
	Made        time.Time `json:"made"`
	Changed     time.Time `json:"changed"`
	Ready       time.Time `json:"ready,omitzero"`    // since when jobs may run
	Adopted     bool      `json:"adopted,omitempty"` // its record was lost, or is of another place, and this one was begun by what is in AWS

	Tags       map[string]string `json:"tags"` // of all that is made for it
	Admitted   Admitted          `json:"admitted"`
	Reserved   pricing.Money     `json:"reserved"` // in all
	Spent      pricing.Money     `json:"spent"`    // as far as we charged it: the ledger and AWS know better
	FileSystem *Made             `json:"fileSystem,omitempty"`
	Link       *Made             `json:"link,omitempty"`  // of the root of the file system to the bucket
	Works      []Work            `json:"works,omitempty"` // data repository tasks, the oldest first
	Staged     []Staged          `json:"staged,omitempty"`
	Home       []Homecame        `json:"home,omitempty"`
	Paid       []Paid            `json:"paid,omitempty"`      // what costs by the hour, and until when that is charged
	Abandoned  []Path            `json:"abandoned,omitempty"` // what was given up by name
	Trouble    string            `json:"trouble,omitempty"`   // why it does not go on; "" is nothing
}

// Made is something in AWS, or that is asked for there.
type Made struct {
	Token string    `json:"token"`        // of the request
	ID    string    `json:"id,omitempty"` // "" until an answer has come
	Since time.Time `json:"since,omitzero"`
	DNS   string    `json:"dns,omitempty"`   // for the mount of a file system
	Mount string    `json:"mount,omitempty"` // its name
	GiB   int64     `json:"gib,omitempty"`   // of storage
	Gone  bool      `json:"gone,omitempty"`  // AWS says that it is not there any more
}

// Work is a data repository task.
type Work struct {
	Made
	Kind   string   `json:"kind"`             // ExportWork or ImportWork
	Paths  []string `json:"paths"`            // relative to the root of the file system; of an import s3://…
	Report string   `json:"report,omitempty"` // where its completion report comes: s3://…
	Ended  string   `json:"ended,omitempty"`  // its last state, once it has one and the report was read
	Total  int64    `json:"total,omitempty"`  // files
	Failed int64    `json:"failed,omitempty"` // files
	Why    string   `json:"why,omitempty"`    // the first of the failures
}

// The kinds of data repository tasks, as the API of FSx calls them.
const (
	ExportWork  = "EXPORT_TO_REPOSITORY"
	ImportWork  = "IMPORT_METADATA_FROM_REPOSITORY"
	ReleaseWork = "RELEASE_DATA_FROM_FILESYSTEM" // of what was exported
)

// Staged is a directory with its data in the bucket.
type Staged struct {
	To    Path      `json:"to"`
	At    time.Time `json:"at"`
	Files int64     `json:"files"`
	Bytes int64     `json:"bytes"`
	Sent  int64     `json:"sent"` // bytes that went over the link the last time
	Took  float64   `json:"took"` // seconds, of which the rate of the link is told
}

// Homecame is what has come home of a directory, compared with what the bucket has.
type Homecame struct {
	Path     Path      `json:"path"`
	At       time.Time `json:"at"` // when what was there then began to come
	Files    int64     `json:"files"`
	Bytes    int64     `json:"bytes"`
	Sent     int64     `json:"sent"` // bytes that came over the link the last time
	Verified bool      `json:"verified"`
	Left     []string  `json:"left,omitempty"` // what did not come, and why
	Took     float64   `json:"took"`           // seconds
}

// Paid is something that costs by the hour: storage, or an instance.
type Paid struct {
	What  string    `json:"what"` // the ID of a file system or an instance, or a directory
	Rate  string    `json:"rate"`
	Bytes int64     `json:"bytes,omitempty"` // of storage
	Until time.Time `json:"until"`           // charged up to here
	Next  time.Time `json:"next,omitzero"`   // and being charged up to there
}

// Instance says that it is one, and not storage.
func (p *Paid) Instance() bool { return strings.HasPrefix(p.Rate, pricing.EC2("")) }

// Usage is what is being charged.
func (p *Paid) Usage() pricing.Usage {
	took := p.Next.Sub(p.Until)
	amount := pricing.Stored(p.Bytes, p.Until, took)
	if p.Instance() {
		amount = pricing.Hours(1, took)
	}
	return pricing.Usage{Rate: p.Rate, Amount: amount, Why: fmt.Sprintf("%s from %s to %s", p.What, p.Until.Format(time.RFC3339), p.Next.Format(time.RFC3339))}
}

// The tags of what we make. What has no such tag is not ours, and nothing of it is touched.
const (
	TagPrefix = "datamove.dev/"
	TagBurst  = TagPrefix + "burst" // the ID of the record
	TagName   = TagPrefix + "name"
	TagTeam   = TagPrefix + "team"
	TagOwner  = TagPrefix + "owner"
	TagUntil  = TagPrefix + "until" // RFC 3339: when it was meant to be over
)

// tagsOf are the tags of all that is made for a burst: they stay what they were when it began, because a request that is made again has to be the same.
func tagsOf(b *Burst, id, owner string, now time.Time) map[string]string {
	tags := map[string]string{TagBurst: id, TagName: string(b.Metadata.Name), TagTeam: string(b.Spec.Team), TagOwner: tagged(owner), TagUntil: until(b, now)}
	for key, value := range b.Metadata.Labels {
		tags[key] = value
	}
	return tags
}

func until(b *Burst, from time.Time) string {
	return from.Add(time.Duration(b.Spec.Lasts)).UTC().Format(time.RFC3339)
}

// Until is the tag that says when a burst is meant to be over, as it is declared now.
func (r *Record) Until(b *Burst) map[string]string {
	return map[string]string{TagUntil: until(b, r.Made)}
}

// tagged is a text as AWS takes it for the value of a tag: an owner may be called DOMAIN\anna.
func tagged(text string) string {
	text = strings.Map(func(c rune) rune {
		if labelForm().MatchString(string(c)) {
			return c
		}
		return '_'
	}, text)
	for len(text) > 2*labelMost {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text
}

// Begin is the record of a burst that is admitted.
func Begin(b *Burst, owner string, by Admitted, now time.Time) *Record {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return begin(b, hex.EncodeToString(id[:]), owner, by, now)
}

func begin(b *Burst, id, owner string, by Admitted, made time.Time) *Record {
	r := &Record{ID: id, Declaration: b.Text, Owner: owner, State: Declared, Made: made, Changed: made, Admitted: by}
	r.Tags = tagsOf(b, id, owner, made)
	return r
}

// Adopt is the record of a burst of which only AWS knows, since a time. Jobs may have run: nothing of what comes home is taken to be there.
func Adopt(b *Burst, id, owner string, by Admitted, since, now time.Time) *Record {
	r := begin(b, id, owner, by, since)
	r.Changed, r.Ready, r.Adopted = now, since, true
	return r
}

// Burst is the declaration of a record.
func (r *Record) Burst() (*Burst, error) {
	all, err := Read("record "+r.ID, []byte(r.Declaration))
	if err != nil {
		return nil, fmt.Errorf("%w: the declaration of burst %s: %w", mover.ErrCorrupt, r.ID, err)
	}
	return all[0], nil
}

// Enter has the burst in a state. To enter one that it is in is nothing.
func (r *Record) Enter(s State, now time.Time) error {
	if s == r.State {
		return nil
	}
	if !r.State.May(s) {
		return fmt.Errorf("%w: burst %s is %s, and can not be %s", mover.ErrConflict, r.ID, r.State, s)
	}
	r.State, r.Changed = s, now
	return nil
}

// Token names a request of a burst: the same one for the same thing, after a crash, too. It is of the form that FSx takes (ClientRequestToken: at most 63 letters, digits, '_', '.' and '-').
// One that was adopted has tokens of its own: what was asked for before is not known.
func (r *Record) Token(what string, n int) string {
	if r.Adopted {
		what = "adopted-" + what
	}
	return fmt.Sprintf("datamove-%s-%s-%d", r.ID, what, n)
}

// CameHome is what has come home of a path; nil is nothing.
func (r *Record) CameHome(path Path) *Homecame {
	i := slices.IndexFunc(r.Home, func(h Homecame) bool { return h.Path == path })
	if i < 0 {
		return nil
	}
	return &r.Home[i]
}

// Open are the data repository tasks that have not ended, as far as we know.
func (r *Record) Open() (all []*Work) {
	for i := range r.Works {
		if r.Works[i].Ended == "" {
			all = append(all, &r.Works[i])
		}
	}
	return all
}

// Stage notes what was staged. It takes the place of what was there of that directory, unless that is the same.
func (r *Record) Stage(s Staged) {
	i := slices.IndexFunc(r.Staged, func(was Staged) bool { return was.To == s.To })
	switch {
	case i < 0:
		r.Staged = append(r.Staged, s)
	case s.Sent > 0 || s.Files != r.Staged[i].Files || s.Bytes != r.Staged[i].Bytes:
		r.Staged[i] = s
	}
}

// Held is how many bytes of data are in the bucket.
func (r *Record) Held() (bytes int64) {
	for _, s := range r.Staged {
		bytes += s.Bytes
	}
	return bytes
}

// Come notes what has come home. It takes the place of what had come of that directory.
func (r *Record) Come(h Homecame) {
	if was := r.CameHome(h.Path); was != nil {
		*was = h
		return
	}
	r.Home = append(r.Home, h)
}

// Abandon notes that something that comes home is given up.
func (r *Record) Abandon(p Path) {
	if !slices.Contains(r.Abandoned, p) {
		r.Abandoned = append(r.Abandoned, p)
	}
}

// GaveUp reports whether a name in a directory, or with "" the directory, was abandoned.
func (r *Record) GaveUp(dir Path, name string) bool {
	at := mover.Join(string(dir), name)
	if name == "" {
		at = string(dir)
	}
	return slices.ContainsFunc(r.Abandoned, func(p Path) bool { return mover.Within(at, string(p)) })
}

// Imported reports whether the file system has read the names of all that was staged.
func (r *Record) Imported() bool {
	for _, t := range slices.Backward(r.Works) {
		if t.Kind == ImportWork {
			return t.Ended != "" && t.Failed == 0 && t.Why == "" && !slices.ContainsFunc(r.Staged, func(s Staged) bool { return s.At.After(t.Since) })
		}
	}
	return false
}
