package coordinator

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
)

// accountOf is a caller as an owner.
func accountOf(c authz.Caller) *pb.Account { return &pb.Account{Name: c.Name, Uid: c.UID} }

// ownerOf is an account as access has it.
func ownerOf(a *pb.Account, project string) authz.Owner {
	return authz.Owner{Name: a.GetName(), UID: a.GetUid(), Project: project}
}

// mayUseAt asks whether a caller may use a location through a project; "" is any of its own.
func (s *Service) mayUseAt(c authz.Caller, project, at string, write bool) error {
	_, err := s.through(c, project, at, write)
	return err
}

// through is the project through which a caller may use a location: the one that is named,
// or one of its own.
func (s *Service) through(c authz.Caller, project, at string, write bool) (string, error) {
	projects := []string{project}
	if mine := s.rules().Projects(c); project == "" && len(mine) > 0 {
		projects = mine
	}
	var d authz.Decision
	for _, p := range projects {
		if d = s.rules().MayUse(c, p, at, write); d.Allowed {
			return p, nil
		}
	}
	return "", &mover.Error{Op: "use", Place: at, Err: d.Err()}
}
