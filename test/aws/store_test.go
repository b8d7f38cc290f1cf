package aws

import (
	"net/http"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// What one file system has exported, another one imports, through an S3 server that is not ours.
func TestRealStore(t *testing.T) {
	real := s3test.Start(t, false)
	now := NewClock()
	connections := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(connections.CloseIdleConnections)
	s := serve(t, Options{Now: now.Now, Store: &Store{Endpoint: real.Endpoint, Access: real.Access, Secret: real.Secret, Client: connections}})
	client := fsx.NewFromConfig(once(s))
	repository := sdk.String("s3://" + real.Bucket + "/burst-1/")
	system := func(name string) (string, *Tree) {
		made := must.Get(client.CreateFileSystem(t.Context(), scratch(name)))(t)
		now.Pass(5 * time.Minute)
		must.Get(client.CreateDataRepositoryAssociation(t.Context(), &fsx.CreateDataRepositoryAssociationInput{
			FileSystemId: made.FileSystem.FileSystemId, FileSystemPath: sdk.String("/ckpt"), DataRepositoryPath: repository}))(t)
		now.Pass(time.Minute)
		return *made.FileSystem.FileSystemId, s.FileSystem(*made.FileSystem.FileSystemId)
	}
	run := func(id string, kind types.DataRepositoryTaskType) {
		t.Helper()
		must.Get(client.CreateDataRepositoryTask(t.Context(), &fsx.CreateDataRepositoryTaskInput{FileSystemId: &id, Type: kind, Report: &types.CompletionReport{Enabled: sdk.Bool(false)}}))(t)
		now.Pass(2 * time.Minute)
		out := must.Get(client.DescribeDataRepositoryTasks(t.Context(), &fsx.DescribeDataRepositoryTasksInput{Filters: []types.DataRepositoryTaskFilter{
			{Name: types.DataRepositoryTaskFilterNameFileSystemId, Values: []string{id}}}}))(t)
		if got := out.DataRepositoryTasks[0]; got.Lifecycle != types.DataRepositoryTaskLifecycleSucceeded {
			t.Fatalf("%s is %s: %v", kind, got.Lifecycle, got.FailureDetails)
		}
	}
	from, tree := system("one")
	written := File{Name: "ckpt/step-9/rank 0 é", Body: []byte("weights"), Mode: TypeRegular | 0o640, UID: 500, GID: 501, MTime: time.Unix(1595002920, 123456789), ATime: time.Unix(1595002921, 0)}
	tree.Write(written)
	tree.Write(File{Name: "ckpt/latest", Body: []byte("step-9"), Mode: TypeSymlink | 0o777})
	tree.Write(File{Name: "ckpt/step-9", Mode: TypeDir | 0o750})
	run(from, types.DataRepositoryTaskTypeExport)
	to, other := system("two")
	run(to, types.DataRepositoryTaskTypeImport)
	files := other.Files()
	if len(files) != 3 || string(files[0].Body) != "step-9" || files[0].Mode != TypeSymlink|0o777 || files[1].Mode != TypeDir|0o750 {
		t.Fatalf("imported: %+v", files)
	}
	got := files[2]
	if got.Name != written.Name || got.Mode != written.Mode || got.UID != 500 || got.GID != 501 || !got.MTime.Equal(written.MTime) || !got.ATime.Equal(written.ATime) || got.Size != 7 || !got.Released {
		t.Errorf("imported: %+v", got)
	}
	if read := must.Get(other.Read(t.Context(), written.Name))(t); string(read.Body) != "weights" {
		t.Errorf("read, it is %q", read.Body)
	}
}
