package p2p

import (
	"cmp"
	"context"
	"hash/maphash"
	"io"
	"slices"
	"sync"

	"datamove.dev/mover"
)

// trust remembers which member gave what of files that are not verified yet. A file that was wrong is read from the source
// itself, and that read shows which piece was wrong.
type trust struct {
	mu    sync.Mutex
	gifts map[string][]gift // by the names of files; guarded by mu
	n     int               // in all; guarded by mu
}

// gift is a range of a file that a member gave.
type gift struct {
	from        string
	off, length int64
	sum         uint64
}

// seed is of the sums of gifts: no member can foresee it.
var seed = maphash.MakeSeed()

// giftsMost bounds what is remembered. The givers of the rest of a file stay unknown.
const giftsMost = 1 << 16

func (t *trust) note(name string, g gift) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gifts == nil {
		t.gifts = map[string][]gift{}
	}
	if t.n < giftsMost {
		t.gifts[name] = append(t.gifts[name], g)
		t.n++
	}
}

// forget lets go of a file that is right.
func (t *trust) forget(name string) { t.take(name) }

// take returns what is known of a file that is read once more, and forgets it.
func (t *trust) take(name string) []gift {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gifts[name]
	delete(t.gifts, name)
	t.n -= len(g)
	slices.SortFunc(g, func(x, y gift) int { return cmp.Compare(x.off, y.off) })
	return slices.CompactFunc(g, func(x, y gift) bool { return x.off == y.off })
}

// judged compares what the source gives with what members gave.
type judged struct {
	io.ReadCloser
	off   int64        // of the next byte
	gifts []gift       // that begin at off or behind it, or are being read; apart, in order
	sum   maphash.Hash // of what was read of the first one
	wrong func(gift)
}

// Read implements io.Reader.
func (j *judged) Read(p []byte) (int, error) {
	n, err := j.ReadCloser.Read(p)
	j.sees(p[:n])
	return n, err
}

func (j *judged) sees(b []byte) {
	for len(b) > 0 && len(j.gifts) > 0 {
		g := j.gifts[0]
		if g.off > j.off { // no member gave what is here
			n := min(int64(len(b)), g.off-j.off)
			b, j.off = b[n:], j.off+n
			continue
		}
		n := min(int64(len(b)), g.off+g.length-j.off)
		_, _ = j.sum.Write(b[:n])
		b, j.off = b[n:], j.off+n
		if j.off < g.off+g.length {
			return
		}
		if j.sum.Sum64() != g.sum {
			j.wrong(g)
		}
		j.gifts = j.gifts[1:]
		j.sum.Reset()
	}
}

// again is a file that is read from the source itself, perhaps after it was not what it should be.
type again struct {
	mover.Content
	swarm *Swarm
	gifts []gift // apart, in order
}

// Range implements mover.Content.
func (a *again) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if err := a.swarm.o.Pay(ctx, n); err != nil {
		return nil, err
	}
	r, err := a.Content.Range(ctx, off, n)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(a.gifts, func(g gift) bool { return g.off >= off })
	if i < 0 {
		return r, nil
	}
	j := &judged{ReadCloser: r, off: off, gifts: a.gifts[i:], wrong: a.wrong}
	j.sum.SetSeed(seed)
	return j, nil
}

func (a *again) wrong(g gift) {
	if a.swarm.patience.expel(g.from) {
		a.swarm.o.Logger.Warn("a peer has given wrong bytes, and is not asked again", "member", g.from, "name", a.Content.Entry().Name, "off", g.off)
	}
}
