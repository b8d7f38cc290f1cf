package service

import (
	"slices"
	"sort"
	"strings"
	"sync"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/task"
)

// spots finds replicas by where they are. It may know some that are gone: what it says
// is looked up in the ledger.
type spots struct {
	mu     sync.Mutex
	conf   *config.Config           // with which addresses were made; guarded by mu, as all below
	at     map[string][]*pb.Replica // by address
	sorted []string                 // the addresses
}

func (x *spots) add(r *pb.Replica, c *config.Config) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conf != c {
		return // all are added anew when somebody asks
	}
	x.put(r)
}

func (x *spots) put(r *pb.Replica) {
	where := address(r.GetLocation(), r.GetNode(), x.conf)
	here := x.at[where]
	if slices.ContainsFunc(here, func(other *pb.Replica) bool { return slices.Equal(ledger.ReplicaKey(other), ledger.ReplicaKey(r)) }) {
		return
	}
	if len(here) == 0 {
		i := sort.SearchStrings(x.sorted, where)
		x.sorted = slices.Insert(x.sorted, i, where)
	}
	x.at[where] = append(here, &pb.Replica{Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode(), Location: r.GetLocation()})
}

// fill makes the index of the ledger, unless it is of this configuration already.
func (x *spots) fill(tx *ledger.Tx, c *config.Config) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conf == c {
		return nil
	}
	x.conf, x.at, x.sorted = c, map[string][]*pb.Replica{}, nil
	for r, err := range ledger.Replicas.All(tx, ledger.Range{}) {
		if err != nil {
			x.conf = nil
			return err
		}
		x.put(r)
	}
	return nil
}

// meeting returns what is at an address, above it, or below it.
func (x *spots) meeting(where string) (found []*pb.Replica) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for up := where; ; {
		found = append(found, x.at[up]...)
		i := strings.LastIndexByte(up, '/')
		if i < 0 {
			break
		}
		up = up[:i]
	}
	for i := sort.SearchStrings(x.sorted, where+"/"); i < len(x.sorted) && strings.HasPrefix(x.sorted[i], where+"/"); i++ {
		found = append(found, x.at[x.sorted[i]]...)
	}
	return found
}

// there returns the replicas that the target of a task meets, and its address.
func (s *Service) there(tx *ledger.Tx, t *pb.Task) (found []*pb.Replica, where string, err error) {
	n, err := needOf(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		return nil, "", err
	}
	return s.meeting(tx, t.GetSpec().GetTarget(), n.node)
}

// meeting returns the replicas that are at a location, above it, or below it, and its address.
func (s *Service) meeting(tx *ledger.Tx, at, node string) (found []*pb.Replica, where string, err error) {
	c := s.conf()
	if err := s.spots.fill(tx, c); err != nil {
		return nil, "", err
	}
	where = address(at, node, c)
	for _, x := range s.spots.meeting(where) {
		r, err := getReplica(tx, x)
		if ignoreGone(err) != nil {
			return nil, "", err
		}
		if err == nil && r.GetLocation() == x.GetLocation() {
			found = append(found, r)
		}
	}
	return found, where, nil
}

// writes says whether a task changes what lies at its target, of which nobody knows what
// it is then.
func writes(spec *pb.TaskSpec) bool {
	switch spec.GetKind() {
	case pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC, pb.TaskKind_TASK_KIND_REMOVE:
		return true
	}
	return false
}

// overwrites says why a task may not write where replicas are: somebody needs them, or
// they are this service's. Others are not relied on any more from here on.
func (s *Service) overwrites(tx *ledger.Tx, t *pb.Task) error {
	if !writes(t.GetSpec()) {
		return nil
	}
	found, _, err := s.there(tx, t)
	if err != nil {
		return err
	}
	for _, r := range found {
		if err := s.mayOverwrite(tx, r); err != nil {
			return err
		}
		r.Level = pb.Level_LEVEL_UNSPECIFIED
		if err := s.putReplica(tx, r); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) mayOverwrite(tx *ledger.Tx, r *pb.Replica) error {
	no := func(kind error, why string) error {
		return &mover.Error{Op: "write to", Place: r.GetLocation(), Err: because(kind, "a replica of dataset %s is there, and %s",
			mover.Printable(firstOf(r.GetDataset(), "without a name")), why)}
	}
	now, err := shown(tx, r, s.clock.now())
	switch {
	case err != nil:
		return err
	case now.GetLeases() > 0:
		return no(mover.ErrHeld, "is held by "+leasesOf(now)+"; datamove lease list names who holds it")
	case now.GetPinnedUntil() != nil:
		return no(mover.ErrRefused, "it is pinned; unpin it first")
	case live(tx, r.GetTask()):
		return no(mover.ErrConflict, "task "+r.GetTask()+" works on it")
	case managed(r):
		return no(mover.ErrConflict, "this service has made it; release or purge it")
	}
	return nil
}

// written notes of the replicas where a task has written, also those that became ones
// meanwhile, that nobody knows what they are.
func (s *Service) written(tx *ledger.Tx, t *pb.Task) error {
	if t.GetStartTime() == nil {
		return nil
	}
	found, _, err := s.there(tx, t)
	if err != nil {
		return nil //nolint:nilerr // its tier is not there any more, and of what was on it nothing is relied on
	}
	for _, r := range found {
		r.Level = pb.Level_LEVEL_UNSPECIFIED
		if err := s.putReplica(tx, r); err != nil {
			return err
		}
	}
	return nil
}

// vanished forgets the replicas that a task has removed.
func (s *Service) vanished(tx *ledger.Tx, t *pb.Task) error {
	if t.GetState() != task.Done {
		return nil
	}
	found, where, err := s.there(tx, t)
	if err != nil {
		return err
	}
	for _, r := range found {
		at := address(r.GetLocation(), r.GetNode(), s.conf())
		if held, err := s.holds(tx, r); err != nil || held || at != where && !strings.HasPrefix(at, where+"/") {
			continue
		}
		if err := deleteReplica(tx, r); err != nil {
			return err
		}
	}
	return nil
}
