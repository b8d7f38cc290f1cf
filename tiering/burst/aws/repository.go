package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
)

// Association is a data repository association: a directory of a file system is a prefix of a bucket.
type Association struct {
	ID, State, Why string // CREATING, AVAILABLE, MISCONFIGURED, UPDATING, DELETING or FAILED
	Path           string // on the file system
	Repository     string // s3://bucket/prefix/
}

// Associate has the root of a file system be a prefix of a bucket. Nothing is exported by itself, because that would take a removal home, too; names that are in the bucket are imported
// by tasks. With the token of one that was asked for it is that one.
func (a *Account) Associate(ctx context.Context, fs, token, repository string, with map[string]string) (Association, error) {
	out, err := a.fsx.CreateDataRepositoryAssociation(ctx, &fsx.CreateDataRepositoryAssociationInput{ClientRequestToken: &token, FileSystemId: &fs, FileSystemPath: aws.String("/"),
		DataRepositoryPath: &repository, BatchImportMetaDataOnCreate: aws.Bool(false), Tags: tags(with)})
	if err != nil {
		return Association{}, a.failed("associate", fs, err)
	}
	made, err := association(out.Association)
	return made, a.failed("associate", fs, err)
}

// Associations are those of a file system.
func (a *Account) Associations(ctx context.Context, fs string) (all []Association, err error) {
	pages := fsx.NewDescribeDataRepositoryAssociationsPaginator(a.fsx, &fsx.DescribeDataRepositoryAssociationsInput{
		Filters: []types.Filter{{Name: types.FilterNameFileSystemId, Values: []string{fs}}}})
	err = a.pages("associations of "+fs, pages.HasMorePages, func() error {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for i := range page.Associations {
			one, err := association(&page.Associations[i])
			if of := aws.ToString(page.Associations[i].FileSystemId); err == nil && of != fs {
				err = odd("%s is of %q", one.ID, of)
			}
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

func association(d *types.DataRepositoryAssociation) (Association, error) {
	if d == nil {
		return Association{}, odd("it has no association")
	}
	s := Association{ID: aws.ToString(d.AssociationId), State: string(d.Lifecycle), Path: aws.ToString(d.FileSystemPath), Repository: aws.ToString(d.DataRepositoryPath)}
	if d.FailureDetails != nil {
		s.Why = mover.Printable(aws.ToString(d.FailureDetails.Message))
	}
	if !associationForm().MatchString(s.ID) {
		return Association{}, odd("an association %q", s.ID)
	}
	return s, nil
}

// Task is a data repository task.
type Task struct {
	ID, State, Why           string // PENDING, EXECUTING, SUCCEEDED, FAILED, CANCELING or CANCELED
	Kind                     string
	Paths                    []string
	Report                   string // the folder in which task-ID/ has its completion report; "" is none
	Total, Succeeded, Failed int64  // files
	Begun, Over              time.Time
	Tags                     map[string]string
}

// Ended reports whether a task does nothing any more.
func (t *Task) Ended() bool {
	return t.State == "SUCCEEDED" || t.State == "FAILED" || t.State == "CANCELED"
}

// pathsMost bounds the paths of a task (FSx API reference, CreateDataRepositoryTask).
const pathsMost = 100

// Begin asks for a task: an export of directories, relative to the root of the file system, a release of the space of what was exported of them, or an import of prefixes, as s3://…. No path would be everything, and is refused. mover.ErrHeld is that
// the file system has a task already. With the token of one that was asked for it is that one.
func (a *Account) Begin(ctx context.Context, fs, token, kind string, paths []string, report string, with map[string]string) (Task, error) {
	if len(paths) == 0 || len(paths) > pathsMost || slices.Contains(paths, "") {
		return Task{}, a.failed("begin", kind, fmt.Errorf("%w: %d paths, of which none may be empty; want 1 to %d", mover.ErrUsage, len(paths), pathsMost))
	}
	in := &fsx.CreateDataRepositoryTaskInput{ClientRequestToken: &token, FileSystemId: &fs, Type: types.DataRepositoryTaskType(kind), Paths: paths, Tags: tags(with),
		Report: &types.CompletionReport{Enabled: aws.Bool(true), Format: types.ReportFormatReportCsv20191124, Scope: types.ReportScopeFailedFilesOnly, Path: &report}}
	if kind == burst.ReleaseWork {
		in.ReleaseConfiguration = &types.ReleaseConfiguration{DurationSinceLastAccess: &types.DurationSinceLastAccess{Unit: types.UnitDays, Value: aws.Int64(0)}}
	}
	out, err := a.fsx.CreateDataRepositoryTask(ctx, in)
	if err != nil {
		return Task{}, a.failed("begin", kind+" of "+fs, err)
	}
	begun, err := task(out.DataRepositoryTask)
	return begun, a.failed("begin", kind+" of "+fs, err)
}

// Task tells of one.
func (a *Account) Task(ctx context.Context, id string) (Task, error) {
	out, err := a.fsx.DescribeDataRepositoryTasks(ctx, &fsx.DescribeDataRepositoryTasksInput{TaskIds: []string{id}})
	if err != nil {
		return Task{}, a.failed("look at", id, err)
	}
	if len(out.DataRepositoryTasks) != 1 {
		return Task{}, a.failed("look at", id, odd("%d tasks", len(out.DataRepositoryTasks)))
	}
	seen, err := task(&out.DataRepositoryTasks[0])
	if err == nil && seen.ID != id {
		err = odd("it is of %s", seen.ID)
	}
	return seen, a.failed("look at", id, err)
}

// Tasks are those of a file system, those that have ended, too, for as long as AWS tells of them.
func (a *Account) Tasks(ctx context.Context, fs string) (all []Task, err error) {
	pages := fsx.NewDescribeDataRepositoryTasksPaginator(a.fsx, &fsx.DescribeDataRepositoryTasksInput{
		Filters: []types.DataRepositoryTaskFilter{{Name: types.DataRepositoryTaskFilterNameFileSystemId, Values: []string{fs}}}})
	err = a.pages("tasks of "+fs, pages.HasMorePages, func() error {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for i := range page.DataRepositoryTasks {
			one, err := task(&page.DataRepositoryTasks[i])
			if of := aws.ToString(page.DataRepositoryTasks[i].FileSystemId); err == nil && of != fs {
				err = odd("%s is of %q", one.ID, of)
			}
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// Cancel asks that a task ends.
func (a *Account) Cancel(ctx context.Context, id string) error {
	_, err := a.fsx.CancelDataRepositoryTask(ctx, &fsx.CancelDataRepositoryTaskInput{TaskId: &id})
	return a.failed("cancel", id, err)
}

func task(d *types.DataRepositoryTask) (Task, error) {
	if d == nil {
		return Task{}, odd("it has no task")
	}
	t := Task{ID: aws.ToString(d.TaskId), State: string(d.Lifecycle), Kind: string(d.Type), Paths: d.Paths, Begun: aws.ToTime(d.StartTime), Over: aws.ToTime(d.EndTime), Tags: map[string]string{}}
	if d.FailureDetails != nil {
		t.Why = mover.Printable(aws.ToString(d.FailureDetails.Message))
	}
	if d.Report != nil {
		t.Report = aws.ToString(d.Report.Path)
	}
	if s := d.Status; s != nil {
		t.Total, t.Succeeded, t.Failed = aws.ToInt64(s.TotalCount), aws.ToInt64(s.SucceededCount), aws.ToInt64(s.FailedCount)
	}
	for _, g := range d.Tags {
		t.Tags[aws.ToString(g.Key)] = aws.ToString(g.Value)
	}
	if !taskForm().MatchString(t.ID) || t.Total < 0 || t.Succeeded < 0 || t.Failed < 0 {
		return Task{}, odd("a task %q of %d files, of which %d failed", t.ID, t.Total, t.Failed)
	}
	return t, nil
}
