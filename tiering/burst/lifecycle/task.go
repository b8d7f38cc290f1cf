package lifecycle

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/aws"
)

const (
	reports    = ".datamove/fsx" // below the prefix of the burst: listings and copies leave it out
	reportMost = 64 << 20        // bytes of a completion report that are read
	namesMost  = 5               // of what failed that an error names
)

// task has the file system do a data repository task, or goes on with one of that kind that was asked for before, waits for its end, and reads its report. One of which only a file failed is an error.
func (w *work) task(ctx context.Context, kind string, paths []string) (*burst.Work, error) {
	t := w.open(kind)
	if t == nil {
		w.record.Works = append(w.record.Works, burst.Work{Made: burst.Made{Token: w.record.Token("task", len(w.record.Works)+1), Since: w.now()}, Kind: kind, Paths: paths,
			Report: w.repository() + reports})
		t = &w.record.Works[len(w.record.Works)-1]
		if err := w.keep(); err != nil {
			return t, err
		}
	}
	if t.ID == "" {
		if err := w.ask(ctx, t); err != nil {
			return t, err
		}
	}
	return t, w.over(ctx, t)
}

// open is the task of a kind that has not ended.
func (w *work) open(kind string) *burst.Work {
	for _, t := range w.record.Open() {
		if t.Kind == kind {
			return t
		}
	}
	return nil
}

// ask has AWS begin a task, and waits while the file system has another one.
func (w *work) ask(ctx context.Context, t *burst.Work) error {
	err := w.Cloud.Await(ctx, func(ctx context.Context) (bool, error) {
		made, err := w.Cloud.Begin(ctx, w.record.FileSystem.ID, t.Token, t.Kind, t.Paths, t.Report, w.record.Tags)
		if errors.Is(err, mover.ErrHeld) {
			w.tell("file system %s has another task; waiting for its end", w.record.FileSystem.ID)
			return false, nil
		}
		t.ID = made.ID
		return err == nil, err
	})
	return errors.Join(err, w.keep())
}

// over waits for the end of a task, and reads what it says.
func (w *work) over(ctx context.Context, t *burst.Work) error {
	var end aws.Task
	err := w.Cloud.Await(ctx, func(ctx context.Context) (over bool, err error) {
		end, err = w.Cloud.Task(ctx, t.ID)
		return end.Ended(), err
	})
	if err != nil {
		return err
	}
	t.Total, t.Failed = end.Total, end.Failed
	failed, err := w.failures(ctx, t)
	if err != nil {
		return err // it has ended, and its report comes later
	}
	t.Ended = end.State
	if end.State != "SUCCEEDED" || end.Failed > 0 || len(failed) > 0 {
		t.Failed = max(t.Failed, int64(len(failed)))
		t.Why = why(end, failed)
		err = fmt.Errorf("%w: task %s of file system %s has %s, %d of %d files failed: %s", mover.ErrConflict, t.ID, w.record.FileSystem.ID, end.State, t.Failed, t.Total, t.Why)
	}
	return errors.Join(err, w.keep())
}

// failure is a line of a completion report.
type failure struct{ Path, Status, Code string }

func why(t aws.Task, all []failure) string {
	if len(all) == 0 {
		return t.Why
	}
	text := ""
	for i, f := range all {
		if i == namesMost {
			return text + fmt.Sprintf(", and %d more", len(all)-namesMost)
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s (%s)", mover.Printable(f.Path), mover.Printable(f.Code))
	}
	return text
}

// reportNames are what a completion report may be called: one of an export has the first name, and of imports some have seen the other.
var reportNames = []string{"failures.csv", "report.csv"}

// failures reads the completion report of a task. Where there is none, nothing failed, as long as the counts of the task say so, too.
func (w *work) failures(ctx context.Context, t *burst.Work) ([]failure, error) {
	dir, err := w.cloudly(reports)
	if err != nil {
		return nil, err
	}
	for _, name := range reportNames {
		text, err := w.Way.Text(ctx, dir.Child("task-"+strings.TrimPrefix(t.ID, "task-")).Child(name), reportMost)
		if errors.Is(err, mover.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("the report of task %s below %s: %w", t.ID, t.Report, err)
		}
		return parseReport(text)
	}
	return nil, nil
}

// parseReport reads the failures in a report of the format REPORT_CSV_20191124: FilePath, FileStatus, ErrorCode (FSx for Lustre User Guide, "Working with task completion reports").
func parseReport(text []byte) (all []failure, err error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil || len(row) < 3 {
			return nil, fmt.Errorf("%w: a report that can not be read: %w", mover.ErrCorrupt, errors.Join(err, fmt.Errorf("%d columns", len(row))))
		}
		if row[0] != "FilePath" && row[1] != "SUCCEEDED" {
			all = append(all, failure{row[0], row[1], row[2]})
		}
	}
}
