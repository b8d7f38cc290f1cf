package p2p_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/p2p"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const pieceBytes = 8 << 10

// lan is members in one process. Like the tracker of a cluster it tells them of each other, and like agents it gives of each what
// it has published.
type lan struct {
	t      *testing.T
	source string
	bytes  int64 // of the source
	read   atomic.Int64
	woken  atomic.Int64                 // Gets from who is asleep
	spoil  func(m *member, data []byte) // of what a member gives; nil leaves it alone
	memory int64                        // of each member
	remote bool                         // the source is as a store
	brief  bool                         // the walk of a store does not tell all
	refuse string                       // a directory of which nothing may be read
	anew   bool                         // all objects were stored anew since the manifest was made that is walked
	stats  atomic.Int64                 // of the source
	asleep string                       // the member that answers nobody
	link   chan struct{}                // held while something is read of the source; nil is as quick as it is
	takes  time.Duration                // that as much as a piece has takes on the link
	late   func() time.Duration         // after which a member hears of the others; nil is at once
	still  bool                         // who comes is no home

	mu      sync.Mutex
	members []*member
	homes   [][]string
	told    int // times that something was announced
}

type member struct {
	lan   *lan
	name  string
	dir   string
	swarm *p2p.Swarm
	stop  context.CancelCauseFunc
	dead  atomic.Bool
	seed  atomic.Bool
	asked [2]sync.Map  // names to numbers of questions that are asked just now, of each kind
	from  atomic.Int64 // Gets from it
	stray atomic.Int64 // its Gets from others as homes, which are not

	mu   sync.Mutex
	kept map[p2p.Key][]byte // guarded by mu
	told int                // the announcement that it heard last; guarded by mu, as view
	view p2p.View
}

var errKilled = errors.New("killed")

// tempDir is in memory where that can be: stable storage is not what is tested here.
func tempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "swarm")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must.Do(t, os.RemoveAll(dir)) })
	return dir
}

// newLAN makes a source of files of such sizes.
func newLAN(t *testing.T, sizes ...int) *lan {
	l := &lan{t: t, source: tempDir(t), memory: 64 * pieceBytes}
	for i, size := range sizes {
		data := make([]byte, size)
		r := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)})
		_, _ = r.Read(data)
		name := filepath.Join(l.source, fmt.Sprintf("d%02d", i%7), fmt.Sprintf("f%04d", i))
		must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, os.WriteFile(name, data, 0o644))
		l.bytes += int64(size)
	}
	return l
}

// join makes a member, and tells all of it.
func (l *lan) join(name string) *member {
	m := &member{lan: l, name: name, dir: tempDir(l.t), kept: map[p2p.Key][]byte{}}
	l.mu.Lock()
	l.members = append(l.members, m)
	l.mu.Unlock()
	m.swarm = p2p.New(p2p.Options{PieceBytes: pieceBytes, Memory: l.memory, Peers: m, View: p2p.View{Self: name}})
	l.announce()
	return m
}

// announce tells everybody who is there.
func (l *lan) announce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []p2p.Member
	var homes []string
	for _, m := range l.members {
		if m.dead.Load() {
			continue
		}
		all = append(all, p2p.Member{Name: m.name, Seed: m.seed.Load()})
		if !m.seed.Load() {
			homes = append(homes, m.name)
		}
	}
	if !l.still || len(l.homes) == 0 {
		l.homes = append(l.homes, homes)
	}
	l.told++
	for i, m := range l.members {
		v, told := p2p.View{Self: m.name, Members: slices.Clone(all), Homes: slices.Clone(l.homes)}, l.told
		if l.late == nil || i == len(l.members)-1 { // who comes is told as it comes
			m.hear(v, told)
		} else {
			time.AfterFunc(l.late(), func() { m.hear(v, told) })
		}
	}
}

// hear takes over a view, unless there was a newer one before.
func (m *member) hear(v p2p.View, told int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if told > m.told {
		m.told, m.view = told, v
		m.swarm.Update(v)
	}
}

func (l *lan) find(name string) *member {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.members {
		if m.name == name {
			return m
		}
	}
	return nil
}

// Get implements p2p.Peers.
func (m *member) Get(ctx context.Context, to p2p.Member, p *p2p.Piece, atHome bool, into []byte) error {
	other := m.lan.find(to.Name)
	asked := &m.asked[0]
	if atHome {
		asked = &m.asked[1]
		m.mu.Lock()
		if m.view.Owner(p.Index) != to.Name {
			m.stray.Add(1)
		}
		m.mu.Unlock()
	}
	n, _ := asked.LoadOrStore(to.Name, new(atomic.Int64))
	if now := n.(*atomic.Int64).Add(1); now > p2p.AsksMost {
		m.lan.t.Errorf("%s asks %s %d things at one time", m.name, to.Name, now)
	}
	defer n.(*atomic.Int64).Add(-1)
	if other.dead.Load() || m.dead.Load() {
		return mover.ErrUnreachable
	}
	if m.lan.asleep == other.name {
		m.lan.woken.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}
	err := other.give(ctx, p, atHome, into)
	if err == nil && m.lan.spoil != nil {
		m.lan.spoil(other, into)
	}
	if other.dead.Load() {
		return mover.ErrUnreachable
	}
	if err == nil {
		other.from.Add(1)
	}
	return err
}

func (m *member) give(ctx context.Context, p *p2p.Piece, atHome bool, into []byte) error {
	m.mu.Lock()
	data, ok := m.kept[p.Key()]
	m.mu.Unlock()
	if ok {
		copy(into, data)
		return nil
	}
	if m.published(p, into) == nil {
		return nil
	}
	if m.seed.Load() {
		return mover.ErrNotExist
	}
	data, done, err := m.swarm.Give(ctx, p, atHome)
	if err != nil {
		return err
	}
	copy(into, data)
	defer done()
	return m.Put(ctx, p, data) // what was demanded is kept, too
}

func (m *member) published(p *p2p.Piece, into []byte) error {
	for _, s := range p.Segments {
		f, err := os.Open(filepath.Join(m.dir, s.Name))
		if err != nil {
			return err
		}
		n, err := f.ReadAt(into[:s.Length], s.Off)
		_ = f.Close()
		if int64(n) < s.Length {
			return err
		}
		into = into[s.Length:]
	}
	return nil
}

// Put implements p2p.Peers. It keeps a few.
func (m *member) Put(_ context.Context, p *p2p.Piece, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) > 128 {
		clear(m.kept)
	}
	m.kept[p.Key()] = bytes.Clone(data)
	return nil
}

// run brings the tree to the member. seen is called with each result.
func (m *member) run(ctx context.Context, seen func(n int)) error {
	ctx, m.stop = context.WithCancelCause(ctx)
	defer m.stop(nil)
	defer m.swarm.Close()
	from, err := posix.Open(m.lan.source, posix.Options{})
	if err != nil {
		return err
	}
	to, err := posix.Open(m.dir, posix.Options{})
	if err != nil {
		return err
	}
	counted := &counting{from, m.lan}
	source, target := m.swarm.Source(counted, counted), m.swarm.Target(to)
	defer source.Close()
	defer target.Close()
	o := transfer.Options{By: mover.WriterID{Task: m.name, Epoch: 1}, Observer: &observer{seen: seen}, Jobs: 4}
	return transfer.Run(ctx, source, target, plan.Diff(source.Walk(ctx, mover.WalkOptions{}), target.Walk(ctx, mover.WalkOptions{}), o.Plan), o)
}

// kill ends a member; the others hear of it when announce is called.
func (m *member) kill() {
	m.dead.Store(true)
	m.stop(errKilled)
}

// counting counts what is read of the source.
type counting struct {
	*posix.Backend
	lan *lan
}

func (c *counting) Capabilities() mover.Capabilities {
	t := c.Backend.Capabilities()
	t.Remote = c.lan.remote
	return t
}

func (c *counting) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range c.Backend.Walk(ctx, opts) {
			if c.lan.remote {
				e.Brief = c.lan.brief
			}
			if c.lan.anew && err == nil && e.Kind == mover.File {
				e.ETag = "old"
				e.CRC, err = c.sum(ctx, e)
				e.Known |= mover.FactCRC
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *counting) Stat(ctx context.Context, name string) (mover.Entry, error) {
	c.lan.stats.Add(1)
	if err := c.may(name); err != nil {
		return mover.Entry{}, err
	}
	e, err := c.Backend.Stat(ctx, name)
	if c.lan.anew {
		e.ETag = "new"
	}
	return e, err
}

func (c *counting) sum(ctx context.Context, e mover.Entry) (uint64, error) {
	content, err := c.Backend.Open(ctx, e)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	return compare.Hash(ctx, content)
}

func (c *counting) may(name string) error {
	if dir, _ := mover.Parent(name); c.lan.refuse != "" && dir == c.lan.refuse {
		return mover.ErrPermission
	}
	return nil
}

func (c *counting) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	if err := c.may(e.Name); err != nil {
		return nil, err
	}
	if e.ETag == "old" {
		return nil, mover.ErrChanged
	}
	inner, err := c.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	x := &countingContent{inner, c.lan, inner.Entry()}
	if x.entry.Kind == mover.File { // as a manifest has it
		if x.entry.CRC, err = compare.Hash(ctx, inner); err != nil {
			return nil, err
		}
		x.entry.Known |= mover.FactCRC
	}
	return x, nil
}

type countingContent struct {
	mover.Content
	lan   *lan
	entry mover.Entry
}

func (c *countingContent) Entry() mover.Entry { return c.entry }

func (c *countingContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r, err := c.Content.Range(ctx, off, n)
	return &countingReader{r, c.lan}, err
}

type countingReader struct {
	io.ReadCloser
	lan *lan
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p[:min(len(p), pieceBytes)])
	c.lan.read.Add(int64(n))
	if c.lan.link != nil {
		c.lan.link <- struct{}{}
		time.Sleep(c.lan.takes * time.Duration(n) / pieceBytes)
		<-c.lan.link
	}
	return n, err
}

type observer struct {
	n    atomic.Int64
	seen func(n int)
}

func (o *observer) Result(r transfer.Result) {
	if n := o.n.Add(1); o.seen != nil {
		o.seen(int(n))
	}
}
func (*observer) Paused(error) {}
func (*observer) Step(string)  {}

// same fails when a member has not what the source has.
func (m *member) same() {
	m.lan.t.Helper()
	n := 0
	must.Do(m.lan.t, filepath.WalkDir(m.lan.source, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(m.lan.source, path)
		must.Do(m.lan.t, err)
		want, err := os.ReadFile(path)
		must.Do(m.lan.t, err)
		got, err := os.ReadFile(filepath.Join(m.dir, rel))
		if err != nil || !bytes.Equal(got, want) {
			m.lan.t.Errorf("%s of %s is not what it was: %v", rel, m.name, err)
		}
		n++
		return nil
	}))
	if n == 0 {
		m.lan.t.Error("there is nothing")
	}
}

// all runs members to their ends, side by side.
func (l *lan) all(members []*member, seen func(m *member, n int)) {
	var group sync.WaitGroup
	for _, m := range members {
		group.Go(func() {
			err := m.run(l.t.Context(), func(n int) {
				if seen != nil {
					seen(m, n)
				}
			})
			if err != nil && !m.dead.Load() {
				l.t.Errorf("%s: %v", m.name, err)
			}
			if !m.dead.Load() {
				m.seed.Store(true) // as the tracker makes it
				l.announce()
			}
		})
	}
	group.Wait()
}

// mixed is small files, and some of many pieces.
func mixed() (sizes []int) {
	for i := range 160 {
		switch {
		case i%40 == 7:
			sizes = append(sizes, 40*pieceBytes+i)
		case i%10 == 3:
			sizes = append(sizes, 0)
		default:
			sizes = append(sizes, 100+i*7)
		}
	}
	return sizes
}

func (l *lan) within(share float64) {
	l.t.Helper()
	got := float64(l.read.Load()) / float64(l.bytes)
	l.t.Logf("the source was read %.3f times", got)
	if got > share {
		l.t.Errorf("the source was read %.3f times; at most %.2f", got, share)
	}
}

// TestOnce: many read the source once.
func TestOnce(t *testing.T) {
	for _, remote := range []bool{false, true} {
		for _, n := range []int{1, 2, 8} {
			t.Run(fmt.Sprintf("%d members, remote %v", n, remote), func(t *testing.T) {
				l := newLAN(t, mixed()...)
				l.remote = remote
				var members []*member
				for i := range n {
					members = append(members, l.join(fmt.Sprintf("m%d", i)))
				}
				l.all(members, nil)
				for _, m := range members {
					m.same()
				}
				l.within(1.005) // a piece that is dropped just before the last file of it is written is read once more
			})
		}
	}
}

// TestLate: who comes in the middle, and after the end, reads nothing that another one has.
func TestLate(t *testing.T) {
	l := newLAN(t, mixed()...)
	members := []*member{l.join("m0"), l.join("m1")}
	var late []*member
	var group sync.WaitGroup
	var once sync.Once
	l.all(members, func(_ *member, n int) {
		if n == 60 {
			once.Do(func() {
				for i := range 3 {
					m := l.join(fmt.Sprintf("late%d", i))
					late = append(late, m)
					group.Go(func() {
						must.Tell(t, m.run(t.Context(), nil))
					})
				}
			})
		}
	})
	group.Wait()
	after := l.join("after")
	before := l.read.Load()
	l.all([]*member{after}, nil)
	if read := l.read.Load() - before; read > 0 {
		t.Errorf("%d bytes were read from the source when all had it", read)
	}
	for _, m := range append(append(members, late...), after) {
		m.same()
	}
	l.within(1.1)
}

// TestTogether: members come one after the other, hear late of each other, and read a slow source over one link. Who has begun to wait for more of it
// than it can read soon leaves to the others what is theirs.
func TestTogether(t *testing.T) {
	var read, bytes int64
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			var mu sync.Mutex // of r
			upTo := func(d time.Duration) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				return time.Duration(r.Int64N(int64(d)))
			}
			l := newLAN(t, slices.Repeat([]int{40 * pieceBytes}, 8)...)
			l.memory, l.link, l.takes = 512*pieceBytes, make(chan struct{}, 1), 10*time.Millisecond+upTo(190*time.Millisecond)
			l.late = func() time.Duration { return upTo(400 * time.Millisecond) }
			var group sync.WaitGroup
			for i := range 3 + r.IntN(4) {
				after := upTo(time.Second)
				group.Go(func() {
					time.Sleep(after)
					m := l.join(fmt.Sprintf("m%d", i))
					l.all([]*member{m}, nil)
					m.same()
				})
			}
			group.Wait()
			l.within(1.1)
			read, bytes = read+l.read.Load(), bytes+l.bytes
		})
	}
	// What is on its way when somebody comes may be read twice.
	if share := float64(read) / float64(bytes); share > 1.035 {
		t.Errorf("the sources were read %.3f times", share)
	}
}

// TestMoved: a question that waits for its turn is not for who was home when it began to wait.
func TestMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, slices.Repeat([]int{40 * pieceBytes}, 8)...)
		l.memory, l.link, l.takes = 512*pieceBytes, make(chan struct{}, 1), 50*time.Millisecond
		members := []*member{l.join("m0"), l.join("m1")}
		var group sync.WaitGroup
		group.Go(func() { l.all(members[:2], nil) })
		for i := 2; i < 6; i++ {
			time.Sleep(400 * time.Millisecond)
			m := l.join(fmt.Sprint("m", i))
			members = append(members, m)
			group.Go(func() { l.all([]*member{m}, nil) })
		}
		group.Wait()
		stray := int64(0)
		for _, m := range members {
			m.same()
			stray += m.stray.Load()
		}
		if stray > 4*p2p.AsksMost { // what is on its way when somebody comes, and may be at an older home
			t.Errorf("who is not home was asked %d times", stray)
		}
		l.within(1.1)
	})
}

// TestSettled: who becomes home of pieces that it has asked another one for reads each of them once: for itself, and for who asks it now.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, slices.Repeat([]int{20 * pieceBytes}, 20)...)
		l.memory, l.link, l.takes, l.still = 512*pieceBytes, make(chan struct{}, 1), 50*time.Millisecond, true
		members := []*member{l.join("m0"), l.join("m1"), l.join("m2")}
		var group sync.WaitGroup
		group.Go(func() { l.all(members, nil) })
		time.Sleep(time.Second)
		l.mu.Lock()
		l.still = false
		l.mu.Unlock()
		l.announce()
		group.Wait()
		for _, m := range members {
			m.same()
		}
		l.within(1.005)
	})
}

// TestDeaths: members die in the middle. The others go on, and ask the source for what nobody has.
func TestDeaths(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			l := newLAN(t, mixed()...)
			var members []*member
			for i := range 8 {
				members = append(members, l.join(fmt.Sprintf("m%d", i)))
			}
			dies := map[*member]int{}
			for _, i := range r.Perm(8)[:3] {
				dies[members[i]] = 1 + r.IntN(100)
			}
			l.all(members, func(m *member, n int) {
				if at := dies[m]; at > 0 && n == at {
					m.kill()
					l.announce()
				}
			})
			for _, m := range members {
				if !m.dead.Load() {
					m.same()
				}
			}
			// What was on its way to the dead, and from them, is read once more.
			l.within(1.1 + 3*64*float64(pieceBytes)/float64(l.bytes))
		})
	}
}

// TestUnannounced: a member dies, and nobody is told.
func TestUnannounced(t *testing.T) {
	l := newLAN(t, mixed()...)
	var members []*member
	for i := range 4 {
		members = append(members, l.join(fmt.Sprintf("m%d", i)))
	}
	l.all(members, func(m *member, n int) {
		if m == members[1] && n == 20 {
			m.kill()
		}
	})
	for _, m := range members {
		if m != members[1] {
			m.same()
		}
	}
	l.within(1.1 + 64*float64(pieceBytes)/float64(l.bytes))
}

// TestSkew: members that do not agree on who is home do not wait for each other.
func TestSkew(t *testing.T) {
	l := newLAN(t, mixed()...)
	a, b := l.join("a"), l.join("b")
	both := []p2p.Member{{Name: "a"}, {Name: "b"}}
	a.swarm.Update(p2p.View{Self: "a", Members: both, Homes: [][]string{{"b"}}})
	b.swarm.Update(p2p.View{Self: "b", Members: both, Homes: [][]string{{"a"}}})
	l.all([]*member{a, b}, nil)
	a.same()
	b.same()
	l.within(2.1)
}

// TestNobodyAtHome: a home whose process has not begun, or has ended, has nothing, and reads nothing.
//
//safety:7 with test/cluster TestSwarmLies
func TestNobodyAtHome(t *testing.T) {
	l := newLAN(t, mixed()...)
	a, b := l.join("a"), l.join("b")
	b.seed.Store(true) // it answers, and has no process
	a.swarm.Update(p2p.View{Self: "a", Members: []p2p.Member{{Name: "a"}, {Name: "b"}}, Homes: [][]string{{"a", "b"}}})
	l.all([]*member{a}, nil)
	a.same()
	l.within(1.005)
}

// walk of a source that has other files for each member: they cut other pieces, and get their own files all the same.
func TestUnlike(t *testing.T) {
	l := newLAN(t, mixed()...)
	a := l.join("a")
	l.all([]*member{a}, nil)
	extra := filepath.Join(l.source, "d00", "a-new-one")
	must.Do(t, os.WriteFile(extra, bytes.Repeat([]byte("new"), 1000), 0o644))
	b := l.join("b")
	l.all([]*member{b}, nil)
	b.same()
}

// TestSpoilt: a member gives wrong bytes. The others find it out, read those files from the source, and ask it no more.
//
//safety:7 with test/cluster TestSwarmLies
func TestSpoilt(t *testing.T) {
	l := newLAN(t, mixed()...)
	var members []*member
	for i := range 3 {
		members = append(members, l.join(fmt.Sprintf("m%d", i)))
	}
	var spoilt atomic.Int64
	l.spoil = func(m *member, data []byte) {
		if m == members[1] {
			spoilt.Add(1)
			data[len(data)/2] ^= 1
		}
	}
	l.all(members, nil)
	for _, m := range members {
		m.same()
	}
	t.Logf("wrong bytes were asked for %d times", spoilt.Load())
	if n := spoilt.Load(); n == 0 || n > 80 {
		t.Errorf("wrong bytes were asked for %d times", n)
	}
	if n := members[0].from.Load() + members[2].from.Load(); n == 0 {
		t.Error("those who gave what was right are asked no more")
	}
}

// TestAsleep: a member answers nobody. The others wait for it for a while, and not again and again.
//
//safety:7 with test/cluster TestSwarmLies
func TestAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, mixed()...)
		var members []*member
		for i := range 4 {
			members = append(members, l.join(fmt.Sprintf("m%d", i)))
		}
		l.asleep = "m1"
		begun := time.Now()
		l.all([]*member{members[0], members[2], members[3]}, nil)
		if took := time.Since(begun); took > 40*time.Second {
			t.Errorf("it took %v", took)
		}
		for _, m := range members {
			if m.name != l.asleep {
				m.same()
			}
		}
		l.within(1.15)
		t.Logf("it was asked %d times, and took %v", l.woken.Load(), time.Since(begun))
	})
}

// TestLinked: what a file has under its other names nobody reads.
func TestLinked(t *testing.T) {
	l := newLAN(t, mixed()...)
	for i := range 3 {
		must.Do(t, os.Link(filepath.Join(l.source, "d01/f0127"), filepath.Join(l.source, fmt.Sprintf("d06/z%d", i))))
	}
	members := []*member{l.join("m0"), l.join("m1")}
	l.all(members, nil)
	for _, m := range members {
		m.same()
	}
	l.within(1.005)
}

// TestAsks: a store is asked for a file of each directory, and for each file only where the walk has not told all of it.
func TestAsks(t *testing.T) {
	for _, brief := range []bool{false, true} {
		l := newLAN(t, slices.Repeat([]int{500}, 210)...)
		l.remote, l.brief = true, brief
		alone := l.join("alone")
		l.all([]*member{alone}, nil)
		alone.same()
		if asked, want := l.stats.Load(), map[bool]int64{false: 1 + 7, true: 1 + 210}[brief]; asked != want { // the root, too
			t.Errorf("brief %v: %d files were asked for, want %d", brief, asked, want)
		}
	}
}

// TestRefused: who may not read a directory of a store gets nothing that is in it, though others have all of it.
//
//safety:7 with test/system/service TestMayReadNow
func TestRefused(t *testing.T) {
	l := newLAN(t, mixed()...)
	l.remote = true
	l.all([]*member{l.join("may")}, nil)
	l.refuse = "d03"
	other := l.join("other")
	must.Do(t, other.run(t.Context(), nil))
	files := func(root, dir string) int {
		found := must.Get(os.ReadDir(filepath.Join(root, dir)))(t)
		return len(found)
	}
	if n := files(other.dir, "d03"); n > 0 {
		t.Errorf("it got %d files", n)
	}
	if n, want := files(other.dir, "d04"), files(l.source, "d04"); n != want {
		t.Errorf("of another directory it got %d files of %d", n, want)
	}
}

// TestStoredAnew: members that walk a manifest which is older than the objects read them once, if their contents are the same.
func TestStoredAnew(t *testing.T) {
	l := newLAN(t, mixed()...)
	l.remote, l.anew = true, true
	members := []*member{l.join("m0"), l.join("m1"), l.join("m2")}
	l.all(members, nil)
	for _, m := range members {
		m.same()
	}
	l.within(1.005)
}
