package task

import (
	"cmp"

	"google.golang.org/protobuf/reflect/protoreflect"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

const schemaTask = "datamove.task/v1"

// viewOf is a task of the service as JSON; it has an exit code when it has ended.
var viewOf = cli.View("schema:"+schemaTask+` id command state phase? why? source=spec.source? sources=spec.sources? target=spec.target? dataset? owner=owner.name uid=owner.uid project=spec.project?
	class=spec.class? node=spec.node? labels=spec.labels? agent? helpers? epoch? tries? created=create_time? started=start_time? first_byte=first_byte_time? ended=end_time?
	revision exit? error? error_kind? remedy=report.remedy? options?
	progress? { files=files_done bytes=bytes_done failed in_flight bytes_per_second files_per_second remaining_seconds=remaining? plan_complete
		planned { files bytes dirs others links updates compares compare_bytes removes remove_bytes conflicts } time?
		source_wait_seconds=source_wait target_wait_seconds=target_wait link_wait_seconds=link_wait limit_wait_seconds=limit_wait queue_wait_seconds=queue_wait
		slowest? { name seconds=since agent? } }
	report?`, map[string]func(*pb.Task) any{
	"command": func(t *pb.Task) any { return commandOf(t.GetSpec().GetKind()) },
	"exit": func(t *pb.Task) any {
		if !api.Ended(t.GetState()) {
			return nil
		}
		return t.GetExitCode()
	},
	"options": func(t *pb.Task) any {
		if t.GetSpec().GetOptions() == nil {
			return nil
		}
		return viewOptions(t.GetSpec().GetOptions())
	},
	"report": func(t *pb.Task) any {
		if t.GetReport() == nil {
			return nil
		}
		return (&Request{Command: commandOf(t.GetSpec().GetKind()), ID: t.GetId(), Source: t.GetSpec().GetSource(), Target: t.GetSpec().GetTarget()}).ViewReport(convert.LocalReport(t.GetReport()), EndError(t))
	},
})

// optionNames are the names that options have here, where it is not that of the API.
var optionNames = map[protoreflect.Name]string{"remove_extra": "delete", "remove_first": "delete_before"}

// optionForms are the options that look otherwise than in the API, and how.
var optionForms = map[protoreflect.Name]func(o *pb.Options, view map[string]any){
	"verify":   func(o *pb.Options, view map[string]any) { view["verify"] = cli.LevelWord(o.GetVerify()) },
	"released": func(o *pb.Options, view map[string]any) { view["released"] = cli.Word(o.GetReleased(), "RELEASED_") },
	"preserve": func(o *pb.Options, view map[string]any) { view["preserve"] = o.GetPreserve() },
	"names":    func(o *pb.Options, view map[string]any) { view["names"] = len(o.GetNames()) }, // how many there are in the list
	"rules": func(o *pb.Options, view map[string]any) {
		rules := make([]string, len(o.GetRules()))
		for i, r := range o.GetRules() {
			rules[i] = map[bool]string{true: "exclude ", false: "include "}[r.GetExclude()] + r.GetPattern()
		}
		view["rules"] = rules
	},
	"max_delete": func(o *pb.Options, view map[string]any) {
		if m := convert.MaxDelete(o); m.Percent > 0 {
			view["max_delete_percent"] = m.Percent
		} else if m.Set {
			view["max_delete"] = m.Entries
		}
	},
}

// viewOptions is how a task is done, as JSON: the options that are set. A new one of the API is among them by itself.
func viewOptions(o *pb.Options) map[string]any {
	if o == nil {
		return nil
	}
	view := map[string]any{}
	o.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if form := optionForms[f.Name()]; form != nil {
			form(o, view)
		} else {
			view[cmp.Or(optionNames[f.Name()], string(f.Name()))] = value.Interface()
		}
		return true
	})
	return view
}

// commandOf is how a person would ask for a task of that kind.
func commandOf(kind pb.TaskKind) string {
	return cmp.Or(tasks.KindOf(kind).Command, tasks.KindWord(kind))
}
