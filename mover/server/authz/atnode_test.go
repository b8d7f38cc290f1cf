package authz

import (
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// TestMayAt: root of a node sees what is meant for that node, and nobody else sees all of it by that.
//
//safety:7 with mover/server TestWhoMayCallForWhom
func TestMayAt(t *testing.T) {
	r := must.Get(New(Input{UID: 990}))(t)
	const list = datamovev1.TaskService_ListTasks_FullMethodName
	for _, row := range []struct {
		name       string
		c          Caller
		full, node string
		may        bool
	}{
		{"root there", Caller{Name: "root", Via: Forwarded, Agent: "n1"}, list, "n1", true},
		{"root of another node", Caller{Name: "root", Via: Forwarded, Agent: "n2"}, list, "n1", false},
		{"root of no node, of none", Caller{Name: "root", Via: Forwarded}, list, "", false},
		{"of no node", Caller{Name: "root", Via: Forwarded, Agent: "n1"}, list, "", false},
		{"a user there", Caller{Name: "alice", UID: 1001, Via: Forwarded, Agent: "n1"}, list, "n1", false},
		{"the agent", Caller{Via: Agent, Agent: "n1"}, list, "n1", false},
		{"in the name of root", Caller{Name: "root", Via: Forwarded, Agent: "n1", By: "slurm"}, list, "n1", false},
		{"another method", Caller{Name: "root", Via: Forwarded, Agent: "n1"}, datamovev1.TaskService_CancelTask_FullMethodName, "n1", false},
		{"a method that there is not", Caller{Name: "root", Via: Forwarded, Agent: "n1"}, "", "n1", false},
	} {
		if d := r.MayAt(row.c, row.full, row.node); d.Allowed != row.may || d.Reason == "" {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
}
