package datasetserver

import (
	"errors"
	"maps"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/policy/treecontext"
)

// RemoveReplica stores a task that removes a replica with the rights of its owner, or reports why the replica has to stay. With evict it makes
// room: an ephemeral tier promises nothing, and its replica goes without a look at the copy that survives.
func (s *Server) RemoveReplica(tx *state.Tx, r *pb.Replica, labels map[string]string, evict bool) (*pb.Task, error) {
	may := s.mayRelease
	if evict {
		labels, may = maps.Clone(labels), s.mayEvict
		labels[evictedLabel] = r.GetTier()
	}
	if err := may(tx, r, ""); err != nil {
		return nil, err
	}
	t := s.byMaker(r, labels)
	if evict && s.conf().Tiers[r.GetTier()].Ephemeral {
		return s.removes(tx, t, r)
	}
	return s.releases(tx, t, r, func(string) error { return nil })
}

// Tree reads what is known of a tree beside the catalog.
func (s *Server) Tree(tree catalog.Tree) (*treecontext.Context, error) {
	return s.records.tree(tree)
}

// NearestReplica returns where a task of a caller would read a dataset, and on which node.
func (s *Server) NearestReplica(c authz.Caller, dataset string, by *pb.TaskSpec) (at, node string, err error) {
	one := copySpec(dataset, by.GetTarget())
	one.Project, one.Node = by.GetProject(), by.GetNode()
	err = s.Resolve(c, one)
	return one.GetSource(), one.GetNode(), err
}

// CheckLabels adds a check of the labels of a lease: an error of may refuses the lease. It is called before Run.
func (s *Server) CheckLabels(may func(c authz.Caller, labels map[string]string) error) {
	s.labels = append(s.labels, may)
}

func (s *Server) checkLabels(c authz.Caller, labels map[string]string) (err error) {
	for _, may := range s.labels {
		err = errors.Join(err, may(c, labels))
	}
	return err
}
