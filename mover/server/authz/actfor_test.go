package authz

import (
	"testing"

	"datamove.dev/test/must"
)

// Who may call for another person; and what that person may then.
//
//safety:7 with mover/server TestWhoMayCallForWhom
func TestMayActFor(t *testing.T) {
	r, err := New(Input{UID: 990, Users: map[string]string{"ops": "carol", "chief": "root"}, Roles: map[string]Role{
		"hooks": {Members: []string{"slurm"}, May: []string{"person.act"}},
		"ops":   {Members: []string{"carol"}, May: []string{"person.*", "agent.*"}},
		"all":   {Members: []string{"walter", "alice"}, May: []string{"*"}},
	}})
	must.Do(t, err)
	slurm := Caller{Name: "slurm", UID: 64030, Via: Local}
	for _, row := range []struct {
		name string
		c    Caller
		uid  uint32
		may  bool
	}{
		{"root", Caller{Name: "root", Via: Local}, 1001, true},
		{"who runs the service", Caller{Name: "datamove", UID: 990, Via: Local}, 1001, true},
		{"root of a node", Caller{Name: "root", Via: Forwarded, Agent: "n1"}, 1001, true},
		{"a role", slurm, 1001, true},
		{"a role, through a node", Caller{Name: "slurm", UID: 64030, Via: Forwarded, Agent: "n1"}, 1001, true},
		{"a family of actions, with a certificate", Caller{Name: "carol", UID: 1003, Via: Certificate}, 1001, true},
		{"the role of *", Caller{Name: "walter", UID: 1004, Via: Local}, 1001, false},
		{"a person", Caller{Name: "bob", UID: 1002, Via: Local}, 1001, false},
		{"a person, for itself", Caller{Name: "bob", UID: 1002, Via: Local}, 1002, false},
		{"root by a certificate", Caller{Name: "root", Via: Certificate}, 1001, false},
		{"root of no agent", Caller{Name: "root", Via: Forwarded}, 1001, false},
		{"a certificate that is nobody's", Caller{Name: "slurm", UID: 64030, Via: Certificate}, 1001, false},
		{"an agent", Caller{Via: Agent, Agent: "n1"}, 1001, false},
		{"nobody", Caller{}, 1001, false},
		{"for root", Caller{Name: "root", Via: Local}, 0, false},
		{"for root, of a node", Caller{Name: "root", Via: Forwarded, Agent: "n1"}, 0, false},
		{"for who runs the service", slurm, 990, false},
		{"for no uid", slurm, ^uint32(0), false},
		{"twice", Caller{Name: "slurm", UID: 64030, Via: Local, By: "root"}, 1001, false},
	} {
		if d := r.MayActFor(row.c, row.uid); d.Allowed != row.may || d.Reason == "" {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
	for _, via := range []Caller{{Via: Local}, {Via: Certificate}, {Via: Forwarded, Agent: "n1"}} {
		alice := Caller{Name: "alice", UID: 1001, Via: via.Via, Agent: via.Agent, By: "slurm"}
		for action, may := range map[string]bool{
			"task.submit": true, "dataset.stage": true, "task.cancel.any": true, // by her role
			"admin.backup": false, "agent.drain": false, "person.act": false, "link.attend": false,
		} {
			if d := r.May(alice, action); d.Allowed != may {
				t.Errorf("%s: %s: %+v", via.Via, action, d)
			}
		}
	}
	if d := r.May(Caller{Name: "datamove", UID: 990, Via: Local, By: "slurm"}, "admin.backup"); d.Allowed {
		t.Errorf("in the name of who runs the service: %+v", d)
	}
}
