package coordinator

import (
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// rootsOf are the directories of the project that work on a task must not leave, by
// the rules of now: what is not below one any more is not begun. They hold for what
// callers have named; where replicas are is this service's own business.
func (s *Service) rootsOf(spec *pb.TaskSpec) (roots []string, err error) {
	if !task.Of(spec).UserPaths {
		return nil, nil
	}
	locations := append(slices.Clone(spec.GetSources()), spec.GetSource(), spec.GetTarget())
	if dir := spec.GetOptions().GetBackupDir(); dir != "" {
		locations = append(locations, backupOf(spec.GetTarget(), dir))
	}
	for _, at := range locations {
		if at == "" {
			continue
		}
		root, err := s.rules().RootOf(spec.GetProject(), at)
		if err != nil {
			return nil, err
		}
		if root != "" && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots, nil
}
