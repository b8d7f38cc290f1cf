package agent

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sight is what was seen of the path of a tier.
type sight struct {
	there       bool
	total, free int64 // bytes
}

// sights looks at the paths of tiers. A file system whose server is away keeps whoever
// looks at it, for hours: so nobody waits for a look for long, and there is one at a time
// for each tier. Else one tier that hangs would make the agent silent, and cost it the
// work on all others.
type sights struct {
	mu   sync.Mutex
	seen map[string]*looking // by tier and path; guarded by mu, as all below
}

type looking struct {
	last sight
	at   time.Time     // when that was seen
	done chan struct{} // closed when the look is over; nil while there is none
}

const (
	sightPatience = 50 * time.Millisecond // that a look may take before what was seen last counts
	sightLasts    = 30 * time.Second      // and for how long that counts, of a tier that does not answer
	sightYoung    = 200 * time.Millisecond
)

// at returns what is seen of a tier, or was a moment ago.
func (s *sights) at(tier, path string) sight {
	done, l := s.look(tier+"\x00"+path, path)
	if done != nil {
		patience := time.NewTimer(sightPatience)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.done != nil && time.Since(l.at) > sightLasts {
		return sight{} // it hangs
	}
	return l.last
}

// look begins to look at a path, unless somebody does, or just did.
func (s *sights) look(key, path string) (done chan struct{}, l *looking) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]*looking{}
	}
	if l = s.seen[key]; l == nil {
		l = &looking{}
		s.seen[key] = l
	}
	if l.done != nil || time.Since(l.at) < sightYoung {
		return l.done, l
	}
	l.done = make(chan struct{})
	go s.see(l, path)
	return l.done, l
}

func (s *sights) see(l *looking, path string) {
	var now sight
	var st unix.Statfs_t
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		now.there = true
		if unix.Statfs(path, &st) == nil {
			now.total, now.free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.last, l.at = now, time.Now()
	close(l.done)
	l.done = nil
}
