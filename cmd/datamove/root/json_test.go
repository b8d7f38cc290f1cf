package root

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// TestJSON holds the JSON of what the service answers to the byte: of messages in which every field is set, and of
// messages in which none is.
func TestJSON(t *testing.T) {
	s := newFake(t)
	u := newSession(t, s)
	s.tasks = []*pb.Task{filled(&pb.Task{}), {Id: "empty"}, {State: pb.TaskState_TASK_STATE_DONE, Spec: &pb.TaskSpec{Class: 99, Options: &pb.Options{}}, Progress: &pb.Progress{Remaining: &durationpb.Duration{}}, Report: &pb.Report{}}}
	s.tasks[0].State = pb.TaskState_TASK_STATE_FAILED
	s.answers["ListScans"] = &pb.ListScansResponse{Scans: []*pb.Scan{{Tier: "project", Time: timestamppb.Now()}}} // usage asks how old the catalog is
	var got strings.Builder
	for _, row := range []struct {
		args    string
		answers map[string]proto.Message
	}{
		{"task list --all", nil},
		{"task show empty", nil},
		{"task why full", map[string]proto.Message{"ExplainTask": &pb.Explanation{}}},
		{"agent list", map[string]proto.Message{"ListAgents": &pb.ListAgentsResponse{}}},
		{"usage --daily", map[string]proto.Message{"GetUsage": &pb.GetUsageResponse{}}},
		{"usage project: --by owner", map[string]proto.Message{"SumFiles": &pb.SumFilesResponse{}}},
		{"usage --me", map[string]proto.Message{"GetUsage": &pb.GetUsageResponse{}}},
		{"service info", map[string]proto.Message{"GetInfo": &pb.Info{}}},
		{"tier list", map[string]proto.Message{"ListTiers": &pb.ListTiersResponse{}}},
		{"tier scans", map[string]proto.Message{"ListScans": &pb.ListScansResponse{}}},
		{"dataset list", map[string]proto.Message{"ListDatasets": &pb.ListDatasetsResponse{}}},
		{"dataset show x", map[string]proto.Message{"GetDataset": &pb.Dataset{}, "ListReplicas": &pb.ListReplicasResponse{}, "ListLeases": &pb.ListLeasesResponse{}, "ListPins": &pb.ListPinsResponse{}}},
		{"stage dataset:x --to scratch", map[string]proto.Message{"Stage": &pb.StageResponse{Replica: &pb.Replica{}}}},
		{"dataset replicas", map[string]proto.Message{"ListReplicas": &pb.ListReplicasResponse{}}},
		{"lease list", map[string]proto.Message{"ListLeases": &pb.ListLeasesResponse{}}},
		{"pin list", map[string]proto.Message{"ListPins": &pb.ListPinsResponse{}}},
		{"policy list", map[string]proto.Message{"ListPolicies": &pb.ListPoliciesResponse{}}},
		{"policy plan x", map[string]proto.Message{"PlanPolicy": &pb.Plan{}}},
		{"policy simulate x", map[string]proto.Message{"SimulatePolicy": &pb.SimulatePolicyResponse{}}},
		{"policy history", map[string]proto.Message{"ListRuns": &pb.ListRunsResponse{}}},
		{"policy explain project:x", map[string]proto.Message{"ExplainFile": &pb.ExplainFileResponse{File: &pb.FileInfo{}}}},
	} {
		for _, of := range []string{"full", "empty"} {
			if of == "empty" && len(row.answers) == 0 {
				continue
			}
			for method, answer := range row.answers {
				if s.answers[method] = answer; of == "full" {
					s.answers[method] = filled(proto.Clone(answer))
				}
				if staged, ok := s.answers[method].(*pb.StageResponse); ok {
					staged.Task = nil // it is there already
				}
			}
			out, _ := u.wants(0, append(strings.Fields(row.args), "-o", "json")...)
			fmt.Fprintf(&got, "# %s, %s\n%s", row.args, of, out)
		}
	}
	const golden = "testdata/json.golden"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want := strings.Split(string(must.Get(os.ReadFile(golden))(t)), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("line %d is %s\nwant %s", i+1, line, want[min(i, len(want)-1)])
		}
	}
}

// filled sets every field of a message: a list of messages has one that is filled and one that is empty.
func filled[M proto.Message](m M) M {
	fill(m.ProtoReflect(), 0)
	return m
}

func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.Name() == "next_page_token" || depth > 6 {
			continue
		}
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("b&").MapKey(), protoreflect.ValueOfString("<c>"))
		case f.IsList() && f.Message() != nil:
			list := m.Mutable(f).List()
			fill(list.AppendMutable().Message(), depth+1)
			list.AppendMutable()
		case f.IsList():
			m.Mutable(f).List().Append(scalar(f, 0))
			m.Mutable(f).List().Append(scalar(f, 1))
		case f.Message() != nil:
			fill(m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, scalar(f, 0))
		}
	}
	switch m := m.Interface().(type) {
	case *timestamppb.Timestamp:
		proto.Merge(m, timestamppb.New(time.Date(2027, 1, 31, 12, 0, 0, 120_000_000, time.UTC)))
	case *durationpb.Duration:
		proto.Merge(m, durationpb.New(1500*time.Millisecond))
	}
}

func scalar(f protoreflect.FieldDescriptor, more int32) protoreflect.Value {
	n := int32(f.Number()) + more
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(fmt.Sprintf("%s <%d>", f.Name(), n))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(fmt.Appendf(nil, "%s\xff%d", f.Name(), n))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.EnumKind:
		values := f.Enum().Values()
		return protoreflect.ValueOfEnum(values.Get(1 + int(more)%(values.Len()-1)).Number())
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) + 1e21)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(n)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(1<<63 + uint64(n))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1<<62 + int64(n))
	}
	panic(f.FullName())
}
