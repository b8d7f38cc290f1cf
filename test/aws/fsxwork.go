package aws

import (
	"context"
	"strings"
	"time"
)

// settleTasks has each task do as much as the time that has passed is worth. One whose file system is gone stays as it ended.
func (s *Server) settleTasks(ctx context.Context, now time.Time) {
	for _, t := range s.tasks {
		if f := s.byID(t.FileSystemID); f != nil && !t.ended() {
			s.settleTask(ctx, t, f.tree, now)
		}
	}
}

func (s *Server) settleTask(ctx context.Context, t *dataTask, tree *Tree, now time.Time) {
	if t.Lifecycle == pending && !t.stalls && !now.Before(t.due) {
		s.begin(ctx, t, tree, t.due)
	}
	if t.Lifecycle == executing {
		end := t.began.Add(s.opts.Lasts.Executing)
		share := min(1, float64(now.Sub(t.began))/float64(s.opts.Lasts.Executing))
		for done := int(share * float64(t.Status.TotalCount)); t.Status.TotalCount-len(t.work) < done; {
			s.step(ctx, t, tree)
			t.Status.LastUpdatedTime = at(now)
		}
		if !now.Before(end) {
			s.finish(ctx, t, end)
		}
	}
	if t.Lifecycle == canceling && !now.Before(t.due) {
		t.Lifecycle, t.EndTime = canceled, at(t.due)
	}
}

// begin finds out what there is to do. A path that is not there fails the whole task, as documented.
func (s *Server) begin(ctx context.Context, t *dataTask, tree *Tree, when time.Time) {
	t.Lifecycle, t.StartTime, t.began = executing, at(when), when
	if t.Type == importTask {
		t.work = t.Paths
		for _, a := range s.linked(t.FileSystemID) {
			if len(t.Paths) == 0 {
				t.work = append(t.work, a.DataRepositoryPath)
			}
		}
		t.Status.TotalCount = len(t.work)
		return
	}
	for _, p := range t.Paths {
		if len(tree.below([]string{p}, func(*File) bool { return true })) == 0 && strings.Trim(p, "/") != "" {
			t.FailureDetails = &details{"the path " + printable(p) + " does not exist"}
		}
	}
	if t.FailureDetails == nil {
		t.work = tree.below(t.Paths, func(f *File) bool { return t.wants(tree, f, when) })
		t.Status.TotalCount = len(t.work)
	}
}

// wants: an export takes what is dirty, a release what is exported, and not used for long enough. What belongs to no association is skipped, and counted nowhere, as documented.
func (t *dataTask) wants(tree *Tree, f *File, now time.Time) bool {
	if t.Type == exportTask {
		_, a := tree.home(f)
		return f.Dirty && a != nil
	}
	idle := time.Duration(0)
	if r := t.ReleaseConfiguration; r != nil && r.DurationSinceLastAccess != nil {
		idle = time.Duration(*r.DurationSinceLastAccess.Value) * 24 * time.Hour
	}
	used := f.ATime
	for _, other := range []time.Time{f.MTime, f.changed} {
		if other.After(used) {
			used = other
		}
	}
	return f.Mode&TypeMask == TypeRegular && !f.Dirty && !f.Released && f.object != "" && now.Sub(used) >= idle
}

// step does one thing of a task.
func (s *Server) step(ctx context.Context, t *dataTask, tree *Tree) {
	name := t.work[0]
	t.work = t.work[1:]
	var bad []failure
	switch t.Type {
	case exportTask:
		if code := tree.export(ctx, name); code != "" {
			bad = []failure{{name, code}}
		}
	case releaseTask:
		if f := tree.files[name]; f != nil && !f.Dirty { // as it was when the task began
			f.Body, f.Released = nil, true
		}
	case importTask:
		bad = s.bringIn(ctx, t, tree, name)
	}
	t.failures = append(t.failures, bad...)
	t.Status.FailedCount = len(t.failures)
	t.Status.SucceededCount = t.Status.TotalCount - len(t.work) - len(t.failures)
}

// bringIn imports one path of a bucket.
func (s *Server) bringIn(ctx context.Context, t *dataTask, tree *Tree, object string) []failure {
	for _, a := range s.linked(t.FileSystemID) {
		if within(object, a.DataRepositoryPath) {
			bad, err := tree.importAll(ctx, a, object)
			if err != nil {
				bad = append(bad, failure{object, errorCode(err)})
			}
			return bad
		}
	}
	t.FailureDetails = &details{"the path " + printable(object) + " is in no data repository of the file system"}
	return nil
}

// finish writes the report, and then says how the task ended.
func (s *Server) finish(ctx context.Context, t *dataTask, when time.Time) {
	t.Lifecycle, t.EndTime = succeeded, at(when)
	if len(t.failures) > 0 && t.FailureDetails == nil {
		t.FailureDetails = &details{"some files failed: see the completion report"}
	}
	if *t.Report.Enabled && !t.silent {
		if err := s.opts.Store.put(ctx, t.reportName(), report(t.failures), nil); err != nil {
			t.FailureDetails = &details{"the completion report could not be written: " + errorCode(err)}
		}
	}
	if t.ends == failed && t.FailureDetails == nil {
		t.FailureDetails = &details{"ordered by the test"}
	}
	if t.FailureDetails != nil {
		t.Lifecycle = failed
	}
	if t.ends == succeeded {
		t.Lifecycle, t.FailureDetails = succeeded, nil
	}
}
