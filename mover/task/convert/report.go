package convert

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/rate"
)

// Totals is the sum of a plan on the wire.
func Totals(t plan.Totals) *pb.Totals {
	return &pb.Totals{
		Files: t.Files, Bytes: t.Bytes, Others: t.Others, Updates: t.Updates, Removes: t.Removes, Kept: t.Keeps, Dirs: t.Dirs,
		Links: t.Links, Compares: t.Compares, CompareBytes: t.CompareBytes, RemoveBytes: t.RemoveBytes, Conflicts: t.Conflicts,
	}
}

// PlanTotals is the inverse of Totals.
func PlanTotals(t *pb.Totals) plan.Totals {
	return plan.Totals{
		Files: t.GetFiles(), Bytes: t.GetBytes(), Others: t.GetOthers(), Updates: t.GetUpdates(), Removes: t.GetRemoves(), Keeps: t.GetKept(), Dirs: t.GetDirs(),
		Links: t.GetLinks(), Compares: t.GetCompares(), CompareBytes: t.GetCompareBytes(), RemoveBytes: t.GetRemoveBytes(), Conflicts: t.GetConflicts(),
	}
}

// Progress is a snapshot on the wire.
func Progress(s engine.Snapshot, now time.Time) *pb.Progress {
	p := &pb.Progress{
		Planned: Totals(s.Planned), PlanComplete: s.PlanComplete, FilesDone: s.FilesDone, BytesDone: s.BytesDone, Failed: s.Failed,
		InFlight: s.InFlight, Time: timestamppb.New(now), SourceWait: durationpb.New(s.SourceWait), TargetWait: durationpb.New(s.TargetWait),
		LinkWait: durationpb.New(s.LinkWait), LimitWait: durationpb.New(s.LimitWait),
	}
	if r := s.Rates; r != nil {
		p.BytesPerSecond, p.FilesPerSecond = r.Bytes, r.Files
		if r.Remaining > 0 {
			p.Remaining = durationpb.New(r.Remaining)
		}
	}
	if s.Slowest != "" {
		p.Slowest = []*pb.SlowItem{{Name: []byte(s.Slowest), Since: durationpb.New(s.SlowestSince)}}
	}
	return p
}

// Snapshot is the inverse of Progress.
func Snapshot(p *pb.Progress) engine.Snapshot {
	s := engine.Snapshot{
		Planned: PlanTotals(p.GetPlanned()), PlanComplete: p.GetPlanComplete(), FilesDone: p.GetFilesDone(), BytesDone: p.GetBytesDone(),
		Failed: p.GetFailed(), InFlight: p.GetInFlight(), SourceWait: p.GetSourceWait().AsDuration(), TargetWait: p.GetTargetWait().AsDuration(),
		LinkWait: p.GetLinkWait().AsDuration(), LimitWait: p.GetLimitWait().AsDuration(), QueueWait: p.GetQueueWait().AsDuration(),
		Rates: &rate.Reading{Bytes: p.GetBytesPerSecond(), Files: p.GetFilesPerSecond(), Remaining: p.GetRemaining().AsDuration()},
	}
	if slow := p.GetSlowest(); len(slow) > 0 {
		s.Slowest, s.SlowestSince = string(slow[0].GetName()), slow[0].GetSince().AsDuration()
	}
	return s
}

// Report is the end of a task on the wire.
func Report(r engine.Report) *pb.Report {
	out := &pb.Report{
		Planned: Totals(r.Planned), Files: r.Files, Bytes: r.Bytes, Others: r.Others, Updated: r.Updated, Removed: r.Removed,
		Kept: r.Kept, Failed: r.Failed, Elapsed: durationpb.New(r.Elapsed), Notes: r.Notes,
	}
	for _, level := range slices.Sorted(maps.Keys(r.Levels)) {
		out.Levels = append(out.Levels, &pb.LevelCount{Level: LevelOf(level), Files: r.Levels[level]})
	}
	for _, f := range r.Failures {
		out.Failures = append(out.Failures, &pb.Failure{
			Name: []byte(f.Name), Op: f.Op.String(), Kind: f.Kind.String(), Error: f.Err.Error(), ErrorKind: mover.KindName(f.Err),
		})
	}
	return out
}

// LocalReport is the inverse of Report.
func LocalReport(r *pb.Report) engine.Report {
	out := engine.Report{
		Planned: PlanTotals(r.GetPlanned()), Files: r.GetFiles(), Bytes: r.GetBytes(), Others: r.GetOthers(), Updated: r.GetUpdated(),
		Removed: r.GetRemoved(), Kept: r.GetKept(), Failed: r.GetFailed(), Elapsed: r.GetElapsed().AsDuration(), Notes: r.GetNotes(),
		Levels: map[mover.Level]int64{},
	}
	for _, l := range r.GetLevels() {
		out.Levels[levels[l.GetLevel()]] += l.GetFiles()
	}
	for _, f := range r.GetFailures() {
		kind, _ := mover.ParseKind(f.GetKind())
		op, _ := plan.ParseOp(f.GetOp())
		out.Failures = append(out.Failures, engine.Item{
			Name: string(f.GetName()), Op: op, Kind: kind, Err: Err(f.GetErrorKind(), f.GetError()),
		})
	}
	return out
}

// Err is an error that has travelled: it prints as text and is of the named kind.
// Without a text there is none.
func Err(kind, text string) error {
	if text == "" {
		return nil
	}
	return &travelled{text, mover.KindNamed(kind)}
}

type travelled struct {
	text string
	kind error
}

func (t *travelled) Error() string { return t.text }
func (t *travelled) Unwrap() error { return t.kind }
