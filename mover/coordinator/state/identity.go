package state

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/kvstore"
)

// format is of everything in the directory. A later one is refused, not guessed at.
const format = 1

// states of an identity.
const (
	stateNew       = "new"       // being made: no caller was told anything
	stateReady     = "ready"     // there is a ledger
	stateRestoring = "restoring" // a restore has begun and not ended
)

// identity is the file that says that a directory is a ledger, and which. Without
// it, or with it and without a store, no new ledger is made: data was lost.
type identity struct {
	Format int    `json:"format"`
	Ledger string `json:"ledger"`
	State  string `json:"state"`
	// Store is the directory of the store, "" for "store": Replace gives a ledger another one.
	Store string `json:"store,omitempty"`
	// Member says that the ledger is one of a cluster: changes of it alone would be lost, or make it another one.
	Member bool `json:"member,omitempty"`
}

// firstStore is the store of a ledger that has never replaced it.
const firstStore = "store"

func (id *identity) storeDir(dir string) string {
	return filepath.Join(dir, cmp.Or(id.Store, firstStore))
}

func identityPath(dir string) string      { return filepath.Join(dir, "ledger") }
func temporaryIdentity(dir string) string { return identityPath(dir) + ".new" }

// readIdentity returns nil where there is none.
func readIdentity(dir string) (*identity, error) {
	text, err := os.ReadFile(identityPath(dir))
	if errors.Is(err, mover.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var id identity
	if err := json.Unmarshal(text, &id); err != nil || id.Ledger == "" {
		return nil, fmt.Errorf("%w: the file %q is not what it was", mover.ErrCorrupt, identityPath(dir))
	}
	if id.Format != format {
		return nil, fmt.Errorf("%w: format %d, where this version knows %d", mover.ErrUnsupported, id.Format, format)
	}
	return &id, nil
}

// write replaces the file, durably.
func (id *identity) write(dir string) error {
	text, err := json.Marshal(id)
	if err != nil {
		return err
	}
	return atomicfile.Write(identityPath(dir), append(text, '\n'), atomicfile.Options{Draft: filepath.Base(temporaryIdentity(dir))})
}

// The file "synced" has the number of the last record that is known to be on stable
// storage. It is written after that and not synced itself, so it never says too much;
// a store that has less has lost something.
func syncedPath(dir string) string { return filepath.Join(dir, "synced") }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func writeSynced(f *os.File, sequence uint64) error {
	b := number(sequence)
	_, err := f.WriteAt(binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), 0)
	return err
}

// readSynced returns 0 where nothing is known: after a power cut the file may be torn.
func readSynced(dir string) (uint64, error) {
	b, err := os.ReadFile(syncedPath(dir))
	if errors.Is(err, mover.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if len(b) != 12 || crc32.Checksum(b[:8], castagnoli) != binary.BigEndian.Uint32(b[8:]) {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b), nil
}

// vacant says whether a directory has nothing in it, but for what a kill leaves
// before there is an identity.
func vacant(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name()); e.Name() != kvstore.LockName && path != temporaryIdentity(dir) {
			return false, nil
		}
	}
	return true, nil
}
