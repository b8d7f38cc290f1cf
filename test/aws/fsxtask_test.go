package aws

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/test/must"
)

// site is a file system that is linked with s3://cold/ckpt/ at /ckpt.
type site struct {
	*Server
	*Clock
	client  *fsx.Client
	objects *objects
	system  string
	link    string
	tree    *Tree
}

func linked(t *testing.T, more ...func(*fsx.CreateDataRepositoryAssociationInput)) *site {
	t.Helper()
	x := &site{Clock: NewClock(), objects: newObjects()}
	x.Server = serve(t, Options{Now: x.Now, Store: x.objects.store()})
	x.client = fsx.NewFromConfig(once(x.Server))
	made := must.Get(x.client.CreateFileSystem(t.Context(), scratch("burst-1")))(t)
	x.system = *made.FileSystem.FileSystemId
	x.Pass(5 * time.Minute)
	in := &fsx.CreateDataRepositoryAssociationInput{FileSystemId: &x.system, FileSystemPath: sdk.String("/ckpt"), DataRepositoryPath: sdk.String("s3://cold/ckpt/")}
	for _, change := range more {
		change(in)
	}
	link := must.Get(x.client.CreateDataRepositoryAssociation(t.Context(), in))(t)
	x.link = *link.Association.AssociationId
	x.Pass(time.Minute)
	x.tree = x.FileSystem(x.system)
	return x
}

// start begins a task with a report.
func (x *site) start(t *testing.T, kind types.DataRepositoryTaskType, paths ...string) string {
	t.Helper()
	out := must.Get(x.client.CreateDataRepositoryTask(t.Context(), x.input(kind, paths...)))(t)
	return *out.DataRepositoryTask.TaskId
}

func (x *site) input(kind types.DataRepositoryTaskType, paths ...string) *fsx.CreateDataRepositoryTaskInput {
	return &fsx.CreateDataRepositoryTaskInput{FileSystemId: &x.system, Type: kind, Paths: paths, Report: &types.CompletionReport{
		Enabled: sdk.Bool(true), Format: types.ReportFormatReportCsv20191124, Scope: types.ReportScopeFailedFilesOnly, Path: sdk.String("s3://cold/ckpt/reports")}}
}

func (x *site) task(t *testing.T, id string) types.DataRepositoryTask {
	t.Helper()
	out := must.Get(x.client.DescribeDataRepositoryTasks(t.Context(), &fsx.DescribeDataRepositoryTasksInput{TaskIds: []string{id}}))(t)
	return out.DataRepositoryTasks[0]
}

func TestExportPutsObjects(t *testing.T) {
	x := linked(t)
	mtime := time.Unix(1595002920, 123456789)
	for _, f := range []File{
		{Name: "ckpt/a", Body: []byte("alpha"), Mode: 0o640, UID: 500, GID: 501, MTime: mtime, ATime: mtime},
		{Name: "ckpt/b", Body: []byte("beta"), Mode: 0o600},
		{Name: "ckpt/link", Body: []byte("a"), Mode: TypeSymlink | 0o777},
		{Name: "ckpt/dir", Mode: TypeDir | 0o750},
		{Name: "other/c", Body: []byte("not asked for")},
	} {
		x.tree.Write(f)
	}
	id := x.start(t, types.DataRepositoryTaskTypeExport, "ckpt")
	if got := x.task(t, id); got.Lifecycle != types.DataRepositoryTaskLifecyclePending || got.StartTime != nil {
		t.Errorf("at first it is %s", got.Lifecycle)
	}
	x.Pass(10*time.Second + 30*time.Second)
	got := x.task(t, id)
	if got.Lifecycle != types.DataRepositoryTaskLifecycleExecuting || *got.Status.TotalCount != 4 || *got.Status.SucceededCount != 2 {
		t.Errorf("half way it is %s, with %d of %d", got.Lifecycle, *got.Status.SucceededCount, *got.Status.TotalCount)
	}
	x.Pass(30 * time.Second)
	if got := x.task(t, id); got.Lifecycle != types.DataRepositoryTaskLifecycleSucceeded || *got.Status.SucceededCount != 4 || *got.Status.FailedCount != 0 || got.EndTime == nil {
		t.Errorf("at the end it is %s, with %d", got.Lifecycle, *got.Status.SucceededCount)
	}
	for key, body := range map[string]string{"cold/ckpt/a": "alpha", "cold/ckpt/b": "beta", "cold/ckpt/link": "a", "cold/ckpt/dir/": "",
		"cold/ckpt/reports/" + id + "/failures.csv": ""} {
		if got, ok := x.objects.bodies[key]; !ok || got != body {
			t.Errorf("%s is %q, and not %q", key, got, body)
		}
	}
	meta := x.objects.meta["cold/ckpt/a"]
	for name, want := range map[string]string{"file-permissions": "0100640", "file-owner": "500", "file-group": "501", "file-mtime": "1595002920123456789ns", "file-atime": "1595002920123456789ns"} {
		if got := meta.Get("X-Amz-Meta-" + name); got != want {
			t.Errorf("%s is %q, and not %q", name, got, want)
		}
	}
	if len(x.objects.bodies) != 5 {
		t.Errorf("objects: %v", sorted(x.objects.bodies))
	}
}

func TestExportFailsInPart(t *testing.T) {
	x := linked(t)
	x.tree.Write(File{Name: "ckpt/good", Body: []byte("1")})
	x.tree.Write(File{Name: "ckpt/named", Body: []byte("2")})
	x.tree.Write(File{Name: `ckpt/refused, "by" S3`, Body: []byte("3")})
	x.tree.Write(File{Name: "ckpt/\xff", Body: []byte("4")})
	x.tree.Write(File{Name: "ckpt/" + strings.Repeat("x", 1020), Body: []byte("5")})
	x.tree.FailExport("ckpt/named", "S3Error")
	x.objects.denied = "cold/ckpt/refused"
	run := func(lifecycle types.DataRepositoryTaskLifecycle, good, bad int64) string {
		t.Helper()
		id := x.start(t, types.DataRepositoryTaskTypeExport, "ckpt")
		x.Pass(2 * time.Minute)
		got := x.task(t, id)
		if got.Lifecycle != lifecycle || *got.Status.SucceededCount != good || *got.Status.FailedCount != bad || (got.FailureDetails != nil) != (lifecycle == types.DataRepositoryTaskLifecycleFailed) {
			t.Errorf("it is %s, with %d and %d failed", got.Lifecycle, *got.Status.SucceededCount, *got.Status.FailedCount)
		}
		return x.objects.bodies["cold/ckpt/reports/"+id+"/failures.csv"]
	}
	rows := must.Get(csv.NewReader(strings.NewReader(run(types.DataRepositoryTaskLifecycleFailed, 1, 4))).ReadAll())(t)
	want := [][]string{{"ckpt/named", "failed", "S3Error"}, {`ckpt/refused, "by" S3`, "failed", "S3AccessDenied"},
		{"ckpt/" + strings.Repeat("x", 1020), "failed", "PathSizeTooLong"}, {"ckpt/\xff", "failed", "InternalError"}}
	if !slices.EqualFunc(rows, want, slices.Equal) {
		t.Errorf("the report is %q, and not %q", rows, want)
	}
	x.Order("CreateDataRepositoryTask", 1, EndsSucceeded)
	run(types.DataRepositoryTaskLifecycleSucceeded, 0, 4)
	x.tree.FailExport("ckpt/named", "")
	x.objects.denied = ""
	x.tree.Remove("ckpt/\xff")
	x.tree.Remove("ckpt/" + strings.Repeat("x", 1020))
	run(types.DataRepositoryTaskLifecycleSucceeded, 2, 0)
	run(types.DataRepositoryTaskLifecycleSucceeded, 0, 0)
	x.Order("CreateDataRepositoryTask", 1, EndsFailed)
	run(types.DataRepositoryTaskLifecycleFailed, 0, 0)
}

func TestReleaseFreesWhatIsSafe(t *testing.T) {
	x := linked(t)
	x.tree.Write(File{Name: "ckpt/old", Body: []byte("old")})
	x.start(t, types.DataRepositoryTaskTypeExport, "ckpt")
	x.Pass(30 * time.Hour)
	x.tree.Write(File{Name: "ckpt/dirty", Body: []byte("dirty")})
	in := x.input(types.DataRepositoryTaskTypeEviction, "ckpt")
	release := func(days int64) {
		t.Helper()
		in.ReleaseConfiguration = &types.ReleaseConfiguration{DurationSinceLastAccess: &types.DurationSinceLastAccess{Unit: types.UnitDays, Value: &days}}
		out := must.Get(x.client.CreateDataRepositoryTask(t.Context(), in))(t)
		in.ClientRequestToken = nil
		x.Pass(2 * time.Minute)
		if got := x.task(t, *out.DataRepositoryTask.TaskId); got.Lifecycle != types.DataRepositoryTaskLifecycleSucceeded {
			t.Errorf("it is %s", got.Lifecycle)
		}
	}
	if release(2); x.tree.Files()[1].Released {
		t.Error("it was used 30 hours ago, and is released as if it were two days")
	}
	release(1)
	files := x.tree.Files()
	if !files[1].Released || files[1].Body != nil || files[1].Size != 3 || files[0].Released {
		t.Errorf("released: %+v", files)
	}
	got := must.Get(x.tree.Read(t.Context(), "ckpt/old"))(t)
	if string(got.Body) != "old" || got.Released {
		t.Errorf("read again, it is %q", got.Body)
	}
}

func TestImportReadsTheListing(t *testing.T) {
	x := linked(t)
	x.tree.Write(File{Name: "ckpt/mine", Body: []byte("newer")})
	for _, key := range []string{"ckpt/a", "ckpt/deep/b", "ckpt/deep/", "ckpt/mine", "ckpt2/c"} {
		x.objects.bodies["cold/"+key] = key
	}
	x.objects.meta["cold/ckpt/a"] = map[string][]string{"X-Amz-Meta-File-Permissions": {"0100600"}, "X-Amz-Meta-File-Owner": {"7"}, "X-Amz-Meta-File-Group": {"8"}, "X-Amz-Meta-File-Mtime": {"1595002920123456789ns"}}
	x.objects.meta["cold/ckpt/deep/b"] = map[string][]string{"X-Amz-Meta-File-Permissions": {"not octal"}}
	id := x.start(t, types.DataRepositoryTaskTypeImport)
	x.Pass(2 * time.Minute)
	if got := x.task(t, id); got.Lifecycle != types.DataRepositoryTaskLifecycleFailed || *got.Status.FailedCount != 1 {
		t.Errorf("it is %s, with %d failed", got.Lifecycle, *got.Status.FailedCount)
	}
	if got := x.objects.bodies["cold/ckpt/reports/"+id+"/report.csv"]; got != "ckpt/deep/b,failed,S3Error\r\n" {
		t.Errorf("the report is %q", got)
	}
	delete(x.objects.bodies, "cold/ckpt/reports/"+id+"/report.csv")
	delete(x.objects.meta, "cold/ckpt/deep/b")
	id = x.start(t, types.DataRepositoryTaskTypeImport, "s3://cold/ckpt/deep/")
	x.Pass(2 * time.Minute)
	if got := x.task(t, id); got.Lifecycle != types.DataRepositoryTaskLifecycleSucceeded {
		t.Errorf("it is %s", got.Lifecycle)
	}
	files := x.tree.Files()
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f.Name
	}
	if !slices.Equal(names, []string{"ckpt/a", "ckpt/deep", "ckpt/deep/b", "ckpt/mine"}) {
		t.Fatalf("files: %q", names)
	}
	if a := files[0]; a.Mode != TypeRegular|0o600 || a.UID != 7 || a.GID != 8 || a.Size != 6 || !a.Released || a.Dirty || a.MTime.UnixNano() != 1595002920123456789 {
		t.Errorf("imported: %+v", a)
	}
	if files[1].Mode != TypeDir|0o755 || string(files[3].Body) != "newer" {
		t.Errorf("imported: %+v", files)
	}
	if got := must.Get(x.tree.Read(t.Context(), "ckpt/a"))(t); string(got.Body) != "ckpt/a" {
		t.Errorf("read, it is %q", got.Body)
	}
	if err := x.bad(t, types.DataRepositoryTaskTypeImport, "s3://elsewhere/x"); err == "" {
		t.Error("a path in no data repository was imported")
	}
}

// bad says how a task fails as a whole.
func (x *site) bad(t *testing.T, kind types.DataRepositoryTaskType, path string) string {
	t.Helper()
	id := x.start(t, kind, path)
	x.Pass(2 * time.Minute)
	got := x.task(t, id)
	if got.Lifecycle != types.DataRepositoryTaskLifecycleFailed {
		t.Errorf("it is %s", got.Lifecycle)
		return ""
	}
	return *got.FailureDetails.Message
}

func TestOneTaskAtATime(t *testing.T) {
	x := linked(t)
	x.tree.Write(File{Name: "ckpt/a", Body: []byte("a")})
	x.tree.Write(File{Name: "ckpt/b", Body: []byte("b")})
	in := x.input(types.DataRepositoryTaskTypeExport, "ckpt")
	in.ClientRequestToken = sdk.String("one")
	first := must.Get(x.client.CreateDataRepositoryTask(t.Context(), in))(t)
	again := must.Get(x.client.CreateDataRepositoryTask(t.Context(), in))(t)
	id := first.DataRepositoryTask.TaskId
	if *again.DataRepositoryTask.TaskId != *id {
		t.Error("one token made two tasks")
	}
	_, err := x.client.CreateDataRepositoryTask(t.Context(), x.input(types.DataRepositoryTaskTypeExport, "ckpt"))
	var busy *types.DataRepositoryTaskExecuting
	if !errors.As(err, &busy) {
		t.Errorf("a second task: %v", err)
	}
	_, err = x.client.DeleteFileSystem(t.Context(), &fsx.DeleteFileSystemInput{FileSystemId: &x.system})
	wants(t, err, "BadRequest")
	x.Pass(40 * time.Second) // half of it is done
	out := must.Get(x.client.CancelDataRepositoryTask(t.Context(), &fsx.CancelDataRepositoryTaskInput{TaskId: id}))(t)
	if out.Lifecycle != types.DataRepositoryTaskLifecycleCanceling {
		t.Errorf("it is %s", out.Lifecycle)
	}
	x.Pass(time.Minute)
	got := x.task(t, *id)
	if got.Lifecycle != types.DataRepositoryTaskLifecycleCanceled || *got.Status.SucceededCount != 1 || x.objects.bodies["cold/ckpt/a"] != "a" || len(x.objects.bodies) != 1 {
		t.Errorf("it is %s, with %v", got.Lifecycle, sorted(x.objects.bodies))
	}
	_, err = x.client.CancelDataRepositoryTask(t.Context(), &fsx.CancelDataRepositoryTaskInput{TaskId: id})
	wants(t, err, "DataRepositoryTaskEnded")
	_, err = x.client.CancelDataRepositoryTask(t.Context(), &fsx.CancelDataRepositoryTaskInput{TaskId: sdk.String("task-00000000000000000")})
	wants(t, err, "DataRepositoryTaskNotFound")
	ended := must.Get(x.client.DescribeDataRepositoryTasks(t.Context(), &fsx.DescribeDataRepositoryTasksInput{Filters: []types.DataRepositoryTaskFilter{
		{Name: types.DataRepositoryTaskFilterNameTaskLifecycle, Values: []string{"SUCCEEDED", "FAILED"}}}}))(t)
	if len(ended.DataRepositoryTasks) != 0 {
		t.Errorf("filtered: %v", ended.DataRepositoryTasks)
	}
	_, err = x.client.DeleteFileSystem(t.Context(), &fsx.DeleteFileSystemInput{FileSystemId: &x.system})
	wants(t, err, "")
}

func TestTasksThatAreNotTaken(t *testing.T) {
	x := linked(t)
	for _, row := range []struct {
		name, code string
		change     func(*fsx.CreateDataRepositoryTaskInput)
	}{
		{"101 paths", "BadRequest", func(in *fsx.CreateDataRepositoryTaskInput) { in.Paths = make([]string, 101) }},
		{"a line break", "BadRequest", func(in *fsx.CreateDataRepositoryTaskInput) { in.Paths = []string{"a\nb"} }},
		{"a report elsewhere", "BadRequest", func(in *fsx.CreateDataRepositoryTaskInput) { in.Report.Path = sdk.String("s3://cold/elsewhere") }},
		{"a report without scope", "BadRequest", func(in *fsx.CreateDataRepositoryTaskInput) { in.Report.Scope = "" }},
		{"a release's configuration", "BadRequest", func(in *fsx.CreateDataRepositoryTaskInput) { in.ReleaseConfiguration = &types.ReleaseConfiguration{} }},
		{"no file system", "FileSystemNotFound", func(in *fsx.CreateDataRepositoryTaskInput) { in.FileSystemId = sdk.String("fs-00000000000000000") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := x.input(types.DataRepositoryTaskTypeExport, "ckpt")
			row.change(in)
			_, err := x.client.CreateDataRepositoryTask(t.Context(), in)
			wants(t, err, row.code)
		})
	}
	if why := x.bad(t, types.DataRepositoryTaskTypeExport, "none"); why == "" {
		t.Error("a path that is not there was exported")
	}
	_, err := x.client.UpdateDataRepositoryAssociation(t.Context(), &fsx.UpdateDataRepositoryAssociationInput{AssociationId: &x.link,
		S3: &types.S3DataRepositoryConfiguration{AutoExportPolicy: &types.AutoExportPolicy{Events: []types.EventType{types.EventTypeNew}}}})
	wants(t, err, "")
	_, err = x.client.CreateDataRepositoryTask(t.Context(), x.input(types.DataRepositoryTaskTypeExport, "ckpt"))
	wants(t, err, "BadRequest")
}

func TestReportsAreEncoded(t *testing.T) {
	got := report([]failure{{"@filename.txt", "S3Error"}, {"file,name.txt", "S3Error"}, {`file"name.txt`, "S3Error"}, {"dir1/myLargeFile", "FileSizeTooLarge"}})
	const want = "\"\"\"@filename.txt\"\"\",failed,S3Error\r\n\"file,name.txt\",failed,S3Error\r\n\"file\"\"name.txt\",failed,S3Error\r\ndir1/myLargeFile,failed,FileSizeTooLarge\r\n"
	if string(got) != want {
		t.Errorf("the report is %q, and not %q", got, want)
	}
}

// What an export says nothing of, and a client has to look for itself.
func TestExportIsSilent(t *testing.T) {
	x := linked(t)
	x.tree.Write(File{Name: "scratch/a", Body: []byte("a")})
	x.Order("CreateDataRepositoryTask", 1, NoReport)
	id := x.start(t, types.DataRepositoryTaskTypeExport, "scratch")
	x.Pass(2 * time.Minute)
	if got := x.task(t, id); got.Lifecycle != types.DataRepositoryTaskLifecycleSucceeded || *got.Status.TotalCount != 0 {
		t.Errorf("it is %s, with %d", got.Lifecycle, *got.Status.TotalCount)
	}
	if files := x.tree.Files(); !files[0].Dirty || len(x.objects.bodies) != 0 {
		t.Errorf("%v, and %v", files, sorted(x.objects.bodies))
	}
}

func TestImportIsParticular(t *testing.T) {
	x := linked(t)
	for _, key := range []string{"ckpt/../up", "ckpt/double//slash", "ckpt/frozen", "ckpt/plain", "ckpt/turned"} {
		x.objects.bodies["cold/"+key] = key
	}
	x.objects.meta["cold/ckpt/frozen"] = map[string][]string{"X-Amz-Storage-Class": {"GLACIER"}}
	bring := func() string {
		t.Helper()
		id := x.start(t, types.DataRepositoryTaskTypeImport, "s3://cold/ckpt/")
		x.Pass(2 * time.Minute)
		x.task(t, id)
		text := x.objects.bodies["cold/ckpt/reports/"+id+"/report.csv"]
		delete(x.objects.bodies, "cold/ckpt/reports/"+id+"/report.csv")
		return text
	}
	const first = "up,failed,S3ObjectPathNotPosixCompliant\r\nckpt/double//slash,failed,S3ObjectPathNotPosixCompliant\r\nckpt/frozen,failed,S3ObjectInUnsupportedTier\r\n"
	if got := bring(); got != "ckpt/../"+first {
		t.Errorf("the report is %q", got)
	}
	x.objects.meta["cold/ckpt/turned"] = map[string][]string{"X-Amz-Meta-File-Permissions": {"0120777"}}
	if got := bring(); got != "ckpt/../"+first+"ckpt/turned,failed,S3ObjectTypeMismatch\r\n" {
		t.Errorf("the report is %q", got)
	}
}
