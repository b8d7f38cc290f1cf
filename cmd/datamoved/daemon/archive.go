package daemon

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"datamove.dev/mover"
)

// A backup is a tar file: about.json, trust/authority.pem, manifests/..., sum, and
// ledger, in this order. The sum is a SHA-256 over the names and contents before it; the
// ledger has one of its own.
const (
	aboutEntry  = "about.json"
	sumEntry    = "sum"
	ledgerEntry = "ledger"

	archiveFormat = "datamove.backup/v1"
	maxAbout      = 64 << 10
)

// What goes into a backup beside the ledger.
const (
	authorityFile = "trust/authority.pem"
	manifestsDir  = "manifests"
)

// about is the first entry.
type about struct {
	Format  string    `json:"format"`
	Version string    `json:"version"`
	Node    string    `json:"node"`
	Time    time.Time `json:"time"`
}

// packer writes entries.
type packer struct {
	*tar.Writer
	sum hash.Hash
}

// pack writes a backup. The ledger is taken first, because what it names must be in
// the backup, too, and written last, because only then a restore is done.
func pack(w io.Writer, at paths, books source) error {
	spool, err := os.CreateTemp(at.data, ".ledger-*")
	if err != nil {
		return err
	}
	defer spool.Close()
	defer os.Remove(spool.Name())
	if err := books(spool); err != nil {
		return err
	}
	p := &packer{tar.NewWriter(w), sha256.New()}
	text, err := json.Marshal(about{archiveFormat, buildVersion(), at.node, time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := p.text(aboutEntry, text); err != nil {
		return err
	}
	state, err := os.OpenRoot(at.data)
	if err != nil {
		return err
	}
	defer state.Close()
	if err := errors.Join(p.tree(state, authorityFile), p.tree(state, manifestsDir)); err != nil {
		return err
	}
	if err := p.text(sumEntry, p.sum.Sum(nil)); err != nil {
		return err
	}
	if err := p.file(ledgerEntry, spool); err != nil {
		return err
	}
	return p.Close()
}

func (p *packer) text(name string, text []byte) error {
	return p.entry(name, int64(len(text)), strings.NewReader(string(text)))
}

func (p *packer) entry(name string, size int64, r io.Reader) error {
	if err := p.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, _ = io.WriteString(p.sum, name+"\x00") // a hash takes everything
	n, err := io.Copy(io.MultiWriter(p, p.sum), io.LimitReader(r, size))
	if err == nil && n != size {
		err = fmt.Errorf("%w: %s has %d bytes less than it had", mover.ErrChanged, name, size-n)
	}
	return err
}

func (p *packer) file(name string, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.entry(name, info.Size(), f)
}

// tree packs a file, or all below a folder. What is not there is left out, and so is
// what is being written just now, which the ledger does not name yet.
func (p *packer) tree(state *os.Root, name string) error {
	return fs.WalkDir(state.FS(), name, func(at string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		f, err := state.Open(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		return p.file(at, f)
	})
}

// restorable reports whether an entry of a backup is one of ours. The file may come
// from anywhere.
func restorable(h *tar.Header) bool {
	return h.Typeflag == tar.TypeReg && fs.ValidPath(h.Name) && (h.Name == authorityFile || strings.HasPrefix(h.Name, manifestsDir+"/"))
}
