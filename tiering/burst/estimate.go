package burst

import (
	"fmt"
	"time"

	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst/pricing"
)

// Measured is what there is to send: of each Data of a burst, in its order.
type Measured struct {
	Files, Bytes int64
	There        int64 // bytes of it that the bucket has already
	Kept         int64 // files of it that the bucket has already
}

// Estimate is what a burst will take. Each figure says on what it rests.
type Estimate struct {
	Files int64         `json:"files"`          // that are sent
	Bytes int64         `json:"bytes"`          // that are sent
	Held  int64         `json:"held"`           // bytes that are in the bucket then
	Sends time.Duration `json:"sends"`          // over the link, at its rate
	GiB   int64         `json:"gib"`            // of the file system; 0 is none
	Makes time.Duration `json:"makes"`          // the file system, until it is there, about
	Saves int64         `json:"saves"`          // checkpoints that come home
	Home  int64         `json:"home"`           // bytes that come home
	Lags  time.Duration `json:"lags"`           // that the largest checkpoint takes to come home
	Late  []string      `json:"late,omitempty"` // directories with an objective that can not be held over this link
	Basis []string      `json:"basis"`
	Bill  pricing.Bill  `json:"bill"`

	names int64 // files that are in the bucket then
}

const (
	// payload is the part of a link's rate that is contents: the rest are headers, acknowledgements and what is sent twice.
	payload = 0.9
	// partBytes is what one request of an upload has, about: what is larger than two of them goes in parts.
	partBytes = 16 << 20
	// creates is how long an FSx takes to be there, about: minutes, as AWS says; nothing depends on it but what is told.
	creates = 15 * time.Minute
)

// egress is the rate of what leaves AWS over a kind of link.
var egress = map[string]string{"directConnect": pricing.EgressDirect, "vpn": pricing.EgressVPN, "internet": pricing.EgressInternet}

// Over is how long bytes take over the link of a burst.
func (l *Link) Over(bytes int64) time.Duration {
	seconds := float64(bytes) / (float64(l.Rate) * payload)
	if !(seconds < overMost.Seconds()) {
		return overMost
	}
	return time.Duration(seconds * float64(time.Second))
}

// overMost bounds what a link takes: no user waits so long.
const overMost = 100 * spanMost

// Estimate says what a burst takes that has so much to send, at the prices of a book, when used is what the account has used of its rates this month.
func (b *Burst) Estimate(sizes []Measured, book *pricing.Book, used map[string]pricing.Amount, now time.Time) (e Estimate, err error) {
	s := &b.Spec
	for _, m := range sizes {
		e.Files, e.names = plus(e.Files, max(0, m.Files-m.Kept)), plus(e.names, m.Files)
		e.Bytes, e.Held = plus(e.Bytes, max(0, m.Bytes-m.There)), plus(e.Held, m.Bytes)
	}
	e.Sends = s.Link.Over(e.Bytes)
	if e.GiB, err = b.Capacity(e.Held); err != nil {
		return e, err
	}
	if e.GiB > 0 {
		e.Makes = creates
	}
	b.homeward(&e)
	e.basis(s)
	e.Bill, err = book.Bill(b.uses(&e, now), used, now)
	return e, err
}

// homeward counts what comes home.
func (b *Burst) homeward(e *Estimate) {
	lasts := time.Duration(b.Spec.Lasts)
	busy := 0.0 // part of the time that the link carries checkpoints
	for _, c := range b.Spec.Checkpoints {
		saves := int64(lasts / time.Duration(c.Every))
		e.Saves, e.Home = e.Saves+saves, plus(e.Home, times(saves, int64(c.Size)))
		takes := b.Spec.Link.Over(int64(c.Size))
		busy += takes.Seconds() / time.Duration(c.Every).Seconds()
		e.Lags = max(e.Lags, takes)
		switch {
		case takes > time.Duration(c.Every):
			e.Late = append(e.Late, fmt.Sprintf("%s: one comes home in %s, and there is one every %s", c.Path, units.Duration(takes), c.Every))
		case takes+time.Duration(c.Every) > c.Objective():
			e.Late = append(e.Late, fmt.Sprintf("%s: %s of work may be lost, and %s is wanted", c.Path, units.Duration(takes+time.Duration(c.Every)), units.Duration(c.Objective())))
		}
	}
	if busy > 1 && len(e.Late) == 0 {
		e.Late = append(e.Late, fmt.Sprintf("all together: what is saved takes %.1f times as long to come home as there is time, over one link", busy))
	}
	for _, r := range b.Spec.Results {
		e.Home = plus(e.Home, int64(r.Size))
	}
}

func (e *Estimate) basis(s *Spec) {
	say := func(format string, args ...any) { e.Basis = append(e.Basis, fmt.Sprintf(format, args...)) }
	say("the link carries %s, of which %d %% is contents", units.PerSecond(float64(s.Link.Rate)), int(payload*100))
	say("a request for each file, and for each %s of the larger ones", units.Bytes(partBytes))
	if e.GiB > 0 && s.Cloud.FileSystem.Capacity == 0 {
		say("a file system for the data, %d saves of each checkpoint directory, the results, and a quarter more", keptSaves)
	}
	if e.Saves > 0 {
		say("every checkpoint comes home whole, as large as it is declared")
	}
	say("it lasts %s from when it is ready", s.Lasts)
}

// uses are what is paid for.
func (b *Burst) uses(e *Estimate, now time.Time) (all []pricing.Usage) {
	s := &b.Spec
	lasts, lies := time.Duration(s.Lasts), time.Duration(s.Lasts)+e.Sends
	use := func(rate string, a pricing.Amount, why string, args ...any) {
		if a.Units() > 0 {
			all = append(all, pricing.Usage{Rate: rate, Amount: a, Why: fmt.Sprintf(why, args...)})
		}
	}
	use(pricing.S3Put, pricing.Requests(requests(e.Files, e.Bytes)), "to send %s in %s", units.Bytes(e.Bytes), units.Plural(e.Files, "file", "files"))
	use(pricing.S3Standard, pricing.Stored(e.Held, now, lies), "the data in the bucket, for %s", units.Duration(lies))
	if e.GiB > 0 {
		use(b.FileSystemRate(), pricing.Stored(e.GiB*gib, now, lasts+e.Makes), "a file system of %s, for %s", units.Bytes(e.GiB*gib), units.Duration(lasts+e.Makes))
		use(pricing.S3Get, pricing.Requests(requests(e.names, e.Held)), "to read the data into the file system once")
	}
	if e.Home > 0 {
		use(pricing.S3Put, pricing.Requests(requests(e.Saves, e.Home)), "checkpoints and results into the bucket")
		use(pricing.S3Standard, pricing.Stored(e.Home/2, now, lasts), "checkpoints and results in the bucket, half the time on average")
		use(pricing.S3Get, pricing.Requests(requests(e.Saves, e.Home)), "to bring them home")
		use(egress[s.Link.Kind], pricing.Bytes(e.Home), "%s that comes home by %s", units.Bytes(e.Home), s.Link.Kind)
	}
	if i := s.Job.Instances; i.Count > 0 {
		use(pricing.EC2(i.Type), pricing.Hours(i.Count, lasts), "%d %s, for %s", i.Count, i.Type, s.Lasts)
	}
	return all
}

// requests are how many calls files of so many bytes take.
func requests(files, bytes int64) int64 { return plus(files, bytes/partBytes) }

// FileSystemRate is the name of the rate of the file system of a burst.
func (b *Burst) FileSystemRate() string {
	if f := b.Spec.Cloud.FileSystem; f.Type == Persistent2 {
		return pricing.FSxPersistent2(int32(f.Throughput))
	}
	return pricing.FSxScratch2
}

// Egress is the rate of what comes home over a link.
func (l *Link) Egress() string { return egress[l.Kind] }

// forecastAfter is how long bytes have to come before their rate says when the rest will have come.
const forecastAfter = 10 * time.Second

// Forecast says when a checkpoint of which so many bytes came in a time will be home, and whether that is later than it may be, when what was saved since then is lost until it is.
func (c *Checkpoint) Forecast(came int64, in, since time.Duration) (left time.Duration, late bool) {
	if came <= 0 || in < forecastAfter || came >= int64(c.Size) {
		return 0, since > c.Objective()
	}
	left = time.Duration(float64(int64(c.Size)-came) / float64(came) * float64(in))
	return left, since+left > c.Objective()
}
