package catalogserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/query"
)

var errNoCatalog = fmt.Errorf("%w: this service keeps no catalog", mover.ErrUnsupported)

// task.AskedBy is the label of a scan that a caller asked for. The task belongs to the service, because it reads the files of all owners.

// ScanTier implements pb.CatalogServiceServer.
func (s *Server) ScanTier(ctx context.Context, r *pb.ScanTierRequest) (*pb.ScanTierResponse, error) {
	t, known := s.conf().Tiers[r.GetTier()]
	switch {
	case s.o.Catalog == nil:
		return nil, errNoCatalog
	case !known:
		return nil, placement.NoTier("scan", r.GetTier(), s.conf())
	}
	nodes := []string{r.GetNode()}
	if t.NodeLocal && r.GetNode() == "" {
		if nodes = s.c.Reaching(r.GetTier()); len(nodes) == 0 {
			return nil, &mover.Error{Op: "scan", Location: "tier " + r.GetTier(), Err: mover.Because(mover.ErrUnreachable, "no agent that has it is there; name a node to have it scanned when its agent comes")}
		}
	}
	out := &pb.ScanTierResponse{}
	for _, node := range nodes {
		t, err := s.treeTask(ctx, scans, r.GetTier(), node, authz.From(ctx).Name)
		if err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, t)
	}
	return out, nil
}

// treeTask has a tree scanned, or followed, by a task that there is already or by a new one.
func (s *Server) treeTask(ctx context.Context, kind pb.TaskKind, tier, node, by string) (*pb.Task, error) {
	spec := &pb.TaskSpec{Kind: kind, Source: tier + ":", Node: node}
	if by != "" {
		spec.Labels = map[string]string{task.AskedBy: by}
	}
	return s.treeTaskFor(ctx, spec)
}

func (s *Server) treeTaskFor(ctx context.Context, spec *pb.TaskSpec) (*pb.Task, error) {
	spec.Class = task.ClassOf(spec)
	var t *pb.Task
	fresh := false
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) (err error) {
		if t, err = s.treeTaskOf(tx, spec); err != nil || t != nil {
			return err
		}
		t, fresh = s.c.NewTask(spec), true
		return state.Tasks.Put(tx, t)
	})
	if err != nil {
		return nil, err
	}
	if fresh {
		s.c.Submitted(ctx, t)
	}
	return t, nil
}

// treeTaskOf is the task of a kind for a tree that has not ended; nil when there is none.
func (s *Server) treeTaskOf(tx *state.Tx, spec *pb.TaskSpec) (*pb.Task, error) {
	for t, err := range state.FindTasks(tx, s.c.OwnTasks()) {
		if err != nil {
			return nil, err
		}
		if have := t.GetSpec(); have.GetKind() == spec.GetKind() && have.GetSource() == spec.GetSource() && have.GetNode() == spec.GetNode() &&
			(have.GetScanPart() == nil) == (spec.GetScanPart() == nil) {
			return t, nil
		}
	}
	return nil, nil
}

// treeOf is what a task scans.
func (s *Server) treeOf(spec *pb.TaskSpec) (catalog.Tree, error) {
	l, err := location.Parse(spec.GetSource())
	if err != nil {
		return catalog.Tree{}, err
	}
	tree := catalog.Tree{Tier: l.Tier}
	t, known := s.conf().Tiers[l.Tier]
	if !known {
		return tree, placement.NoTier("scan", l.Tier, s.conf())
	}
	if t.NodeLocal {
		tree.Node = spec.GetNode()
	}
	return tree, nil
}

// PutWalk implements agentv1.LinkServiceServer.
func (s *Server) PutWalk(stream grpc.ClientStreamingServer[agentv1.PutWalkRequest, agentv1.PutWalkResponse]) error {
	if s.o.Catalog == nil {
		return errNoCatalog
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	tree, part, done, err := s.walks(stream.Context(), scans, first.GetTask(), first.GetEpoch())
	if err != nil {
		return err
	}
	defer done()
	in := &walking{s: s, stream: stream, task: first.GetTask(), epoch: first.GetEpoch(), rest: first.GetData()}
	found, err := s.o.Catalog.Scan(stream.Context(), tree, catalog.Receive(in), catalog.ScanOptions{Now: s.now(), Part: int(part.GetEntries()), From: string(part.GetAfter())})
	if err != nil {
		return err
	}
	return stream.SendAndClose(&agentv1.PutWalkResponse{Files: found.Files, Dirs: found.Dirs, Others: found.Others, Bytes: found.Bytes, Unread: found.Unread})
}

// walks says what a lead scans, or follows. done has to be called at the end: a lead has one such conversation at a time.
func (s *Server) walks(ctx context.Context, kind pb.TaskKind, id string, epoch uint64) (tree catalog.Tree, part *pb.ScanPart, done func(), err error) {
	t, done, err := s.c.Sends(ctx, id, epoch)
	if err != nil {
		return tree, nil, nil, err
	}
	if t.GetSpec().GetKind() != kind {
		done()
		return tree, nil, nil, mover.Usagef("task %s is none of the kind %v", id, kind)
	}
	if tree, err = s.treeOf(t.GetSpec()); err != nil {
		done()
		return tree, nil, nil, err
	}
	return tree, t.GetSpec().GetScanPart(), done, nil
}

// walking reads what a lead sends, as long as it is one.
type walking struct {
	s      *Server
	stream grpc.ClientStreamingServer[agentv1.PutWalkRequest, agentv1.PutWalkResponse]
	task   string
	epoch  uint64
	rest   []byte
}

func (w *walking) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		m, err := w.stream.Recv()
		if err != nil {
			return 0, err
		}
		if err := w.lead(); err != nil {
			return 0, err
		}
		w.rest = m.GetData()
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

func (w *walking) lead() error { return w.s.isLead(w.stream.Context(), w.task, w.epoch) }

// isLead says why an agent is not the lead of a task any more.
func (s *Server) isLead(ctx context.Context, id string, epoch uint64) error {
	_, err := s.c.Assigned(ctx, id, epoch)
	return err
}

// scanned says why a scan that its lead calls done is not: the catalog alone knows what came.
func (s *Server) scanned(t *pb.Task) error {
	tree, err := s.treeOf(t.GetSpec())
	if err != nil {
		return err
	}
	if s.o.Catalog == nil {
		return errNoCatalog
	}
	state, err := s.o.Catalog.State(tree)
	at := state.Scanned
	if t.GetSpec().GetScanPart() != nil {
		at = state.Parted
	}
	if err == nil && at.Before(t.GetStartTime().AsTime()) {
		err = &mover.Error{Op: "scan", Location: t.GetSpec().GetSource(), Err: fmt.Errorf("%w: its lead has sent no walk to the end", mover.ErrTransient)}
	}
	return err
}

// ListScans implements pb.CatalogServiceServer.
func (s *Server) ListScans(ctx context.Context, r *pb.ListScansRequest) (*pb.ListScansResponse, error) {
	if s.o.Catalog == nil {
		return nil, errNoCatalog
	}
	if _, known := s.conf().Tiers[r.GetTier()]; r.GetTier() != "" && !known {
		return nil, placement.NoTier("list", r.GetTier(), s.conf())
	}
	out := &pb.ListScansResponse{}
	if r.GetLocation() != "" {
		tree, _, err := s.catalogued(authz.From(ctx), &pb.Question{Location: r.GetLocation(), Node: r.GetNode()})
		if err != nil {
			return nil, err
		}
		state, err := s.o.Catalog.State(tree)
		line := query.ScanOf(&state)
		line.Following = s.followingOf(tree)
		out.Scans = []*pb.Scan{line}
		return out, err
	}
	states, err := s.o.Catalog.Trees()
	if err != nil {
		return nil, err
	}
	for i := range states {
		if r.GetTier() != "" && states[i].Tree.Tier != r.GetTier() {
			continue
		}
		line := query.ScanOf(&states[i])
		line.Following = s.followingOf(states[i].Tree)
		if s.seesAll(authz.From(ctx)) {
			for _, name := range states[i].Unread {
				line.UnreadNames = append(line.UnreadNames, []byte(name))
			}
		}
		out.Scans = append(out.Scans, line)
	}
	return out, nil
}

// ForgetTrees forgets what is catalogued of tiers that are in the configuration no more.
func (s *Server) ForgetTrees(ctx context.Context) error {
	if s.o.Catalog == nil {
		return nil
	}
	states, err := s.o.Catalog.Trees()
	for _, state := range states {
		if _, known := s.conf().Tiers[state.Tree.Tier]; !known || s.nowhere(state.Tree.Node) {
			err = errors.Join(err, s.o.Catalog.Forget(ctx, state.Tree))
		}
	}
	return err
}

// nowhere says whether a node is none that this service knows.
func (s *Server) nowhere(node string) bool {
	if node == "" {
		return false
	}
	err := s.ledger.View(func(tx *state.Tx) error {
		_, err := state.Agents.Get(tx, node)
		return err
	})
	return errors.Is(err, mover.ErrNotExist)
}

// reached are the trees of a tier: of a node-local one those of the agents that are there, else the one tree.
func (s *Server) reached(tier string) (trees []catalog.Tree) {
	if !s.conf().Tiers[tier].NodeLocal {
		return []catalog.Tree{{Tier: tier}}
	}
	for _, node := range s.c.Reaching(tier) {
		trees = append(trees, catalog.Tree{Tier: tier, Node: node})
	}
	return trees
}

// scanRest is how long it is at least between two scans that are asked for by the configuration: one may fail.
const scanRest = 10 * time.Minute

// KeepScanned has tiers scanned of which the catalog is older than the configuration lets it be.
func (s *Server) KeepScanned(ctx context.Context) error {
	if s.o.Catalog == nil {
		return nil
	}
	now := s.now()
	for name, t := range s.conf().Tiers {
		if t.Scan == 0 {
			continue
		}
		for _, tree := range s.reached(name) {
			state, err := s.o.Catalog.State(tree)
			if err != nil {
				return err
			}
			if now.Sub(state.Scanned) < t.Scan || now.Sub(s.scanAsked[tree]) < min(t.Scan, scanRest) {
				continue
			}
			if s.scanAsked == nil {
				s.scanAsked = map[catalog.Tree]time.Time{}
			}
			s.scanAsked[tree] = now
			if _, err := s.treeTask(ctx, scans, name, tree.Node, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// A part of a tree is verified at most each partMost, and has at least partLeast entries.
const (
	partMost  = time.Hour
	partLeast = 10_000
)

// KeepVerified has trees scanned part after part, so that all of each is looked at once in the time that the configuration says.
func (s *Server) KeepVerified(ctx context.Context) error {
	if s.o.Catalog == nil {
		return nil
	}
	now := s.now()
	for name, t := range s.conf().Tiers {
		if t.Verify == 0 {
			continue
		}
		every := max(min(partMost, t.Verify/24), time.Minute)
		for _, tree := range s.reached(name) {
			state, err := s.o.Catalog.State(tree)
			if err != nil {
				return err
			}
			fresh := state.Rolled == "" && now.Sub(state.Verified) < t.Verify
			if fresh || state.Scanned.IsZero() || now.Sub(state.Parted) < every || now.Sub(s.partAsked[tree]) < every {
				continue
			}
			if s.partAsked == nil {
				s.partAsked = map[catalog.Tree]time.Time{}
			}
			s.partAsked[tree] = now
			all := float64(state.Scan.Files + state.Scan.Dirs + state.Scan.Others)
			part := &pb.ScanPart{After: []byte(state.Rolled), Entries: partLeast + int64(1.2*all*float64(every)/float64(t.Verify))} // a fifth more, because some are late
			if _, err := s.treeTaskFor(ctx, &pb.TaskSpec{Kind: scans, Source: name + ":", Node: tree.Node, ScanPart: part}); err != nil {
				return err
			}
		}
	}
	return nil
}
