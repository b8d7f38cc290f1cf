package coordinator

import (
	"bufio"
	"context"
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
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/manifest"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

const (
	manifestMost  = 64 << 30  // bytes of one, as it is stored: some billions of entries
	manifestRoom  = 256 << 20 // bytes that are left to the ledger, which is on the same disk
	roomEvery     = 8 << 20   // bytes between two looks at what is left
	manifestTemp  = "coming-" // begins the names of those that are not whole
	manifestYoung = time.Hour // how long one that no version needs may be about to be needed
)

// manifestFile is where a manifest lies: under what it says.
func (s *datasetServer) manifestFile(digest string) string {
	return filepath.Join(s.manifests(), digest)
}

func validDigest(d string) bool { return len(d) == 64 && strings.Trim(d, "0123456789abcdef") == "" }

// PutManifest implements agentv1.LinkServiceServer. One that makes a version is stored
// under its digest before it is answered; of others only the digest counts.
func (s *datasetServer) PutManifest(stream grpc.ClientStreamingServer[agentv1.PutManifestRequest, agentv1.PutManifestResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	of, done, err := s.expects(stream.Context(), first)
	if err != nil {
		return err
	}
	defer done()
	in := &arriving{stream: stream, rest: first.GetData(), total: int64(len(first.GetData()))}
	var p manifestResult
	if of == "" {
		p, err = s.shelve(in)
	} else {
		p, err = s.replica(in, of)
	}
	if err != nil {
		return err
	}
	t, err := s.believe(stream.Context(), first, p)
	if err == nil {
		err = sameStill(t, p)
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(&agentv1.PutManifestResponse{Digest: p.digest})
}

// expects returns the digest that the manifest of a lead must have; "" accepts a new version and keeps its manifest. done has to be called at
// the end: a lead sends one manifest at a time.
func (s *datasetServer) expects(ctx context.Context, r *agentv1.PutManifestRequest) (digest string, done func(), err error) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	l, err := s.c.agents.held(ctx, r.GetTask(), r.GetEpoch())
	switch {
	case err != nil:
		return "", nil, err
	case !s.c.kindOf(l.task.GetSpec()).Proves(l.task.GetSpec()):
		return "", nil, mover.Usagef("task %s needs no manifest", r.GetTask())
	case l.sending:
		return "", nil, fmt.Errorf("%w: task %s is sending a manifest already", mover.ErrTransient, r.GetTask())
	}
	if !task.Of(l.task.GetSpec()).NoTarget {
		if _, digest, _ = strings.Cut(l.task.GetDataset(), "@"); !validDigest(digest) {
			return "", nil, fmt.Errorf("%w: task %s is of no version of a dataset", mover.ErrConflict, r.GetTask())
		}
	}
	l.sending = true
	return digest, func() {
		s.c.scheduler.mu.Lock()
		defer s.c.scheduler.mu.Unlock()
		l.sending = false
	}, nil
}

// believe remembers what a lead has read, if it is the lead still.
func (s *datasetServer) believe(ctx context.Context, r *agentv1.PutManifestRequest, p manifestResult) (*pb.Task, error) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	l, err := s.c.agents.held(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	l.proof = p
	return copyOf(l.task), nil
}

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
func (s *datasetServer) shelve(in io.Reader) (p manifestResult, err error) {
	f, err := atomicfile.Create(s.manifestFile("unnamed"), atomicfile.Options{Draft: manifestTemp + "*"})
	if err != nil {
		return p, mover.OfFullDisk(err)
	}
	defer f.Close()
	out := bufio.NewWriterSize(&roomy{f: f.File}, 256<<10)
	if p.digest, p.entries, p.bytes, err = manifest.Digest(io.TeeReader(in, out)); err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.PublishAs(filepath.Base(s.manifestFile(p.digest)))
	}
	return p, mover.OfFullDisk(err)
}

// replica is what a manifest says of a replica of a version.
func (s *datasetServer) replica(in io.Reader, of string) (p manifestResult, err error) {
	f, err := os.Open(s.manifestFile(of))
	if errors.Is(err, mover.ErrNotExist) {
		return p, fmt.Errorf("%w: the manifest %s is not there any more; add the dataset again", mover.ErrNotExist, of)
	}
	if err != nil {
		return p, err
	}
	defer f.Close()
	p.digest, p.entries, p.bytes, err = manifest.DigestAs(in, f)
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
			return 0, &mover.Error{Op: "write", Place: r.f.Name(), Err: mover.ErrFull}
		}
	}
	return r.f.Write(p)
}

// GetManifest implements pb.DatasetServiceServer.
func (s *datasetServer) GetManifest(r *pb.GetManifestRequest, stream grpc.ServerStreamingServer[pb.ManifestChunk]) error {
	digest := ""
	err := s.ledger.View(func(tx *state.Tx) error {
		d, err := s.ownDataset(tx, authz.From(stream.Context()), pb.DatasetService_GetManifest_FullMethodName, r.GetName())
		if err != nil {
			return err
		}
		v, err := findVersion(tx, "read", d.GetName(), r.GetDigest())
		digest = v.GetVersion().GetDigest()
		return err
	})
	if err != nil {
		return err
	}
	f, err := os.Open(s.manifestFile(digest))
	if err != nil {
		return err
	}
	defer f.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := f.Read(buffer)
		if n > 0 {
			if err := stream.Send(&pb.ManifestChunk{Data: buffer[:n]}); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// dropManifests removes of some manifests those that no version needs, and no lead.
// While one is just coming in, all are left to the sweep.
func (s *datasetServer) dropManifests(digests map[string]bool) error {
	if err := s.unneeded(digests); err != nil || len(digests) == 0 {
		return err
	}
	s.c.scheduler.mu.Lock() // from here on no lead begins to send, or ends: see expects, believe and close
	defer s.c.scheduler.mu.Unlock()
	for _, l := range s.c.scheduler.leads {
		delete(digests, l.proof.digest)
		if l.sending {
			return nil
		}
	}
	err := s.unneeded(digests) // a version that was made since
	for digest := range digests {
		if err != nil {
			return err
		}
		if err = os.Remove(s.manifestFile(digest)); errors.Is(err, mover.ErrNotExist) {
			err = nil
		}
	}
	return err
}

// unneeded leaves of some digests those of which there is no version.
func (s *datasetServer) unneeded(digests map[string]bool) error {
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

// sweepManifests removes manifests that were left behind: by a crash, or by a task that
// ended otherwise.
func (s *datasetServer) sweepManifests(older time.Time) error {
	entries, err := os.ReadDir(s.manifests())
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
	return s.dropManifests(left)
}

// sweepTemporary removes what was coming in when the last run ended.
func (s *datasetServer) sweepTemporary() error {
	names, err := filepath.Glob(filepath.Join(s.manifests(), manifestTemp+"*"))
	for _, name := range names {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}
