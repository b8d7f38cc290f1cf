package fshints

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

// seen is the cluster; its slices are never changed. One that was known holds where it can
// not be asked again: targets do not come and go by the minute.
func (a *answers) seen() lustre.Cluster {
	a.clusterMu.Lock()
	defer a.clusterMu.Unlock()
	if time.Since(a.asked) > clusterAge {
		now, err := a.s.Layout.Cluster(context.Background(), a.root)
		if err == nil {
			a.now = now
		} else {
			a.note("%s: its targets, or its own layout, can not be asked for: files have the layout of their directory: %v", a.s.Mount, err)
		}
		a.asked = time.Now()
	}
	return a.now
}

// advise is what suits a file of that size, of which nothing else is known. A mover
// writes it once; many clients may read it.
func advise(size int64, c lustre.Cluster) lustre.Advice {
	return lustre.Advise(lustre.Request{Bytes: size, Use: lustre.Dataset}, c)
}

// defaultsMost bounds the directories that are remembered.
const defaultsMost = 4096

// defaults are directories, and whether they have a layout of their own.
type defaults struct {
	defaultsMu sync.Mutex
	own        map[[2]uint64]bool // by device and inode; guarded by defaultsMu
}

// ownDefault says whether a directory has a layout of its own, or may have one: of a
// directory that can not be asked that is not known.
func (a *answers) ownDefault(dir int) bool {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil {
		return true
	}
	key := [2]uint64{st.Dev, st.Ino}
	a.defaultsMu.Lock()
	own, known := a.own[key]
	a.defaultsMu.Unlock()
	if known {
		return own
	}
	err := readable(dir, func(fd int) (err error) { _, err = a.s.Layout.Layout(context.Background(), fd); return err })
	own = !errors.Is(err, lustre.ErrInherited)
	if own && err != nil {
		a.note("%s: which layout a directory has can not be asked for: its files get that: %v", a.s.Mount, err)
	}
	a.defaultsMu.Lock()
	defer a.defaultsMu.Unlock()
	if a.own == nil || len(a.own) >= defaultsMost {
		a.own = map[[2]uint64]bool{}
	}
	a.own[key] = own
	return own
}

// readable opens a directory that the caller may hold without any right to read it (O_PATH): of such a one nothing can be asked.
func readable(dir int, ask func(fd int) error) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ask(fd)
}
