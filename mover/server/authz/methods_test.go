package authz

import (
	"maps"
	"slices"
	"strings"
	"testing"

	_ "google.golang.org/grpc/health/grpc_health_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1"
	_ "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// served returns the full names of all methods of the services that datamoved has.
func served(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pkg := range []protoreflect.FullName{"datamove.v1", "datamove.agent.v1", "grpc.health.v1", "grpc.reflection.v1", "grpc.reflection.v1alpha"} {
		before := len(found)
		protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(f protoreflect.FileDescriptor) bool {
			for i := range f.Services().Len() {
				service := f.Services().Get(i)
				if service.Name() == "WorkerService" { // between an agent and its processes: no listener has it
					continue
				}
				for j := range service.Methods().Len() {
					found = append(found, "/"+string(service.FullName())+"/"+string(service.Methods().Get(j).Name()))
				}
			}
			return true
		})
		if len(found) == before {
			t.Fatalf("no methods of %s", pkg)
		}
	}
	slices.Sort(found)
	return found
}

func TestEveryMethodHasAnAction(t *testing.T) {
	if listed, all := slices.Sorted(maps.Keys(methods)), served(t); !slices.Equal(listed, all) {
		t.Fatalf("the table has\n%s\nand the services\n%s", strings.Join(listed, "\n"), strings.Join(all, "\n"))
	}
	used := map[string]bool{"project.use": true, "bucket.use": true, "person.act": true, "task.urgent": true} // of MayUse, MayActFor and a class of tasks
	note := func(m Method) {
		if m.Owned {
			used[m.Action+".own"], used[m.Action+".any"] = true, true
		} else {
			used[m.Action] = true
		}
	}
	for _, full := range served(t) {
		note(OfMethod(full))
	}
	for _, value := range datamovev1.TaskKind_name {
		kind := datamovev1.TaskKind(datamovev1.TaskKind_value[value])
		if m := OfKind(kind); (m == Method{}) != (kind == datamovev1.TaskKind_TASK_KIND_UNSPECIFIED) {
			t.Errorf("%s is %+v", value, m)
		} else if kind != datamovev1.TaskKind_TASK_KIND_UNSPECIFIED {
			note(m)
		}
	}
	if have := slices.Sorted(maps.Keys(actions)); !slices.Equal(have, slices.Sorted(maps.Keys(used))) {
		t.Errorf("actions are\n%v\nand methods do\n%v", have, slices.Sorted(maps.Keys(used)))
	}
}

// open is what each caller may call; "-own" is only what belongs to the caller, and "-node" what is meant for the caller's node.
func open(t *testing.T, r *Rules, c Caller) (may []string) {
	t.Helper()
	for _, full := range served(t) {
		called, m := r.MayCall(c, full), OfMethod(full)
		mine := r.MayOn(c, m, Owner{Name: c.Name, UID: c.UID})
		others := r.MayOn(c, m, Owner{Name: "somebody", UID: 77777})
		_, short, _ := strings.Cut(full[1:], "/")
		if called.Rule == "node" && !mine.Allowed {
			may = append(may, short+"-node")
			continue
		}
		if called.Allowed != mine.Allowed || others.Allowed && !mine.Allowed {
			t.Errorf("%s, %s: call %+v, own %+v, others %+v", c, full, called, mine, others)
		}
		for _, d := range []Decision{called, mine, others} {
			if d.Rule == "" || d.Reason == "" || (d.Err() == nil) != d.Allowed {
				t.Errorf("%s, %s: %+v", c, full, d)
			}
		}
		switch {
		case others.Allowed:
			may = append(may, short)
		case mine.Allowed:
			may = append(may, short+"-own")
		}
	}
	slices.Sort(may)
	return slices.Compact(may)
}

func words(s string) []string {
	all := strings.Fields(s)
	slices.Sort(all)
	return all
}

// what everybody may, and what each rule adds to it.
const (
	everyones = `SubmitTask GetTask-own ListTasks-own WatchTask-own ExplainTask-own PauseTask-own ResumeTask-own CancelTask-own
		AddDataset-own GetDataset ListDatasets ListReplicas GetManifest-own RemoveDataset-own Stage Release-own Purge
		AcquireLease RenewLease-own DropLease-own ListLeases Pin-own Unpin-own ListPins ListTiers ListScans FindFiles-own SumFiles-own ListPolicies GetPlan-own ExplainFile-own ListRuns ListAgents ApplyBurst-own GetBurst-own ListBursts-own FollowBurst-own GetAccounts-own GetUsage-own GetInfo
		Check List Watch ServerReflectionInfo Join`
	visibles = `GetDataset ListDatasets ListReplicas ListLeases ListPins ListTiers ListScans ListPolicies ListRuns ListAgents GetInfo Check List Watch ServerReflectionInfo Join`
	linked   = `Attend Confirm Finish Give Reply Keep PutManifest ReadManifest PutWalk Follow TellCheckpoints ReadItems ReadBurst KeepBurst Spend TellReal Renew Join`
)

//safety:7 every method of every service, and locations that try to get out of a project's roots
func TestDeniedByDefault(t *testing.T) {
	plain, err := New(Input{UID: 990})
	must.Do(t, err)
	site, err := New(Input{UID: 990, Users: map[string]string{"alice@site": "alice"}, Roles: map[string]Role{
		"all":     {Members: []string{"root", "@wheel"}, May: []string{"*"}},
		"watcher": {Members: []string{"walter"}, May: []string{"task.read.any", "agent.*"}},
	}})
	must.Do(t, err)
	all := strings.NewReplacer("-own", "", "Join", "AdjustAccount DrainAgent UndrainAgent ForgetAgent CreateJoinToken Backup Reload IssueIdentity RevokeIdentity ScanTier PlanPolicy SimulatePolicy RunPlan StopRun UndoRun Join").Replace(everyones)
	watching := strings.NewReplacer("GetTask-own", "GetTask", "ListTasks-own", "ListTasks", "WatchTask-own", "WatchTask", "ExplainTask-own", "ExplainTask")
	for _, row := range []struct {
		name  string
		rules *Rules
		c     Caller
		may   string
	}{
		{"nobody", site, Caller{}, "Join"},
		{"nobody who says root", site, Caller{Name: "root"}, "Join"},
		{"a way that is none", site, Caller{Name: "root", Via: "admin"}, "Join"},
		{"a certificate of nobody", site, Caller{Via: Certificate}, "Join"},
		{"a certificate that is not in users", site, Caller{Name: "bob", UID: 1002, Groups: []string{"wheel"}, Via: Certificate}, "Join"},
		{"a certificate where there are no users", plain, Caller{Name: "alice", UID: 1001, Via: Certificate}, "Join"},
		{"a certificate does not make root", plain, Caller{Name: "root", Via: Certificate}, "Join"},
		{"somebody of no agent", site, Caller{Name: "root", Via: Forwarded}, "Join"},
		{"an agent without a name", site, Caller{Via: Agent}, "Join"},
		{"an agent", site, Caller{Agent: "n17", Via: Agent}, linked},
		{"an agent called root is an agent", site, Caller{Name: "root", Groups: []string{"wheel"}, Agent: "n17", Via: Agent}, linked},
		{"a user", plain, Caller{Name: "alice", UID: 1001, Via: Local}, everyones},
		{"a uid without a name", site, Caller{UID: 4242, Via: Local}, everyones},
		{"a person with a certificate", site, Caller{Name: "alice", UID: 1001, Via: Certificate}, everyones},
		{"a user of a node", site, Caller{Name: "alice", UID: 1001, Via: Forwarded, Agent: "n17"}, everyones},
		{"root of a node", plain, Caller{Name: "root", Via: Forwarded, Agent: "n17"}, visibles + " ListTasks-node"}, // of what is meant for that node
		{"root of a node in a group", site, Caller{Name: "toor", Groups: []string{"wheel"}, Via: Forwarded, Agent: "n17"}, visibles + " ListTasks-node"},
		{"root", plain, Caller{Name: "root", Via: Local}, all},
		{"who runs the service", plain, Caller{Name: "datamove", UID: 990, Via: Local}, all},
		{"the same uid of a node", plain, Caller{Name: "datamove", UID: 990, Via: Forwarded, Agent: "n17"}, everyones},
		{"a role by group", site, Caller{Name: "carol", UID: 1003, Groups: []string{"wheel"}, Via: Local}, all},
		{"a group is not a name", site, Caller{Name: "@wheel", UID: 1003, Groups: []string{"root"}, Via: Local}, everyones},
		{"a role of a person with a certificate", site, Caller{Name: "alice", UID: 1001, Groups: []string{"wheel"}, Via: Certificate}, all},
		{"a node does not speak for an administrator", site, Caller{Name: "root", Via: Forwarded, Agent: "n17"},
			strings.NewReplacer("AdjustAccount DrainAgent UndrainAgent ForgetAgent CreateJoinToken Backup Reload IssueIdentity RevokeIdentity ", "").Replace(all)},
		{"a narrow role", site, Caller{Name: "walter", UID: 1004, Via: Local}, watching.Replace(everyones) + " DrainAgent UndrainAgent ForgetAgent CreateJoinToken"},
	} {
		if got := open(t, row.rules, row.c); !slices.Equal(got, words(row.may)) {
			t.Errorf("%s may\n%v\nwant\n%v", row.name, got, words(row.may))
		}
	}
}

func TestUnknownIsDenied(t *testing.T) {
	r := must.Get(New(Input{Roles: map[string]Role{"all": {Members: []string{"root"}, May: []string{"*"}}}}))(t)
	root := Caller{Name: "root", Via: Local}
	for _, full := range []string{"", "/", "/datamove.v1.TaskService/EraseTasks", "datamove.v1.TaskService/GetTask", "/datamove.v1.TaskService/GetTask/", "/datamove.v1.taskservice/gettask"} {
		if d := r.MayCall(root, full); d.Allowed || r.MayOn(root, OfMethod(full), Owner{Name: "root"}).Allowed {
			t.Errorf("%q: %+v", full, d)
		}
	}
	for _, action := range []string{"", "*", "task", "task.*", "task.read", "task.read.own ", "link.*"} {
		if d := r.May(root, action); d.Allowed {
			t.Errorf("%q: %+v", action, d)
		}
	}
}

func TestWhatBelongsToWhom(t *testing.T) {
	r := must.Get(New(Input{Projects: map[string]Project{"vision": {Members: []string{"alice", "@vision"}}}}))(t)
	m := OfMethod(datamovev1.TaskService_CancelTask_FullMethodName)
	alice := Caller{Name: "alice", UID: 1001, Via: Local}
	for _, row := range []struct {
		name string
		c    Caller
		o    Owner
		may  bool
	}{
		{"mine", alice, Owner{Name: "alice", UID: 1001}, true},
		{"of my project", alice, Owner{Name: "bob", UID: 1002, Project: "vision"}, true},
		{"of a project of my group", Caller{Name: "carol", UID: 1003, Groups: []string{"vision"}, Via: Local}, Owner{Name: "bob", UID: 1002, Project: "vision"}, true},
		{"of another project", alice, Owner{Name: "bob", UID: 1002, Project: "audio"}, false},
		{"of nobody's project", alice, Owner{Name: "bob", UID: 1002}, false},
		{"my name, another uid", alice, Owner{Name: "alice", UID: 1002}, false},
		{"my uid, another name", alice, Owner{Name: "bob", UID: 1001}, false},
		{"my uid, without a name", alice, Owner{UID: 1001}, false},
		{"without a name, mine", Caller{UID: 4242, Via: Local}, Owner{UID: 4242}, true},
		{"an agent owns nothing", Caller{Name: "alice", UID: 1001, Agent: "n17", Via: Agent}, Owner{Name: "alice", UID: 1001}, false},
	} {
		if d := r.MayOn(row.c, m, row.o); d.Allowed != row.may {
			t.Errorf("%s: %+v", row.name, d)
		}
	}
}

// A denial says what would allow it.
func TestReasons(t *testing.T) {
	r := must.Get(New(Input{Tiers: map[string]string{"archive": ""}}))(t)
	alice := Caller{Name: "alice", UID: 1001, Via: Local}
	for _, row := range []struct {
		d    Decision
		want string
	}{
		{r.May(alice, "task.cancel.any"), "alice (uid 1001) may not task.cancel.any: none of their roles has it; a role with task.cancel.any in the configuration (roles) would allow it"},
		{r.May(alice, "link.attend"), "no role gives it"},
		{r.May(Caller{Name: "root", Via: Forwarded, Agent: "n17"}, "admin.backup"), "root (uid 0) through agent n17 may not admin.backup: it is about the service itself"},
		{r.May(Caller{Name: "root", Via: Forwarded, Agent: "n17"}, "task.submit"), "root (uid 0) through agent n17 may not task.submit: root of a node is not root of the site"},
		{r.May(Caller{Name: "x\ny", Via: Local, UID: 5}, "admin.backup"), `"x\ny" (uid 5) may not`},
		{r.MayCall(alice, "/x\ny"), `"/x\ny" is in no rule`},
		{r.MayUse(alice, "", "archive:x", false), "roles with bucket.use"},
		{r.MayUse(alice, "", "a\nb", false), `the path "a\nb" must begin with a slash`},
	} {
		if row.d.Allowed || !strings.Contains(row.d.Reason, row.want) || strings.Contains(row.d.Err().Error(), "\n") {
			t.Errorf("%+v\nwant %s", row.d, row.want)
		}
	}
}
