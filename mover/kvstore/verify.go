package kvstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"

	"datamove.dev/mover"
)

// Verify reads every table that the list of a store names, before Badger does: it
// would read them by a mapping and on many goroutines, where damage ends the process. o is what the store is opened with.
func Verify(o badger.Options) error {
	f, err := os.Open(filepath.Join(o.Dir, badger.ManifestFilename))
	if errors.Is(err, mover.ErrNotExist) {
		return nil // the store is new
	}
	if err != nil {
		return err
	}
	defer f.Close()
	list, _, err := badger.ReplayManifestFile(f, 0, o)
	if err != nil {
		return fmt.Errorf("%w: the list of tables: %w", mover.ErrCorrupt, err)
	}
	var buf []byte
	for id := range list.Tables {
		if buf, err = verifyTable(o, id, buf[:0]); err != nil {
			return fmt.Errorf("table %d: %w", id, Damage(err))
		}
	}
	return nil
}

// verifyTable compares the checksums of one table. The buffer is for the next.
func verifyTable(o badger.Options, id uint64, buf []byte) (_ []byte, err error) {
	defer Caught(&err)
	f, err := os.Open(table.NewFilename(id, o.Dir))
	if err != nil {
		return buf, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return buf, err
	}
	if int64(cap(buf)) < st.Size() {
		buf = make([]byte, st.Size())
	}
	buf = buf[:st.Size()]
	if _, err := io.ReadFull(f, buf); err != nil {
		return buf, err
	}
	t, err := table.OpenInMemoryTable(buf, id, &table.Options{ChkMode: options.OnTableRead, Compression: o.Compression, BlockSize: o.BlockSize})
	if err != nil {
		return buf, err
	}
	return buf, t.VerifyChecksum()
}
