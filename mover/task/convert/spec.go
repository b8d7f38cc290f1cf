package convert

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/units"
)

// Kinds of tasks that a engine.Request can do.
var works = map[pb.TaskKind]engine.Work{
	pb.TaskKind_TASK_KIND_COPY: engine.Copy, pb.TaskKind_TASK_KIND_SYNC: engine.Sync, pb.TaskKind_TASK_KIND_VERIFY: engine.Verify,
	pb.TaskKind_TASK_KIND_STAGE: engine.Copy, pb.TaskKind_TASK_KIND_TIER: engine.Copy, pb.TaskKind_TASK_KIND_UNDO: engine.Copy,
}

// Levels by their names on the wire.
var levels = map[pb.Level]mover.Level{
	pb.Level_LEVEL_UNSPECIFIED: mover.Unchecked, pb.Level_LEVEL_CLONED: mover.Cloned, pb.Level_LEVEL_WRITTEN: mover.Written,
	pb.Level_LEVEL_SERVER: mover.Server, pb.Level_LEVEL_READ: mover.Read,
}

// Ways to treat released files by their names on the wire.
var releases = map[pb.Released]engine.Released{
	pb.Released_RELEASED_UNSPECIFIED: engine.ReleasedRestore, pb.Released_RELEASED_SKIP: engine.ReleasedSkip, pb.Released_RELEASED_FAIL: engine.ReleasedFail,
}

// ChangesSource reports whether a task changes its source: a run of a policy that takes files away, releases them, or gives them another layout.
func ChangesSource(spec *pb.TaskSpec) bool {
	t := spec.GetTiering()
	return t.GetRemove() || t.GetRelease() || t.GetLayout() != ""
}

// ComesHome reports whether a task has bytes come out of its target, or only asks for it: a step of a burst that brings home what jobs have saved, or asks what it has cost.
func ComesHome(spec *pb.TaskSpec) bool {
	switch spec.GetBurst().GetStep() {
	case pb.BurstStep_BURST_STEP_SYNC_BACK, pb.BurstStep_BURST_STEP_DOWN, pb.BurstStep_BURST_STEP_REAP, pb.BurstStep_BURST_STEP_COSTS:
		return true
	}
	return false
}

// ChangesBurst reports whether a task changes a burst, which one at a time may do; others only look at it.
func ChangesBurst(spec *pb.TaskSpec) bool {
	w := spec.GetBurst()
	return w != nil && w.GetStep() != pb.BurstStep_BURST_STEP_ESTIMATE && w.GetStep() != pb.BurstStep_BURST_STEP_COSTS && (w.GetStep() != pb.BurstStep_BURST_STEP_REAP || w.GetTake())
}

// Declares reports whether a step of a burst has its declaration, as it is to be. The others name the burst.
func Declares(step pb.BurstStep) bool {
	return step == pb.BurstStep_BURST_STEP_ESTIMATE || step == pb.BurstStep_BURST_STEP_UP || step == pb.BurstStep_BURST_STEP_ADOPT
}

// Follows reports whether a task copies or compares what links in its source lead to, also outside of it.
func Follows(spec *pb.TaskSpec) bool {
	kind := task.Of(spec)
	return kind.UserPaths && kind.Moves && spec.GetOptions().GetFollow()
}

// LevelOf is a level on the wire.
func LevelOf(l mover.Level) pb.Level {
	for on, level := range levels {
		if level == l {
			return on
		}
	}
	return pb.Level_LEVEL_UNSPECIFIED
}

// facts are the words of Options.preserve.
var facts = []struct {
	name string
	fact mover.Facts
}{
	{"mode", mover.FactMode}, {"owner", mover.FactOwner}, {"group", mover.FactGroup}, {"mtime", mover.FactMtime},
	{"atime", mover.FactAtime}, {"xattrs", mover.FactXattrs}, {"links", mover.FactLinks}, {"holes", mover.FactHoles},
	{"content", mover.FactCRC}, // none but the content
	{"headers", mover.FactHeaders}, {"metadata", mover.FactMetadata}, {"tags", mover.FactTags}, {"class", mover.FactClass},
	{"layout", mover.FactLayout},
	{"privileges", mover.FactPrivileges},
}

// The most of anything in a request.
const (
	maxNames   = 100_000
	maxRules   = 1000
	maxSources = 1000
	maxText    = 64 << 10
)

// WithPrivileges asks for mover.FactPrivileges beside what a spec preserves.
func WithPrivileges(preserve []string) []string {
	if len(preserve) == 0 { // all but what is asked for by name
		for _, f := range facts {
			if mover.AllFacts.Has(f.fact) {
				preserve = append(preserve, f.name)
			}
		}
	}
	return append(preserve, "privileges")
}

// Locate reads one location of a request: absolute, or in a tier.
func Locate(text string) (location.Location, error) {
	if len(text) > maxText {
		return location.Location{}, fmt.Errorf("%w: a location of %d bytes", mover.ErrUsage, len(text))
	}
	l, err := location.Parse(text)
	if err == nil && l.IsPath() && !strings.HasPrefix(l.Path, "/") {
		err = fmt.Errorf("%w: %s is relative, and a service has no working directory", mover.ErrUsage, mover.Printable(text))
	}
	return l, err
}

// Request is what a spec asks of this process. Locations are as resolve leaves them.
func Request(spec *pb.TaskSpec, resolve func(location.Location) (location.Location, error)) (r engine.Request, err error) {
	work, ok := works[spec.GetKind()]
	if !ok {
		return r, fmt.Errorf("%w: a task of kind %v moves nothing", mover.ErrUsage, spec.GetKind())
	}
	if r, err = options(spec.GetOptions()); err != nil {
		return r, err
	}
	if r.CompareBy == plan.BySize && spec.GetKind() != pb.TaskKind_TASK_KIND_COPY && spec.GetKind() != pb.TaskKind_TASK_KIND_SYNC {
		return r, fmt.Errorf("%w: a task of kind %v does not compare by size alone", mover.ErrUsage, spec.GetKind())
	}
	if r.Work = work; r.Follow && !Follows(spec) {
		return r, fmt.Errorf("%w: a task of kind %v follows no links", mover.ErrUsage, spec.GetKind())
	}
	ends := []struct {
		text string
		dst  *location.Location
	}{{spec.GetTarget(), &r.Target}}
	if len(spec.GetSources()) == 0 {
		ends = append(ends, struct {
			text string
			dst  *location.Location
		}{spec.GetSource(), &r.Source})
	}
	if len(spec.GetSources()) > maxSources {
		return r, fmt.Errorf("%w: %d sources; at most %d", mover.ErrUsage, len(spec.GetSources()), maxSources)
	}
	r.Sources = make([]location.Location, len(spec.GetSources()))
	for i, text := range spec.GetSources() {
		ends = append(ends, struct {
			text string
			dst  *location.Location
		}{text, &r.Sources[i]})
	}
	for _, e := range ends {
		l, err := Locate(e.text)
		if err == nil {
			l, err = resolve(l)
		}
		if err != nil {
			return r, err
		}
		*e.dst = l
	}
	if len(r.Sources) == 0 {
		r.Sources = nil
	}
	return r, nil
}

func options(o *pb.Options) (r engine.Request, err error) {
	r.CopyAll, r.Delete, r.DeleteFirst = o.GetAgain(), o.GetRemoveExtra(), o.GetRemoveFirst()
	r.Jobs, r.Bandwidth, r.Memory = int(o.GetJobs()), o.GetBytesPerSecond(), o.GetMemoryBytes()
	r.Backup, r.AllowMissingSource, r.Follow = o.GetBackupDir(), o.GetSourceMayBeAbsent(), o.GetFollow()
	switch {
	case o.GetChecksum() && o.GetSizeOnly():
		return r, fmt.Errorf("%w: files are compared by their checksum or by their size alone, and not by both", mover.ErrUsage)
	case o.GetChecksum():
		r.CompareBy = plan.ByContent
	case o.GetSizeOnly():
		r.CompareBy = plan.BySize
	}
	var ok bool
	if o.GetFailWhenFull() {
		r.OnNoSpace = engine.NoSpaceFail
	}
	if r.Released, ok = releases[o.GetReleased()]; !ok {
		return r, fmt.Errorf("%w: there is no way %v to treat released files", mover.ErrUsage, o.GetReleased())
	}
	if o.GetNoReflink() {
		r.Reflink = engine.ReflinkNever
	}
	if r.Verify, ok = levels[o.GetVerify()]; !ok {
		return r, fmt.Errorf("%w: there is no level %v", mover.ErrUsage, o.GetVerify())
	}
	if r.Preserve, err = parseFacts(o.GetPreserve()); err != nil {
		return r, err
	}
	r.MaxDelete = MaxDelete(o)
	r.Filter, err = filter(o)
	return r, err
}

// MaxDelete is the bound of removals that options set.
func MaxDelete(o *pb.Options) engine.MaxDelete {
	switch b := o.GetMaxDelete().GetBound().(type) {
	case *pb.MaxDelete_Entries:
		return engine.MaxDelete{Set: true, Entries: b.Entries}
	case *pb.MaxDelete_Percent:
		return engine.MaxDelete{Set: true, Percent: b.Percent}
	}
	return engine.MaxDelete{}
}

func parseFacts(names []string) (set mover.Facts, err error) {
names:
	for _, name := range names {
		for _, f := range facts {
			if f.name == name {
				set |= f.fact
				continue names
			}
		}
		return 0, fmt.Errorf("%w: %q is no fact to preserve", mover.ErrUsage, name)
	}
	if set.Has(mover.AllFacts &^ mover.FactCtime) { // it has no name, and goes with all of them
		set |= mover.FactCtime
	}
	return set, nil
}

func filter(o *pb.Options) (*plan.Filter, error) {
	if len(o.GetRules()) > maxRules || len(o.GetNames()) > maxNames {
		return nil, fmt.Errorf("%w: %d rules and %d names; at most %d and %d", mover.ErrUsage, len(o.GetRules()), len(o.GetNames()), maxRules, maxNames)
	}
	if len(o.GetRules()) == 0 && len(o.GetNames()) == 0 {
		return nil, nil
	}
	var rules []plan.Rule
	for _, r := range o.GetRules() {
		rules = append(rules, plan.Rule{Include: !r.GetExclude(), Pattern: r.GetPattern()})
	}
	var names *plan.Names
	if len(o.GetNames()) > 0 {
		var err error
		if names, err = plan.ReadNames(strings.NewReader(strings.Join(o.GetNames(), "\x00") + "\x00")); err != nil {
			return nil, err
		}
	}
	return plan.NewFilter(rules, names)
}

// MaxSpecBytes is the most that a task may have as it is asked for. What becomes of it has room beside it, in one record of the ledger.
const MaxSpecBytes = 896 << 10

// Fits says why a task is larger than a service takes; nil is fine.
func Fits(spec *pb.TaskSpec) error {
	size := proto.Size(spec)
	if size <= MaxSpecBytes {
		return nil
	}
	o := spec.GetOptions()
	return fmt.Errorf("%w: a task of %s (%s, %s); a service takes at most %s in one", mover.ErrUsage, units.Bytes(int64(size)),
		units.Plural(int64(len(o.GetNames())+len(spec.GetSources())), "name", "names"), units.Plural(int64(len(o.GetRules())), "pattern", "patterns"), units.Bytes(MaxSpecBytes))
}

// Spec is a request in the words of the API. What takes part comes apart from the
// filter, which can not be read back.
func Spec(r *engine.Request, rules []plan.Rule, names []string) (*pb.TaskSpec, error) {
	s := &pb.TaskSpec{Target: r.Target.String(), Options: &pb.Options{
		Again: r.CopyAll, Checksum: r.CompareBy == plan.ByContent, SizeOnly: r.CompareBy == plan.BySize, RemoveExtra: r.Delete, RemoveFirst: r.DeleteFirst, Jobs: int32(r.Jobs), BytesPerSecond: r.Bandwidth,
		MemoryBytes: r.Memory, BackupDir: r.Backup, FailWhenFull: r.OnNoSpace == engine.NoSpaceFail, NoReflink: r.Reflink == engine.ReflinkNever, SourceMayBeAbsent: r.AllowMissingSource, Follow: r.Follow,
		Verify: LevelOf(r.Verify), Names: names,
	}}
	for on, way := range releases {
		if way == r.Released {
			s.Options.Released = on
		}
	}
	if len(names) > maxNames {
		return nil, fmt.Errorf("%w: %d names in a list; a service takes %d", mover.ErrUsage, len(names), maxNames)
	}
	for _, k := range []pb.TaskKind{pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC, pb.TaskKind_TASK_KIND_VERIFY} {
		if works[k] == r.Work {
			s.Kind = k
		}
	}
	if len(r.Sources) == 0 {
		s.Source = r.Source.String()
	}
	for _, l := range r.Sources {
		s.Sources = append(s.Sources, l.String())
	}
	for _, f := range facts {
		if r.Preserve != 0 && r.Preserve.Has(f.fact) {
			s.Options.Preserve = append(s.Options.Preserve, f.name)
		}
	}
	for _, rule := range rules {
		s.Options.Rules = append(s.Options.Rules, &pb.Rule{Exclude: !rule.Include, Pattern: rule.Pattern})
	}
	switch m := r.MaxDelete; {
	case m.Set && m.Percent > 0:
		s.Options.MaxDelete = &pb.MaxDelete{Bound: &pb.MaxDelete_Percent{Percent: m.Percent}}
	case m.Set:
		s.Options.MaxDelete = &pb.MaxDelete{Bound: &pb.MaxDelete_Entries{Entries: m.Entries}}
	}
	return s, nil
}

// Describe is the spec of a task that reads a source and makes a manifest of it.
func Describe(source string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_DESCRIBE, Source: source}
}

// Remove is the spec of a task that removes the target of a request.
func Remove(r *engine.Request) (*pb.TaskSpec, error) {
	s, err := Spec(r, nil, nil)
	if err != nil {
		return nil, err
	}
	s.Kind, s.Source = pb.TaskKind_TASK_KIND_REMOVE, ""
	return s, nil
}
