package coordinator

import (
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
)

// reads says whether a task copies a dataset: what it reads has to be what the manifest
// says. A staging compares the digest at its end, and each file if other nodes supply the data: see compares.
func reads(t *pb.Task) bool {
	kind := task.Of(t.GetSpec())
	return t.GetDataset() != "" && kind.Brings() && kind.UserPaths
}

// compares says whether a task compares each file with the manifest. It does when it copies the dataset to a user's path, and when it
// is in a swarm. Wrong data of another node is then read from the source instead. mu is held.
func (s *datasetServer) compares(t *pb.Task) bool {
	for _, x := range s.c.scheduler.swarms {
		if _, member := x.stagers[t.GetId()]; member {
			return true
		}
	}
	return reads(t)
}

// ReadManifest implements agentv1.LinkServiceServer. The task holds a replica of the
// dataset, so its manifest stays.
func (s *datasetServer) ReadManifest(r *agentv1.ReadManifestRequest, stream grpc.ServerStreamingServer[agentv1.ReadManifestResponse]) error {
	s.c.scheduler.mu.Lock()
	l, err := s.c.agents.held(stream.Context(), r.GetTask(), r.GetEpoch())
	var digest string
	if err == nil && task.Of(l.task.GetSpec()).Brings() {
		_, digest, _ = strings.Cut(l.task.GetDataset(), "@")
	}
	s.c.scheduler.mu.Unlock()
	if err != nil {
		return err
	}
	if !validDigest(digest) {
		return mover.Usagef("task %s reads no dataset", r.GetTask())
	}
	f, err := os.Open(s.manifestFile(digest))
	if err != nil {
		return fmt.Errorf("the manifest of %s: %w", l.task.GetDataset(), err)
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
