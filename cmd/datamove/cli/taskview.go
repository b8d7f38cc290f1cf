package cli

import (
	"time"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task/convert"
)

// taskView is a task of the service as JSON.
type taskView struct {
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
	Options   *optionsView      `json:"options,omitempty"`
	Progress  *progressView     `json:"progress,omitempty"`
	Report    *reportView       `json:"report,omitempty"`
}

// optionsView is how a task is done, as JSON.
type optionsView struct {
	Again          bool     `json:"again,omitempty"`
	Checksum       bool     `json:"checksum,omitempty"`
	Verify         string   `json:"verify,omitempty"`
	Preserve       []string `json:"preserve,omitempty"`
	Rules          []string `json:"rules,omitempty"`
	Names          int      `json:"names,omitempty"` // how many there are in the list
	Delete         bool     `json:"delete,omitempty"`
	DeleteFirst    bool     `json:"delete_before,omitempty"`
	MaxDelete      *int64   `json:"max_delete,omitempty"`
	MaxPercent     float64  `json:"max_delete_percent,omitempty"`
	BackupDir      string   `json:"backup_dir,omitempty"`
	Jobs           int32    `json:"jobs,omitempty"`
	BytesPerSecond int64    `json:"bytes_per_second,omitempty"`
	MemoryBytes    int64    `json:"memory_bytes,omitempty"`
	FailWhenFull   bool     `json:"fail_when_full,omitempty"`
	Released       string   `json:"released,omitempty"`
	NoReflink      bool     `json:"no_reflink,omitempty"`
	MayBeAbsent    bool     `json:"source_may_be_absent,omitempty"`
	Follow         bool     `json:"follow,omitempty"`
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
	nameView
	Seconds float64 `json:"seconds"`
	Agent   string  `json:"agent,omitempty"`
}

func viewTask(t *pb.Task) taskView {
	s := t.GetSpec()
	v := taskView{
		Schema: schemaTask, ID: t.GetId(), Command: commandOf(s.GetKind()), State: stateWord(t.GetState()), Phase: t.GetPhase(), Why: t.GetWhy(),
		Source: s.GetSource(), Sources: s.GetSources(), Target: s.GetTarget(), Dataset: t.GetDataset(),
		Owner: t.GetOwner().GetName(), UID: t.GetOwner().GetUid(), Project: s.GetProject(), Class: classWord(s.GetClass()), Node: s.GetNode(), Labels: s.GetLabels(),
		Agent: t.GetAgent(), Helpers: t.GetHelpers(), Epoch: t.GetEpoch(), Tries: t.GetTries(), Revision: t.GetRevision(),
		Created: stamp(t.GetCreateTime()), Started: stamp(t.GetStartTime()), FirstByte: stamp(t.GetFirstByteTime()), Ended: stamp(t.GetEndTime()),
		Error: t.GetError(), ErrorKind: t.GetErrorKind(), Remedy: t.GetReport().GetRemedy(), Options: viewOptions(s.GetOptions()), Progress: viewProgress(t.GetProgress()),
	}
	if api.Ended(t.GetState()) {
		v.Exit = &t.ExitCode
	}
	if t.GetReport() != nil {
		report := (&task{command: v.Command, id: v.ID, source: v.Source, target: v.Target}).viewReport(convert.LocalReport(t.GetReport()), endOf(t))
		v.Report = &report
	}
	return v
}

func viewOptions(o *pb.Options) *optionsView {
	if o == nil {
		return nil
	}
	v := &optionsView{
		Again: o.GetAgain(), Checksum: o.GetChecksum(), Verify: levelWord(o.GetVerify()), Preserve: o.GetPreserve(), Names: len(o.GetNames()),
		Delete: o.GetRemoveExtra(), DeleteFirst: o.GetRemoveFirst(), BackupDir: o.GetBackupDir(), Jobs: o.GetJobs(), BytesPerSecond: o.GetBytesPerSecond(), MemoryBytes: o.GetMemoryBytes(),
		FailWhenFull: o.GetFailWhenFull(), NoReflink: o.GetNoReflink(), Released: releasedWord(o.GetReleased()), MayBeAbsent: o.GetSourceMayBeAbsent(), Follow: o.GetFollow(),
	}
	for _, r := range o.GetRules() {
		v.Rules = append(v.Rules, map[bool]string{true: "exclude ", false: "include "}[r.GetExclude()]+r.GetPattern())
	}
	switch m := convert.MaxDelete(o); {
	case m.Set && m.Percent > 0:
		v.MaxPercent = m.Percent
	case m.Set:
		v.MaxDelete = &m.Entries
	}
	return v
}

// releasedWord is the way to treat released files; "" is the usual one.
func releasedWord(r pb.Released) string {
	return map[pb.Released]string{pb.Released_RELEASED_SKIP: "skip", pb.Released_RELEASED_FAIL: "fail"}[r]
}

func viewProgress(p *pb.Progress) *progressView {
	if p == nil {
		return nil
	}
	v := &progressView{
		Files: p.GetFilesDone(), Bytes: p.GetBytesDone(), Failed: p.GetFailed(), InFlight: p.GetInFlight(),
		BytesPerSecond: p.GetBytesPerSecond(), FilesPerSecond: p.GetFilesPerSecond(), PlanComplete: p.GetPlanComplete(),
		Planned: viewTotals(convert.PlanTotals(p.GetPlanned())), Time: stamp(p.GetTime()),
		Remaining:  p.GetRemaining().AsDuration().Seconds(),
		SourceWait: p.GetSourceWait().AsDuration().Seconds(), TargetWait: p.GetTargetWait().AsDuration().Seconds(),
		LinkWait: p.GetLinkWait().AsDuration().Seconds(), LimitWait: p.GetLimitWait().AsDuration().Seconds(), QueueWait: p.GetQueueWait().AsDuration().Seconds(),
	}
	for _, slow := range p.GetSlowest() {
		v.Slowest = append(v.Slowest, slowView{viewName(string(slow.GetName())), slow.GetSince().AsDuration().Seconds(), slow.GetAgent()})
	}
	return v
}
