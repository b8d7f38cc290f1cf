package service

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/ledger"
)

// accountOf is a caller as an owner.
func accountOf(c access.Caller) *pb.Account { return &pb.Account{Name: c.Name, Uid: c.UID} }

// ownerOf is an account as access has it.
func ownerOf(a *pb.Account, project string) access.Owner {
	return access.Owner{Name: a.GetName(), UID: a.GetUid(), Project: project}
}

// mayRead says why a caller may not read a replica. What lies in a cache that nodes share
// among users, may be read by who may read it where it came from.
func (s *Service) mayRead(tx *ledger.Tx, c access.Caller, project string, r *pb.Replica) error {
	if err := s.mayUseAt(c, project, r.GetLocation(), false); err != nil {
		return err
	}
	denied := error(nil)
	for other, err := range ledger.Replicas.All(tx, versionRange(r.GetDataset(), r.GetDigest())) {
		if err != nil {
			return err
		}
		if r.GetDataset() == "" || managed(other) || other.GetState() != whole {
			continue
		}
		if denied = s.mayUseAt(c, project, other.GetLocation(), false); denied == nil {
			return nil
		}
	}
	return denied
}

// mayUseAt asks whether a caller may use a location through a project; "" is any of its own.
func (s *Service) mayUseAt(c access.Caller, project, at string, write bool) error {
	_, err := s.through(c, project, at, write)
	return err
}

// through is the project through which a caller may use a location: the one that is named,
// or one of its own.
func (s *Service) through(c access.Caller, project, at string, write bool) (string, error) {
	projects := []string{project}
	if mine := s.rules().Projects(c); project == "" && len(mine) > 0 {
		projects = mine
	}
	var d access.Decision
	for _, p := range projects {
		if d = s.rules().MayUse(c, p, at, write); d.Allowed {
			return p, nil
		}
	}
	return "", &mover.Error{Op: "use", Place: at, Err: d.Err()}
}
