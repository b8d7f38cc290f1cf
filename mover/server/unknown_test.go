package server

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// TestNewerCaller: what a program says that is newer than the service is refused where it would change something, wherever it stands in the request, and also
// through a node. A question is answered.
func TestNewerCaller(t *testing.T) {
	newer := func(m proto.Message) {
		m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1900, protowire.VarintType), 1))
	}
	request := func() *datamovev1.SubmitTaskRequest {
		return &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Source: "/a", Target: "/b", Options: &datamovev1.Options{Rules: []*datamovev1.Rule{{Pattern: "/x"}, {Pattern: "/y"}}}, Labels: map[string]string{"a": "b"}}}
	}
	to := newRig(t)
	from := node(t, to)
	for _, r := range []*rig{to, from} {
		conn := r.dial(nil)
		tasks := datamovev1.NewTaskServiceClient(conn)
		for _, row := range []struct {
			in string // "" is nowhere
			of func(*datamovev1.SubmitTaskRequest) proto.Message
		}{
			{"", nil},
			{"SubmitTaskRequest", func(r *datamovev1.SubmitTaskRequest) proto.Message { return r }},
			{"TaskSpec", func(r *datamovev1.SubmitTaskRequest) proto.Message { return r.GetSpec() }},
			{"Options", func(r *datamovev1.SubmitTaskRequest) proto.Message { return r.GetSpec().GetOptions() }},
			{"Rule", func(r *datamovev1.SubmitTaskRequest) proto.Message { return r.GetSpec().GetOptions().GetRules()[1] }},
		} {
			q := request()
			if row.of != nil {
				newer(row.of(q))
			}
			to.desk.take()
			_, err := tasks.SubmitTask(context.Background(), q)
			calls := len(to.desk.take())
			switch {
			case row.in == "" && (err != nil || calls != 1):
				t.Errorf("what is known: %v, %d calls", err, calls)
			case row.in != "" && (err == nil || calls != 0 || !strings.Contains(err.Error(), "field 1900 of "+row.in+") that this service does not know") || !strings.Contains(err.Error(), "upgrade the coordinator first")):
				t.Errorf("in %s: %v, %d calls", row.in, err, calls)
			}
		}
		ask := &datamovev1.GetInfoRequest{}
		newer(ask)
		if _, err := datamovev1.NewAdminServiceClient(conn).GetInfo(context.Background(), ask); err != nil {
			t.Errorf("a question: %v", err)
		}
	}
	link := &datamovev1.SubmitTaskRequest{}
	newer(link)
	if err := understood("/datamove.agent.v1.LinkService/Report", link); err != nil {
		t.Errorf("an agent: %v", err)
	}
	if err := understood(datamovev1.TaskService_SubmitTask_FullMethodName, link); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("its kind: %v", err)
	}
}
