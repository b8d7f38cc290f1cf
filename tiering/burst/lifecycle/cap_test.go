package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/aws"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
	"datamove.dev/tiering/checkpoint"
)

// dear is a book in which a GB that comes home is two thousand dollars.
const dear = `kind: PriceBook
region: us-east-1
currency: USD
date: 2026-11-01
source: this test
rates:
  fsx.scratch_2: {unit: GB-month, usd: 0.14}
  s3.standard: {unit: GB-month, usd: 0.023}
  s3.put: {unit: 1000 requests, usd: 0.005}
  s3.get: {unit: 1000 requests, usd: 0.0004}
  egress.direct-connect: {unit: GB, usd: 2000}
`

// counting counts the bytes that are read from a store.
type counting struct {
	mover.Backend
	read *atomic.Int64
}

func (p *counting) Unwrap() any { return p.Backend }

func (p *counting) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := p.Backend.Open(ctx, e)
	return &countingContent{c, p.read}, err
}

type countingContent struct {
	mover.Content
	read *atomic.Int64
}

func (c *countingContent) Unwrap() any { return c.Content }

func (c *countingContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	c.read.Add(n)
	return c.Content.Range(ctx, off, n)
}

// TestCap: where the money ends in the middle of coming home, no stream gets another part; with a higher cap the same command goes on, and what has come does not come again.
//
//safety:aws the money ends while data comes home: no stream gets another part; what the ledger has is what a count by hand gives
func TestCap(t *testing.T) {
	w := newWorld(t, 150*pricing.Dollar)
	var err error
	w.book, err = pricing.Read("dear", []byte(dear))
	w.must(err)
	w.write("datasets/imagenet/a.tar", 1<<10)
	cheap := strings.Replace(declared, "size: 1GB, every: 30m", "size: 1B, every: 30m", 1) // it says that it will cost little
	r, err := w.leg().Up(t.Context(), read(t, cheap), nil)
	w.must(err)
	tree := w.aws.FileSystem(r.FileSystem.ID)
	const files, size, part = 4, 32 << 20, 16 << 20 // a file is about 62 dollars
	for i := range files {
		tree.Write(aws.File{Name: fmt.Sprintf("results/big-%d", i), Body: make([]byte, size), Mode: 0o644})
	}
	var fetched atomic.Int64
	open := func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
		p, err := w.site.Open(ctx, l, o)
		if err != nil || l.Scheme != location.S3 {
			return p, err
		}
		return &counting{p, &fetched}, nil
	}
	const streams = 2
	l := w.leg()
	l.Way = &link.Link{Open: open, Request: engine.Request{StateDir: filepath.Join(w.dir, "state"), Jobs: streams}}
	err = l.SyncBack(t.Context(), w.record("llama-ft"))
	if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "cap of $150.00") {
		t.Fatalf("at the cap: %v", err)
	}
	balance, err := w.ledger.Balance(t.Context(), "vision")
	w.must(err)
	paid := pricing.Money(float64(fetched.Load()) / (1 << 30) * 2000 * float64(pricing.Dollar))
	over := pricing.Money(float64(streams*part) / (1 << 30) * 2000 * float64(pricing.Dollar))
	if balance.Spent > balance.Cap || paid > balance.Cap+over || fetched.Load() < 2*size {
		t.Errorf("%+v, and %d MiB came for %v", balance, fetched.Load()>>20, paid)
	}
	was := fetched.Load()
	w.account(1000 * pricing.Dollar)
	l = w.leg()
	l.Way = &link.Link{Open: open, Request: engine.Request{StateDir: filepath.Join(w.dir, "state"), Jobs: streams}}
	w.must(l.SyncBack(t.Context(), w.record("llama-ft")))
	if again := fetched.Load() - files*size; again > streams*part {
		t.Errorf("%d MiB came again, after %d MiB", again>>20, was>>20)
	}
	if home := w.record("llama-ft").CameHome("results"); home == nil || !home.Verified || home.Files != files {
		t.Errorf("%+v", home)
	}
}

// TestRegion: what may not be in a region, or is declared to be in another one than its bucket, is refused before a byte is sent, or AWS is asked for anything.
//
//safety:aws a bucket, or data, that has to be somewhere else: refused before a byte is sent
func TestRegion(t *testing.T) {
	for _, one := range []struct{ what, region, residency, want string }{
		{"the bucket is somewhere else", "eu-central-1", "[us]", "is in eu-central-1, and spec.cloud.region is us-east-1"},
		{"the data has to stay in Europe", "us-east-1", "[eu]", "may be in eu only"},
	} {
		t.Run(one.what, func(t *testing.T) {
			w := newWorld(t, 10_000*pricing.Dollar)
			w.write("datasets/imagenet/a.tar", 1<<10)
			w.region = one.region
			r, err := w.leg().Up(t.Context(), read(t, strings.Replace(declared, "residency: [us]", "residency: "+one.residency, 1)), nil)
			if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%v", err)
			}
			if all := w.objects(""); len(all) > 0 || r != nil || len(w.aws.Log()) > 0 {
				t.Errorf("%q, %v, %v", all, r, w.aws.Log())
			}
		})
	}
}

// TestBill: what the ledger has of a burst is what an independent count of it gives, within 5 %.
//
//safety:aws with TestCap
func TestBill(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<20)
	r, err := w.leg().Up(t.Context(), read(t, declared), nil)
	w.must(err)
	w.clock.Pass(30 * time.Hour)
	w.must(w.leg().SyncBack(t.Context(), w.record("llama-ft")))
	w.must(w.leg().Down(t.Context(), w.record("llama-ft"), nil))
	// Worked by hand from deploy/prices/us-east-1.yaml: 1,200 GiB of SCRATCH_2 at $0.14 for a GB-month of the 720 hours of November, from when it was asked for until it was gone; the rest is less than a cent.
	lasted := w.record("llama-ft").Changed.Sub(r.FileSystem.Since).Hours()
	want := 1200 * 0.14 * lasted / 720
	balance, err := w.ledger.Balance(t.Context(), "vision")
	w.must(err)
	if got := float64(balance.Spent) / float64(pricing.Dollar); got < 0.95*want || got > 1.05*want || lasted < 30 {
		t.Errorf("spent $%.2f in %.1f h, want about $%.2f", got, lasted, want)
	}
	if spent := w.record("llama-ft").Spent; spent != balance.Spent {
		t.Errorf("the record has %v, the ledger %v", spent, balance.Spent)
	}
}

// slow is money for which somebody thinks a while about each part.
type slow struct {
	budgetClient
	clock *aws.Clock
}

func (s slow) Allow(ctx context.Context, team, burst string, amount pricing.Money) error {
	s.clock.Pass(20 * time.Minute)
	return s.budgetClient.Allow(ctx, team, burst, amount)
}

// TestObjective: when the link gets slow, it is said that more work may be lost than is wanted, while the checkpoint is still coming.
func TestObjective(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	r, err := w.leg().Up(t.Context(), read(t, strings.Replace(declared, "size: 1GB", "size: 64MiB", 1)), nil)
	w.must(err)
	tree := w.aws.FileSystem(r.FileSystem.ID)
	tree.Write(aws.File{Name: "checkpoints/run7/step-1", Mode: aws.TypeDir | 0o755})
	tree.Write(aws.File{Name: "checkpoints/run7/step-1/shard", Body: make([]byte, 64<<20), Mode: 0o644})
	tree.Write(aws.File{Name: "checkpoints/run7/step-1/.complete", Mode: 0o644})
	w.clock.Pass(time.Minute) // what is as young as the export may be half there
	l := w.leg()
	l.Purse = slow{w.ledger, w.clock}
	begun, noted := w.clock.Now(), &noting{way: l.Way}
	l.Way = noted
	w.must(l.SyncBack(t.Context(), w.record("llama-ft")))
	if !noted.exported.Equal(begun) {
		t.Errorf("what was written before %v is held to be in the bucket, and the export began at %v", noted.exported, begun)
	}
	said := strings.Join(w.said, "\n")
	if !strings.Contains(said, "is not home, and is there in") || !strings.Contains(said, "1h00m may be lost at most") || strings.Index(said, "is not home") > strings.Index(said, "run7 is home") {
		t.Errorf("it says:\n%s", said)
	}
}

// noting notes what it is told of exports.
type noting struct {
	way
	exported time.Time
}

func (n *noting) Checkpoints(ctx context.Context, from, to location.Location, profile checkpoint.Profile, exported time.Time, toll link.CostGate) (link.Moved, error) {
	n.exported = exported
	return n.way.Checkpoints(ctx, from, to, profile, exported, toll)
}

// TestNoSecrets: nothing secret is in a record, in the ledger, in a file of state, or told.
//
//safety:aws no key is in a record, in the ledger, in a file of state, or told
func TestNoSecrets(t *testing.T) {
	w := newWorld(t, 10_000*pricing.Dollar)
	w.write("datasets/imagenet/a.tar", 1<<10)
	_, err := w.leg().Up(t.Context(), read(t, declared), nil)
	w.must(err)
	w.must(filepath.WalkDir(filepath.Join(w.dir, "state"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), w.store.Secret) || strings.Contains(string(text), aws.OwnerSecret) {
			t.Errorf("%s has a secret", path)
		}
		return err
	}))
	money := must.Get(json.Marshal(w.spent.all))(t)
	for what, text := range map[string]string{"what is told": strings.Join(w.said, "\n"), "the record": string(w.records[0]), "the ledger": string(money)} {
		if strings.Contains(text, w.store.Secret) || strings.Contains(text, aws.OwnerSecret) {
			t.Errorf("%s has a secret", what)
		}
	}
}
