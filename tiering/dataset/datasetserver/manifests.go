package datasetserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/manifest"
)

// ManifestYoung is how long a manifest that no version needs may be about to be needed.
const ManifestYoung = time.Hour

// manifestStore has the manifests of versions, as files.
type manifestStore struct {
	*core
	dir string // where they lie, by digest
}

const (
	manifestMost = 64 << 30  // bytes of one, as it is stored: some billions of entries
	manifestRoom = 256 << 20 // bytes that are left to the ledger, which is on the same disk
	roomEvery    = 8 << 20   // bytes between two looks at what is left
	manifestTemp = "coming-" // begins the names of those that are not whole
)

// file is where a manifest lies: under what it says.
func (s *manifestStore) file(digest string) string {
	return filepath.Join(s.dir, digest)
}

func validDigest(d string) bool { return len(d) == 64 && strings.Trim(d, "0123456789abcdef") == "" }

// arriving reads what a lead sends.
type arriving struct {
	stream grpc.ClientStreamingServer[agentv1.PutManifestRequest, agentv1.PutManifestResponse]
	rest   []byte
	total  int64
}

func (a *arriving) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		m, err := a.stream.Recv()
		if err != nil {
			return 0, err
		}
		a.rest = m.GetData()
		if a.total += int64(len(a.rest)); a.total > manifestMost {
			return 0, mover.Usagef("a manifest of more than %d bytes; make several datasets of it", int64(manifestMost))
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// shelve stores a manifest. It is on stable storage when it has its name.
func (s *manifestStore) shelve(in io.Reader) (p taskkind.Result, err error) {
	f, err := atomicfile.Create(s.file("unnamed"), atomicfile.Options{Draft: manifestTemp + "*"})
	if err != nil {
		return p, mover.OfFullDisk(err)
	}
	defer f.Close()
	out := bufio.NewWriterSize(&roomy{f: f.File}, 256<<10)
	if p.Digest, p.Entries, p.Bytes, err = manifest.Digest(io.TeeReader(in, out)); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.PublishAs(filepath.Base(s.file(p.Digest)))
	}
	return p, mover.OfFullDisk(err)
}

// replica is what a manifest says of a replica of a version.
func (s *manifestStore) replica(in io.Reader, of string) (p taskkind.Result, err error) {
	f, err := os.Open(s.file(of))
	if errors.Is(err, mover.ErrNotExist) {
		return p, fmt.Errorf("%w: the manifest %s is not there any more; add the dataset again", mover.ErrNotExist, of)
	}
	if err != nil {
		return p, err
	}
	defer f.Close()
	p.Digest, p.Entries, p.Bytes, err = manifest.DigestAs(in, f)
	return p, err
}

// roomy writes to a file as long as the disk has room for the ledger beside it.
type roomy struct {
	f    *os.File
	left int // bytes until the next look
}

func (r *roomy) Write(p []byte) (int, error) {
	if r.left -= len(p); r.left < 0 {
		r.left = roomEvery
		var st unix.Statfs_t
		if unix.Fstatfs(int(r.f.Fd()), &st) == nil && int64(st.Bavail)*st.Bsize < min(manifestRoom, int64(st.Blocks)*st.Bsize/16) {
			return 0, &mover.Error{Op: "write", Location: r.f.Name(), Err: mover.ErrFull}
		}
	}
	return r.f.Write(p)
}

// unneeded leaves of some digests those of which there is no version.
func (s *manifestStore) unneeded(digests map[string]bool) error {
	return s.ledger.View(func(tx *state.Tx) error {
		for v, err := range state.Versions.All(tx, state.Range{}) {
			if err != nil || len(digests) == 0 {
				return err
			}
			delete(digests, v.GetVersion().GetDigest())
		}
		return nil
	})
}

// sweep removes manifests that were left behind: by a crash, or by a task that
// ended otherwise.
func (s *manifestStore) sweep(older time.Time) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && info.ModTime().Before(older) && validDigest(e.Name()) {
			left[e.Name()] = true
		}
	}
	return s.drop(left)
}

// sweepTemporary removes what was coming in when the last run ended.
func (s *manifestStore) sweepTemporary() error {
	names, err := filepath.Glob(filepath.Join(s.dir, manifestTemp+"*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// drop removes of some manifests those that no version needs, and no lead.
// While one is just coming in, all are left to the sweep.
func (s *manifestStore) drop(digests map[string]bool) error {
	if err := s.unneeded(digests); err != nil || len(digests) == 0 {
		return err
	}
	return s.c.WhileNoneSends(func(found []taskkind.Result) error {
		for _, p := range found {
			delete(digests, p.Digest)
		}
		err := s.unneeded(digests) // a version that was made since
		for digest := range digests {
			if err != nil {
				return err
			}
			if err = os.Remove(s.file(digest)); errors.Is(err, mover.ErrNotExist) {
				err = nil
			}
		}
		return err
	})
}

// stored completes the proof of a manifest that has to be on the shelf.
func (s *manifestStore) stored(p taskkind.Result) (taskkind.Result, error) {
	f, err := os.Open(s.file(p.Digest))
	if errors.Is(err, mover.ErrNotExist) {
		return p, fmt.Errorf("%w: the manifest %s is not there; add the dataset again", mover.ErrTransient, mover.Printable(p.Digest))
	}
	if err != nil {
		return p, err
	}
	defer f.Close()
	if p.Entries > 0 { // it came in this run of the service
		return p, nil
	}
	was := p.Digest
	if p.Digest, p.Entries, p.Bytes, err = manifest.Digest(f); err == nil && p.Digest != was {
		err = fmt.Errorf("%w: the manifest %s", mover.ErrCorrupt, was)
	}
	return p, err
}
