package consensus

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/coordinator/consensus/raftlog"
	"datamove.dev/mover/coordinator/state"
)

// snapshotsKept is how many snapshots stay: the one that members are given, and the one before, should that be damaged.
const snapshotsKept = 2

// stores are what Raft keeps on a disk.
type stores struct {
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	close     func() error
}

func (o Options) stores(dir string) (*stores, error) {
	if o.open != nil {
		return o.open(dir)
	}
	return openFiles(dir)
}

// openFiles opens the files in a directory. The lock of the ledger is theirs, too.
func openFiles(dir string) (*stores, error) {
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o700); err != nil {
		return nil, err
	}
	half, err := filepath.Glob(filepath.Join(dir, "snapshots", "*.tmp")) // a kill left them
	if err != nil {
		return nil, err
	}
	for _, path := range half {
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, snapshotsKept, hclog.NewNullLogger())
	if err != nil {
		return nil, err
	}
	logs, err := raftlog.Open(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	stable, err := raftlog.OpenStable(filepath.Join(dir, "log"))
	if err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	s := &stores{logs, stable, snapshots, sync.OnceValue(func() error { return errors.Join(logs.Close(), stable.Close()) })}
	if err := errors.Join(atomicfile.SyncDir(dir), atomicfile.SyncDir(filepath.Dir(dir))); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// newest is the newest snapshot, nil for none.
func (s *stores) newest() (*raft.SnapshotMeta, error) {
	all, err := s.snapshots.List()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// sequence reads which record of the ledger a snapshot ends with.
func (s *stores) sequence(id string) (uint64, error) {
	_, r, err := s.snapshots.Open(id)
	if err != nil {
		return 0, err
	}
	_, sequence, err := state.BackupOf(r)
	return sequence, errors.Join(err, r.Close())
}
