package coordinator

import (
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
)

// TestOutsideRoots: no location of a request leads out of the roots of its project, whatever
// part of the request names it; it is refused before there is a task.
//
//safety:6 paths out of a project's roots by their text, by links, and by folders that become links while tasks of users and of root begin and run
func TestOutsideRoots(t *testing.T) {
	d := newDesk(t, site(), authz.Input{UID: 990, Projects: map[string]authz.Project{
		"vision": {Roots: []string{"project:vision", "archive:"}, Reads: []string{"project:shared"}, Members: []string{"alice"}},
		"audio":  {Roots: []string{"project:audio"}, Members: []string{"carol"}},
	}})
	const in, out = "project:vision/in", "project:vision/out"
	for what, c := range map[string]struct {
		spec *pb.TaskSpec
		kind error
	}{
		"all of it is inside":           {&pb.TaskSpec{Source: in, Target: out}, nil},
		"the source is of others":       {&pb.TaskSpec{Source: "project:audio/in", Target: out}, mover.ErrPermission},
		"one of the sources is":         {&pb.TaskSpec{Sources: []string{in, "project:audio/in"}, Target: out}, mover.ErrPermission},
		"the target is":                 {&pb.TaskSpec{Source: in, Target: "project:audio"}, mover.ErrPermission},
		"the same as a path":            {&pb.TaskSpec{Source: in, Target: "/lustre/project/audio"}, mover.ErrPermission},
		"the target begins alike":       {&pb.TaskSpec{Source: in, Target: "project:visions"}, mover.ErrPermission},
		"the target is above the root":  {&pb.TaskSpec{Source: in, Target: "project:"}, mover.ErrPermission},
		"the way leads up by its text":  {&pb.TaskSpec{Source: in, Target: "/lustre/project/vision/../audio"}, mover.ErrPermission},
		"another bucket":                {&pb.TaskSpec{Source: in, Target: "s3://other/out"}, mover.ErrPermission},
		"what is replaced goes there":   {&pb.TaskSpec{Source: in, Target: out, Options: &pb.Options{BackupDir: "/lustre/project/audio"}}, mover.ErrPermission},
		"a source that may be read":     {&pb.TaskSpec{Source: "project:shared/in", Target: "project:vision/copy"}, nil},
		"a target that may be read":     {&pb.TaskSpec{Source: in, Target: "project:shared/out"}, mover.ErrPermission},
		"and what is replaced goes to":  {&pb.TaskSpec{Source: in, Target: out, Options: &pb.Options{BackupDir: "/lustre/project/shared"}}, mover.ErrPermission},
		"it claims the other's project": {&pb.TaskSpec{Source: "project:audio/in", Target: "project:audio/out", Project: "audio"}, mover.ErrPermission},
	} {
		c.spec.Kind = pb.TaskKind_TASK_KIND_COPY
		wants(t, what, second(d.SubmitTask(as("alice", 1001), &pb.SubmitTaskRequest{Spec: c.spec})), c.kind)
	}
}
