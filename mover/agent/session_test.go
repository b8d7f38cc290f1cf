package agent

import (
	"fmt"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/account"
)

// TestUnbegun: a task that can not begin fails, but where its owner has no name here and only has to call again.
func TestUnbegun(t *testing.T) {
	_, unseen := account.New().Lookup(t.Context(), "", 54399)
	for _, row := range []struct {
		name string
		kind pb.TaskKind
		err  error
		back bool
	}{
		{"a uid that has to call again", pb.TaskKind_TASK_KIND_COPY, unseen, true},
		{"a look of it", pb.TaskKind_TASK_KIND_LOOK, unseen, false},
		{"an account that is not here", pb.TaskKind_TASK_KIND_COPY, fmt.Errorf("alice has no account: %w", mover.ErrPermission), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := unbegun(&agentv1.Lead{Spec: &pb.TaskSpec{Kind: row.kind}, Epoch: 1}, row.err)
			if got.GetPutBack() != row.back || got.GetErrorKind() != mover.KindName(mover.ErrPermission) {
				t.Errorf("it ends as %v", got)
			}
		})
	}
}
