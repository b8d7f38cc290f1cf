package agent

import (
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
)

// pathState is what was seen of the path of a tier.
type pathState struct {
	there       bool  // and of the kind of file system that it has to be
	total, free int64 // bytes

	totalFiles, freeFiles int64
	parts                 []*agentv1.RoomPart // of the file system, as they were a moment ago
}

// pathProbes looks at the paths of tiers. A file system without its server blocks a call for
// hours. So a caller waits for a look for sightPatience, and there is one at a time
// for each tier. Else one tier that hangs would make the agent silent, and cost it the
// work on all others.
type pathProbes struct {
	log   *slog.Logger
	parts func(path string) []*agentv1.RoomPart // nil knows of none

	mu   sync.Mutex
	seen map[string]*pathProbe // by tier, path and kind; guarded by mu, as all below
}

type pathProbe struct {
	last pathState
	why  string    // it is not there; "" when it is, or never was
	at   time.Time // when that was seen

	partsAt time.Time // when the parts of its file system were asked for last

	done chan struct{} // closed when the look is over; nil while there is none
}

const (
	probePatience = 50 * time.Millisecond // that a look may take before what was seen last counts
	probeLasts    = 30 * time.Second      // and for how long that counts, of a tier that does not answer
	probeFresh    = 200 * time.Millisecond
	partsEvery    = time.Minute // servers are asked, on some file systems by a program
)

// at returns what is seen of a tier, or was a moment ago.
func (s *pathProbes) at(name string, t config.Tier) pathState {
	done, l := s.start(name, t)
	if done != nil {
		patience := time.NewTimer(probePatience)
		defer patience.Stop()
		select {
		case <-done:
		case <-patience.C:
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.done != nil && time.Since(l.at) > probeLasts {
		return pathState{} // it hangs
	}
	return l.last
}

// start begins to look at a tier, unless a look is under way or has just ended.
func (s *pathProbes) start(name string, t config.Tier) (done chan struct{}, l *pathProbe) {
	key := name + "\x00" + t.Path + "\x00" + t.Kind
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]*pathProbe{}
	}
	if l = s.seen[key]; l == nil {
		l = &pathProbe{}
		s.seen[key] = l
	}
	if l.done != nil || time.Since(l.at) < probeFresh {
		return l.done, l
	}
	l.done = make(chan struct{})
	go s.run(l, name, t)
	return l.done, l
}

// run looks at a tier, and logs once why it is not there: the coordinator gives no work for a tier that is not announced.
func (s *pathProbes) run(l *pathProbe, name string, t config.Tier) {
	now, err := probePath(t)
	why := ""
	if err != nil {
		why = err.Error()
	}
	s.mu.Lock()
	asked := s.parts == nil || !now.there || time.Since(l.partsAt) < partsEvery
	now.parts = l.last.parts
	s.mu.Unlock()
	if !asked {
		now.parts = s.parts(t.Path)
	}
	s.mu.Lock()
	told := why == l.why
	l.last, l.why, l.at = now, why, time.Now()
	if !asked {
		l.partsAt = l.at
	}
	close(l.done)
	l.done = nil
	s.mu.Unlock()
	switch {
	case told:
	case why == "":
		s.log.Info("a tier is here now", "tier", name, "path", t.Path)
	default:
		s.log.Info("a tier is not here", "tier", name, "path", t.Path, "err", err)
	}
}

func probePath(t config.Tier) (pathState, error) {
	info, err := os.Stat(t.Path)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: t.Path, Err: unix.ENOTDIR}
	}
	if err == nil {
		err = backend.Mounted(t)
	}
	if err != nil {
		return pathState{}, err
	}
	now := pathState{there: true}
	var st unix.Statfs_t
	if unix.Statfs(t.Path, &st) == nil {
		now.total, now.free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
		now.totalFiles, now.freeFiles = int64(st.Files), int64(st.Ffree)
	}
	return now, nil
}
