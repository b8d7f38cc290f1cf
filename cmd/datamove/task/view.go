package task

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	tasks "datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

const schemaTask = "datamove.task/v1"

// view is a task of the service as JSON.
type view struct {
	Schema    string            `json:"schema"`
	ID        string            `json:"id"`
	Command   string            `json:"command"`
	State     string            `json:"state"`
	Phase     string            `json:"phase,omitempty"`
	Why       string            `json:"why,omitempty"`
	Source    string            `json:"source,omitempty"`
	Sources   []string          `json:"sources,omitempty"`
	Target    string            `json:"target,omitempty"`
	Dataset   string            `json:"dataset,omitempty"`
	Owner     string            `json:"owner"`
	UID       uint32            `json:"uid"`
	Project   string            `json:"project,omitempty"`
	Class     string            `json:"class,omitempty"`
	Node      string            `json:"node,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Agent     string            `json:"agent,omitempty"`
	Helpers   []string          `json:"helpers,omitempty"`
	Epoch     uint64            `json:"epoch,omitempty"`
	Tries     int32             `json:"tries,omitempty"`
	Created   *time.Time        `json:"created,omitempty"`
	Started   *time.Time        `json:"started,omitempty"`
	FirstByte *time.Time        `json:"first_byte,omitempty"`
	Ended     *time.Time        `json:"ended,omitempty"`
	Revision  uint64            `json:"revision"`
	Exit      *int32            `json:"exit,omitempty"` // when it has ended
	Error     string            `json:"error,omitempty"`
	ErrorKind string            `json:"error_kind,omitempty"`
	Remedy    string            `json:"remedy,omitempty"`
	Options   map[string]any    `json:"options,omitzero"`
	Progress  *progressView     `json:"progress,omitempty"`
	Report    *ReportView       `json:"report,omitempty"`
}

// progressView is a moment of a task, as JSON.
type progressView struct {
	Files          int64       `json:"files"`
	Bytes          int64       `json:"bytes"`
	Failed         int64       `json:"failed"`
	InFlight       int64       `json:"in_flight"`
	BytesPerSecond float64     `json:"bytes_per_second"`
	FilesPerSecond float64     `json:"files_per_second"`
	Remaining      float64     `json:"remaining_seconds,omitempty"` // not known where it is missing
	PlanComplete   bool        `json:"plan_complete"`
	Planned        *totalsView `json:"planned"`
	Time           *time.Time  `json:"time,omitempty"`
	SourceWait     float64     `json:"source_wait_seconds"`
	TargetWait     float64     `json:"target_wait_seconds"`
	LinkWait       float64     `json:"link_wait_seconds"`
	LimitWait      float64     `json:"limit_wait_seconds"`
	QueueWait      float64     `json:"queue_wait_seconds"`
	Slowest        []slowView  `json:"slowest,omitempty"`
}

// slowView is a name that is being moved, as JSON.
type slowView struct {
	cli.NameView
	Seconds float64 `json:"seconds"`
	Agent   string  `json:"agent,omitempty"`
}

func viewOf(t *pb.Task) view {
	s := t.GetSpec()
	v := view{
		Schema: schemaTask, ID: t.GetId(), Command: commandOf(s.GetKind()), State: cli.StateWord(t.GetState()), Phase: t.GetPhase(), Why: t.GetWhy(),
		Source: s.GetSource(), Sources: s.GetSources(), Target: s.GetTarget(), Dataset: t.GetDataset(),
		Owner: t.GetOwner().GetName(), UID: t.GetOwner().GetUid(), Project: s.GetProject(), Class: cli.ClassWord(s.GetClass()), Node: s.GetNode(), Labels: s.GetLabels(),
		Agent: t.GetAgent(), Helpers: t.GetHelpers(), Epoch: t.GetEpoch(), Tries: t.GetTries(), Revision: t.GetRevision(),
		Created: cli.Stamp(t.GetCreateTime()), Started: cli.Stamp(t.GetStartTime()), FirstByte: cli.Stamp(t.GetFirstByteTime()), Ended: cli.Stamp(t.GetEndTime()),
		Error: t.GetError(), ErrorKind: t.GetErrorKind(), Remedy: t.GetReport().GetRemedy(), Options: viewOptions(s.GetOptions()), Progress: viewProgress(t.GetProgress()),
	}
	if api.Ended(t.GetState()) {
		v.Exit = &t.ExitCode
	}
	if t.GetReport() != nil {
		report := (&Request{Command: v.Command, ID: v.ID, Source: v.Source, Target: v.Target}).ViewReport(convert.LocalReport(t.GetReport()), EndError(t))
		v.Report = &report
	}
	return v
}

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

func viewProgress(p *pb.Progress) *progressView {
	if p == nil {
		return nil
	}
	v := &progressView{
		Files: p.GetFilesDone(), Bytes: p.GetBytesDone(), Failed: p.GetFailed(), InFlight: p.GetInFlight(),
		BytesPerSecond: p.GetBytesPerSecond(), FilesPerSecond: p.GetFilesPerSecond(), PlanComplete: p.GetPlanComplete(),
		Planned: viewTotals(convert.PlanTotals(p.GetPlanned())), Time: cli.Stamp(p.GetTime()),
		Remaining:  p.GetRemaining().AsDuration().Seconds(),
		SourceWait: p.GetSourceWait().AsDuration().Seconds(), TargetWait: p.GetTargetWait().AsDuration().Seconds(),
		LinkWait: p.GetLinkWait().AsDuration().Seconds(), LimitWait: p.GetLimitWait().AsDuration().Seconds(), QueueWait: p.GetQueueWait().AsDuration().Seconds(),
	}
	for _, slow := range p.GetSlowest() {
		v.Slowest = append(v.Slowest, slowView{cli.ViewName(string(slow.GetName())), slow.GetSince().AsDuration().Seconds(), slow.GetAgent()})
	}
	return v
}

// commandOf is how a person would ask for a task of that kind.
func commandOf(kind pb.TaskKind) string {
	return cmp.Or(tasks.KindOf(kind).Command, tasks.KindWord(kind))
}
