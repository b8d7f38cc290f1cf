package hints

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// clusterAge is how old what is known of targets may be.
const clusterAge = time.Minute

// cluster is what advice depends on, as it was asked last.
type cluster struct {
	clusterMu sync.Mutex
	asked     time.Time      // guarded by clusterMu, as all below
	now       lustre.Cluster // the zero Cluster where it can not be asked
}

// seen is the cluster; its slices are never changed.
func (a *answers) seen() lustre.Cluster {
	a.clusterMu.Lock()
	defer a.clusterMu.Unlock()
	if time.Since(a.asked) > clusterAge {
		now, err := a.s.Layout.Cluster(context.Background(), a.root)
		if err != nil {
			a.note("%s: what its targets are is not known, so files get few stripes: %v", a.s.Mount, err)
		}
		a.now, a.asked = now, time.Now()
	}
	return a.now
}

// advice is what suits a file of that size, of which nothing else is known. A mover
// writes it once; who reads it may be many.
func (a *answers) advice(size int64) lustre.Advice {
	return lustre.Advise(lustre.Request{Bytes: size, Use: lustre.Dataset}, a.seen())
}

// usual is the layout of files in a directory without one of its own.
func (a *answers) usual() *lustre.Layout {
	c := a.seen()
	return &c.Default
}

// wideDefault says whether even a small file would have several stripes.
func (a *answers) wideDefault() bool { return stripesOf(a.usual(), 1) != 1 }

// defaultsMost bounds the directories that are remembered.
const defaultsMost = 4096

// defaults are directories, and whether they have a layout of their own.
type defaults struct {
	defaultsMu sync.Mutex
	own        map[[2]uint64]bool // by device and inode; guarded by defaultsMu
}

// defaultOf says whether a directory has a layout of its own; known is false where that
// can not be told.
func (a *answers) defaultOf(dir int) (own, known bool) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return false, false
	}
	key := [2]uint64{st.Dev, st.Ino}
	a.defaultsMu.Lock()
	own, known = a.own[key]
	a.defaultsMu.Unlock()
	if known {
		return own, true
	}
	_, err := a.s.Layout.Layout(context.Background(), dir)
	if err != nil && !errors.Is(err, lustre.ErrInherited) {
		return false, false
	}
	a.defaultsMu.Lock()
	defer a.defaultsMu.Unlock()
	if a.own == nil || len(a.own) >= defaultsMost {
		a.own = map[[2]uint64]bool{}
	}
	a.own[key] = err == nil
	return err == nil, true
}
