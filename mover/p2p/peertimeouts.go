package p2p

import (
	"sync"
	"time"
)

// peerTimeouts are what a member knows of how the others answer.
type peerTimeouts struct {
	mu      sync.Mutex
	typical time.Duration      // that an answer takes; 0 is not known. Guarded by mu, as all below
	others  map[string]*record // by name
}

// record is one that did not answer.
type record struct {
	until time.Time // it is passed over
	times int       // that it was, one after the other
	slow  bool      // it was not quick enough
}

const (
	// suspected is for how long a member that did not answer is passed over at first.
	suspected     = 15 * time.Second
	suspectedMost = 8 * time.Minute
	patienceLeast = 10 * time.Second
	patienceMost  = 30 * time.Second
	muchLonger    = 8 // times what is typical
)

// most is how long an answer may take. What is slow for all is not slow. A member that is not asked as the home reads no source, and
// other members wait for the member that asks it.
func (p *peerTimeouts) most(atHome bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := patienceMost / 2
	if p.typical > 0 || !atHome {
		most = min(max(muchLonger*p.typical, patienceLeast), patienceMost)
	}
	if !atHome {
		most /= 4
	}
	return most
}

// gave notes an answer.
func (p *peerTimeouts) gave(name string, took time.Duration) {
	p.took(took)
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.others[name]; r != nil && r.times != expelled {
		delete(p.others, name)
	}
}

// took notes for how long a piece was waited for, also one that was read from the source: the others may wait for that, too.
func (p *peerTimeouts) took(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.typical == 0 {
		p.typical = d
	}
	p.typical = max((7*p.typical+d)/8, time.Millisecond)
}

// slow notes that a member of so many took too long. If too many members do, the cause lies elsewhere, and
// all get more time. True says that it was not passed over before.
func (p *peerTimeouts) slow(name string, members int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for other, r := range p.others {
		if other != name && r.slow && time.Now().Before(r.until) {
			n++
		}
	}
	if n > 0 && n >= (members-1)/3 {
		p.typical = min(2*p.typical, patienceMost)
		return false
	}
	first := p.others[name] == nil
	p.pass(name).slow = true
	return first
}

// fails notes that a member does not answer. True says that it did before.
func (p *peerTimeouts) fails(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.others[name] == nil
	p.pass(name)
	return first
}

// refused notes that a member does not know us, or we not it: one of us will hear soon of the other.
func (p *peerTimeouts) refused(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.pass(name); r.times != expelled {
		r.until, r.times = time.Now().Add(time.Second), 0
	}
}

// pass has a member passed over, each time for longer. A failure of a request from before that adds nothing. mu is held.
func (p *peerTimeouts) pass(name string) *record {
	if p.others == nil {
		p.others = map[string]*record{}
	}
	r := p.others[name]
	if r == nil {
		r = new(record)
		p.others[name] = r
	}
	if now := time.Now(); now.After(r.until) {
		r.until = now.Add(min(suspected<<min(r.times, 10), suspectedMost))
		r.times++
	}
	return r
}

// expel has a member passed over for ever; false says that it is already.
func (p *peerTimeouts) expel(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.pass(name)
	was := r.times
	r.until, r.times = time.Now().Add(forEver), expelled
	return was != expelled
}

const (
	forEver  = 1000 * time.Hour
	expelled = 1 << 20
)

// passes says whether a member is not asked now.
func (p *peerTimeouts) passes(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.others[name]
	return r != nil && time.Now().Before(r.until)
}
