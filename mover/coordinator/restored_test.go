package coordinator

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/enroll"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// TestAfterRestore: what a ledger has forgotten by a restore is not done once more on what is there now, and nobody is let in who was cut off since.
//
//safety:4 a restore of a ledger in which a removal was queued that has been done since
//safety:7 a restore of a ledger from before a node was cut off, or a token was used
func TestAfterRestore(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.wall = time.Now() // certificates go by that
	authority := must.Get(pki.OpenAuthority(t.TempDir()))(t)
	d.enrolls(authority, nil)
	submit := func(spec *pb.TaskSpec) string {
		t.Helper()
		return must.Get(d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: spec}))(t).GetId()
	}
	token := func(node string) string {
		t.Helper()
		return must.Get(d.agents.CreateJoinToken(root, &pb.CreateJoinTokenRequest{Name: node, Ttl: durationpb.New(time.Hour)}))(t).GetToken()
	}
	join := func(node, token string) (*agentv1.Certificate, error) {
		return d.enroll.Join(t.Context(), &agentv1.JoinRequest{Name: node, Token: token, Csr: request(t, node)})
	}
	removing := []string{
		submit(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "project:old"}),
		submit(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: "project:a", Target: "scratch:a", Options: &pb.Options{RemoveExtra: true}}),
	}
	others := []string{
		submit(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: "project:b", Target: "scratch:b"}),
		submit(&pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:c", Target: "scratch:c"}),
	}
	d.give() // one of them is being led
	used, unused := token("n8"), token("n7")
	stolen, _ := bearer(t, must.Get(join("n9", token("n9")))(t))
	var backup bytes.Buffer
	must.Do(t, d.ledger.Backup(&backup))

	must.Get(join("n8", used))(t)
	must.Get(d.agents.ForgetAgent(root, &pb.ForgetAgentRequest{Name: "n9", Revoke: true}))(t)
	d.close()
	must.Do(t, os.RemoveAll(filepath.Join(d.dir, "ledger")))
	must.Do(t, state.Restore(filepath.Join(d.dir, "ledger"), &backup, nil))
	books := must.Get(state.Open(filepath.Join(d.dir, "ledger"), state.Options{}))(t)
	after := must.Get(enroll.AfterRestore(t.Context(), books, d.dir))(t)
	must.Do(t, books.Close())
	if len(after.Paused) != len(removing) || after.Tokens != 2 || after.Nodes != 1 {
		t.Errorf("%d are paused, %d tokens void, %d nodes out", len(after.Paused), after.Tokens, after.Nodes)
	}
	d.taken, d.led = nil, nil // what agents do of a task that is paused is that it is stopped
	d.open()
	d.enrolls(authority, nil)
	for _, id := range removing {
		got := must.Get(d.GetTask(root, &pb.GetTaskRequest{Id: id}))(t)
		if got.GetState() != task.Paused || !strings.Contains(got.GetWhy(), "restored: ") || !strings.Contains(got.GetWhy(), "datamove task resume "+id) {
			t.Errorf("%v is %v: %s", got.GetSpec(), got.GetState(), got.GetWhy())
		}
	}
	for _, id := range others {
		if got := must.Get(d.GetTask(root, &pb.GetTaskRequest{Id: id}))(t); got.GetState() == task.Paused {
			t.Errorf("%v is paused: %s", got.GetSpec(), got.GetWhy())
		}
	}
	wants(t, "a token that was used since", second(join("n8", used)), mover.ErrPermission)
	wants(t, "one that was not", second(join("n7", unused)), mover.ErrPermission)
	wants(t, "a node that was cut off since", enroll.Admit(d.ledger, stolen), mover.ErrPermission)
	resumed := must.Get(d.ResumeTask(root, &pb.ResumeTaskRequest{Id: removing[0]}))(t)
	if resumed.GetState() == task.Paused || resumed.GetWhy() != "" {
		t.Errorf("resumed, it is %v: %s", resumed.GetState(), resumed.GetWhy())
	}
}
