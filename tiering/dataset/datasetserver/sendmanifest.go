package datasetserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// PutManifest implements agentv1.LinkServiceServer. One that makes a version is stored
// under its digest before it is answered; of others only the digest counts.
func (s *Server) PutManifest(stream grpc.ClientStreamingServer[agentv1.PutManifestRequest, agentv1.PutManifestResponse]) error {
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
	var p taskkind.Result
	if of == "" {
		p, err = s.manifests.shelve(in)
	} else {
		p, err = s.manifests.replica(in, of)
	}
	if err != nil {
		return err
	}
	t, err := s.c.Proved(stream.Context(), first.GetTask(), first.GetEpoch(), p)
	if err == nil {
		err = sameStill(t, p)
	}
	if err != nil {
		return err
	}
	return stream.SendAndClose(&agentv1.PutManifestResponse{Digest: p.Digest})
}

// expects returns the digest that the manifest of a lead must have; "" accepts a new version and keeps its manifest. done has to be called at
// the end: a lead sends one manifest at a time.
func (s *Server) expects(ctx context.Context, r *agentv1.PutManifestRequest) (digest string, done func(), err error) {
	t, done, err := s.c.Sends(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return "", nil, err
	}
	if kind, ours := s.kinds[t.GetSpec().GetKind()]; !ours || !kind.Proves(t.GetSpec()) {
		done()
		return "", nil, mover.Usagef("task %s needs no manifest", r.GetTask())
	}
	if !task.Of(t.GetSpec()).NoTarget {
		if _, digest, _ = strings.Cut(t.GetDataset(), "@"); !validDigest(digest) {
			done()
			return "", nil, fmt.Errorf("%w: task %s is of no version of a dataset", mover.ErrConflict, r.GetTask())
		}
	}
	return digest, done, nil
}

// ReadManifest implements agentv1.LinkServiceServer. The task holds a replica of the
// dataset, so its manifest stays.
func (s *Server) ReadManifest(r *agentv1.ReadManifestRequest, stream grpc.ServerStreamingServer[agentv1.ReadManifestResponse]) error {
	t, err := s.c.Assigned(stream.Context(), r.GetTask(), r.GetEpoch())
	if err != nil {
		return err
	}
	var digest string
	if task.Of(t.GetSpec()).Brings() {
		_, digest, _ = strings.Cut(t.GetDataset(), "@")
	}
	if !validDigest(digest) {
		return mover.Usagef("task %s reads no dataset", r.GetTask())
	}
	f, err := os.Open(s.manifests.file(digest))
	if err != nil {
		return fmt.Errorf("the manifest of %s: %w", t.GetDataset(), err)
	}
	defer f.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := f.Read(buffer)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = stream.Send(&agentv1.ReadManifestResponse{Data: buffer[:n]})
		}
		if err != nil {
			return err
		}
	}
}

// GetManifest implements pb.DatasetServiceServer.
func (s *Server) GetManifest(r *pb.GetManifestRequest, stream grpc.ServerStreamingServer[pb.ManifestChunk]) error {
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
	f, err := os.Open(s.manifests.file(digest))
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
