package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine/transfer"
)

// late takes its time: as a source for each range until it is answered and for each read,
// as a target between reads and before it answers; for some of that it is sending.
type late struct {
	mover.Backend
	answer, read, between, take, sending time.Duration
}

// Sending implements mover.Sender.
func (l late) Sending() (onTheWay, all time.Duration) { return l.sending, l.take }

func (l late) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := l.Backend.Open(ctx, e)
	return lateContent{c, l}, err
}

func (l late) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := l.Backend.Draft(ctx, e, h)
	return lateDraft{d, l}, err
}

func (l late) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	for i := range batch {
		batch[i] = batch[i].(lateDraft).Draft
	}
	return l.Backend.Publish(ctx, batch)
}

type lateContent struct {
	mover.Content
	late late
}

func (c lateContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	time.Sleep(c.late.answer)
	r, err := c.Content.Range(ctx, off, n)
	return lateReader{r, c.late.read}, err
}

type lateReader struct {
	io.ReadCloser
	read time.Duration
}

func (r lateReader) Read(p []byte) (int, error) {
	time.Sleep(r.read)
	return r.ReadCloser.Read(p)
}

type lateDraft struct {
	mover.Draft
	late late
}

func (d lateDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	r, err := d.Draft.WritePart(ctx, p, lateFeed{f, d.late.between})
	time.Sleep(d.late.take)
	return r, err
}

type lateFeed struct {
	mover.Feed
	between time.Duration
}

func (f lateFeed) Read(p []byte) (int, error) {
	time.Sleep(f.between)
	return f.Feed.Read(p)
}

// What is waited for the source, for the target, on the way between them, and for a limit
// is told apart, although it is the target that pulls.
func TestWaitsAreApart(t *testing.T) {
	large := map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<16)}
	small := map[string]string{}
	for i := range 32 * 5 {
		small[fmt.Sprintf("small%d", i)] = "0123456789abcdef"
	}
	limited := func(s mover.Source) mover.Source { return throttle.Source(s, throttle.NewBandwidth(1<<16)) }
	for name, c := range map[string]struct {
		from, to             late
		objects              bool
		over                 func(mover.Source) mover.Source
		source, target, link bool
	}{
		"a source that reads slowly":                {from: late{read: time.Second}, source: true},
		"a target that writes slowly":               {to: late{between: time.Second, take: time.Second}, target: true},
		"a limit":                                   {over: limited},
		"a remote source that answers late":         {objects: true, from: late{answer: time.Second}, source: true},
		"bytes that come slowly":                    {objects: true, from: late{read: time.Second}, link: true},
		"a remote source behind a limit":            {objects: true, over: limited},
		"bytes that go slowly":                      {objects: true, to: late{between: time.Second}, link: true},
		"a remote target that answers late":         {objects: true, to: late{take: time.Second}, target: true},
		"a remote target that sends what it has":    {objects: true, to: late{take: time.Second, sending: time.Second}, link: true},
		"a remote target that sends and is late":    {objects: true, to: late{take: 2 * time.Second, sending: time.Second}, target: true, link: true},
		"all of it, between two places that are so": {objects: true, from: late{answer: 1, read: 1}, to: late{between: 1, take: 1}, source: true, target: true, link: true},
	} {
		for size, files := range map[string]map[string]string{"large": large, "small": small} {
			t.Run(name+", "+size, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o := mem.Options{ObjectStore: c.objects}
					var n transfer.Counters
					begun := time.Now()
					c.from.Backend, c.to.Backend = mem.New(mem.NewTree().Files(files), o), mem.New(mem.NewTree(), o)
					from := mover.Source(c.from)
					if c.over != nil {
						from = c.over(from)
					}
					res, err := syncTo(t.Context(), from, c.to, transfer.Options{Jobs: 1, Counters: &n})
					if f := res.failed(); err != nil || f != nil {
						t.Fatal(err, f)
					}
					source, target, link := time.Duration(n.SourceWait.Load()), time.Duration(n.TargetWait.Load()), time.Duration(n.LinkWait.Load())
					if (source > 0) != c.source || (target > 0) != c.target || (link > 0) != c.link {
						t.Errorf("it waited %v for the source, %v for the target, and %v on the way", source, target, link)
					}
					if took, told := time.Since(begun), source+target+link; c.over == nil && (told < took*9/10 || told > took*11/10) {
						t.Errorf("of %v it tells of %v", took, told)
					}
				})
			})
		}
	}
}

// whole is a target that takes each part whole before it writes it.
type whole struct{ mover.Backend }

func (w whole) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := w.Backend.Draft(ctx, e, h)
	return wholeDraft{d}, err
}

func (w whole) Publish(ctx context.Context, batch []mover.Draft) []mover.Outcome {
	for i := range batch {
		batch[i] = batch[i].(wholeDraft).Draft
	}
	return w.Backend.Publish(ctx, batch)
}

type wholeDraft struct{ mover.Draft }

func (d wholeDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	part := make([]byte, p.Length)
	if _, err := io.ReadFull(f, part); err != nil {
		return mover.Receipt{}, err
	}
	return d.Draft.WritePart(ctx, p, wholeFeed{f, bytes.NewReader(part)})
}

type wholeFeed struct {
	mover.Feed
	part *bytes.Reader
}

func (f wholeFeed) Read(p []byte) (int, error) { return f.part.Read(p) }

// TestBytesCountAsTheyPass: what a target takes whole, at a limit of the bandwidth, is
// counted while it passes and not when the target has it.
func TestBytesCountAsTheyPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 1 << 12                                                           // a part takes 16 seconds
		files := map[string]string{"large": strings.Repeat("0123456789abcdef", 1<<14)} // 64 seconds of it
		from := throttle.Source(mem.New(mem.NewTree().Files(files), mem.Options{}), throttle.NewBandwidth(rate))
		to := whole{mem.New(mem.NewTree(), mem.Options{})}
		var n transfer.Counters
		done := make(chan error, 1)
		go func() {
			_, err := syncTo(t.Context(), from, to, transfer.Options{Jobs: 1, Counters: &n})
			done <- err
		}()
		for second := int64(1); second < 64; second++ {
			time.Sleep(time.Second)
			synctest.Wait()
			if off := n.Bytes.Load() - second*rate; off < -rate/4 || off > rate/4 {
				t.Errorf("%d bytes after %d s at %d a second", n.Bytes.Load(), second, rate)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
