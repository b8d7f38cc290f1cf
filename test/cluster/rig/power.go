package rig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/dgraph-io/badger/v4"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/coordinator/state"
)

// disk is that of a ledger. It takes its time to sync, and where its power may be cut it knows what it had when it was synced last.
type disk struct {
	cluster *Cluster
	cuts    bool
	dir     string
	image   string // beside all that a crash keeps

	mu  sync.Mutex // held while a record is written, and while an image is made
	err error      // of an image; guarded by mu
}

// log is state.Options.Log.
func (p *disk) log(own state.Log) state.Log { return &syncedLog{own, p} }

type syncedLog struct {
	state.Log
	p *disk
}

func (l *syncedLog) Append(ctx context.Context, r *ledgerv1.Record) error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	return l.Log.Append(ctx, r)
}

func (l *syncedLog) Sync(ctx context.Context) error {
	if l.p.cuts {
		l.p.mu.Lock()
		l.p.err = errors.Join(l.p.err, l.p.take())
		l.p.mu.Unlock()
	}
	if w := l.p.cluster.weather.Load(); w != nil {
		takes, _ := (*w).Call("", 0, "store")
		time.Sleep(takes)
	}
	return l.Log.Sync(ctx)
}

// take makes the image. A store merges its tables meanwhile: an image is of one moment when the list of them was not written to.
func (p *disk) take() error {
	for {
		before := p.tables()
		err := errors.Join(os.RemoveAll(p.image), imageOf(p.dir, p.image))
		if after := p.tables(); bytes.Equal(before, after) {
			return err
		}
	}
}

// tables is the list of the tables of the store.
func (p *disk) tables() []byte {
	text, _ := os.ReadFile(filepath.Join(p.dir, "store", badger.ManifestFilename)) // none yet
	return text
}

// last is an image of what is on stable storage now, and stays it. There is one since the ledger was opened.
func (p *disk) last() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.image + ".last"
	return last, errors.Join(p.err, os.Rename(p.image, last))
}

// pageBytes is what a kernel writes back at once.
const pageBytes = 4 << 10

// tear takes some of the pages of the logs below a directory over to its image, where the log was already. All other files of a store are synced before another one names them.
func tear(dir, image string, dice *rand.Rand) error {
	return filepath.WalkDir(image, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !slices.Contains([]string{".mem", ".vlog"}, filepath.Ext(path)) {
			return err
		}
		rel, err := filepath.Rel(image, path)
		if err != nil {
			return err
		}
		now, err := os.Open(filepath.Join(dir, rel))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a store merged it
		}
		if err != nil {
			return err
		}
		defer now.Close()
		was, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer was.Close()
		return eachExtent(now, func(begin, end int64) error {
			for at := begin; at < end; at += pageBytes {
				if err := tearPage(now, was, at, dice); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// tearPage takes a page over, or not.
func tearPage(from, to *os.File, at int64, dice *rand.Rand) error {
	var now, was [pageBytes]byte
	n, err := from.ReadAt(now[:], at)
	if err != nil && err != io.EOF {
		return err
	}
	if _, err := to.ReadAt(was[:n], at); err != nil && err != io.EOF {
		return err
	}
	if now == was || dice.IntN(2) == 0 {
		return nil
	}
	_, err = to.WriteAt(now[:n], at)
	return err
}

// PowerCut is Crash with a power cut of the coordinator's machine: of its ledger there is what was synced, and some pages of what was not.
func (c *Cluster) PowerCut(dice *rand.Rand) {
	c.t.Helper()
	synctest.Wait()
	image, err := c.disk.last()
	c.Crash()
	if err := errors.Join(err, tear(c.disk.dir, image, dice), restore(c.disk.dir, image)); err != nil {
		c.t.Fatal(err)
	}
}
