package aws

import (
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/test/must"
)

func (x *site) association(t *testing.T) types.DataRepositoryAssociation {
	t.Helper()
	out := must.Get(x.client.DescribeDataRepositoryAssociations(t.Context(), &fsx.DescribeDataRepositoryAssociationsInput{
		Filters: []types.Filter{{Name: types.FilterNameFileSystemId, Values: []string{x.system}}}}))(t)
	return out.Associations[0]
}

func TestLinksDoNotOverlap(t *testing.T) {
	x := linked(t)
	for _, row := range []struct{ path, bucket, code string }{
		{"/ckpt/", "s3://cold/other/", "BadRequest"},
		{"/ckpt/deeper", "s3://cold/other/", "BadRequest"},
		{"/ckpt2", "s3://cold/ckpt2/", ""},
		{"/third", "s3://cold/ckpt/deeper/", "BadRequest"},
		{"/third", "s3://cold/", "BadRequest"},
		{"/", "s3://warm/", "BadRequest"},
		{"relative", "s3://warm/", "BadRequest"},
		{"/third", "gs://warm/", "BadRequest"},
		{"/third", "s3://warm/\n", "BadRequest"},
	} {
		_, err := x.client.CreateDataRepositoryAssociation(t.Context(), &fsx.CreateDataRepositoryAssociationInput{FileSystemId: &x.system, FileSystemPath: &row.path, DataRepositoryPath: &row.bucket})
		t.Log(row.path, row.bucket)
		wants(t, err, row.code)
	}
	for i := range 6 {
		_, err := x.client.CreateDataRepositoryAssociation(t.Context(), &fsx.CreateDataRepositoryAssociationInput{
			FileSystemId: &x.system, FileSystemPath: sdk.String(fmt.Sprintf("/n%d", i)), DataRepositoryPath: sdk.String(fmt.Sprintf("s3://cold/n%d", i))})
		wants(t, err, "")
	}
	_, err := x.client.CreateDataRepositoryAssociation(t.Context(), &fsx.CreateDataRepositoryAssociationInput{FileSystemId: &x.system, FileSystemPath: sdk.String("/ninth"), DataRepositoryPath: sdk.String("s3://cold/ninth")})
	wants(t, err, "BadRequest")
}

func TestOldLustreHasNoLinks(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now, Store: newObjects().store()})
	client := fsx.NewFromConfig(once(s))
	for _, old := range []func(*fsx.CreateFileSystemInput){
		func(in *fsx.CreateFileSystemInput) { in.FileSystemTypeVersion = sdk.String("2.10") },
		func(in *fsx.CreateFileSystemInput) {
			in.LustreConfiguration.DeploymentType = types.LustreDeploymentTypeScratch1
		},
	} {
		in := scratch("")
		in.ClientRequestToken = nil
		old(in)
		made := must.Get(client.CreateFileSystem(t.Context(), in))(t)
		link := &fsx.CreateDataRepositoryAssociationInput{FileSystemId: made.FileSystem.FileSystemId, FileSystemPath: sdk.String("/a"), DataRepositoryPath: sdk.String("s3://cold/a")}
		now.Pass(5 * time.Minute)
		_, err := client.CreateDataRepositoryAssociation(t.Context(), link)
		wants(t, err, "UnsupportedOperation")
	}
}

func TestLinkLives(t *testing.T) {
	x := linked(t)
	if a := x.association(t); a.Lifecycle != types.DataRepositoryLifecycleAvailable || *a.ImportedFileChunkSize != 1024 || *a.FileSystemPath != "/ckpt" {
		t.Errorf("it is %s: %v", a.Lifecycle, a)
	}
	x.tree.Write(File{Name: "ckpt/a", Body: []byte("a")})
	x.tree.Write(File{Name: "ckptother/b", Body: []byte("b")})
	out := must.Get(x.client.DeleteDataRepositoryAssociation(t.Context(), &fsx.DeleteDataRepositoryAssociationInput{AssociationId: &x.link, DeleteDataInFileSystem: sdk.Bool(true)}))(t)
	if out.Lifecycle != types.DataRepositoryLifecycleDeleting {
		t.Errorf("deleted, it is %s", out.Lifecycle)
	}
	if files := x.tree.Files(); len(files) != 1 || files[0].Name != "ckptother/b" {
		t.Errorf("what is left: %v", files)
	}
	x.Pass(time.Minute)
	_, err := x.client.DescribeDataRepositoryAssociations(t.Context(), &fsx.DescribeDataRepositoryAssociationsInput{AssociationIds: []string{x.link}})
	wants(t, err, "DataRepositoryAssociationNotFound")
}

func TestLinkIsMisconfigured(t *testing.T) {
	x := linked(t, func(in *fsx.CreateDataRepositoryAssociationInput) {
		in.S3 = &types.S3DataRepositoryConfiguration{AutoExportPolicy: &types.AutoExportPolicy{Events: []types.EventType{types.EventTypeNew}}}
	})
	x.Misconfigure(x.link, false)
	x.tree.Write(File{Name: "ckpt/a", Body: []byte("a")})
	x.Pass(time.Hour)
	if a := x.association(t); a.Lifecycle != types.DataRepositoryLifecycleMisconfigured || a.FailureDetails == nil || len(x.objects.bodies) != 0 {
		t.Errorf("it is %s, and exported %v", a.Lifecycle, sorted(x.objects.bodies))
	}
	x.Misconfigure(x.link, true)
	if a := x.association(t); a.Lifecycle != types.DataRepositoryLifecycleAvailable || a.FailureDetails != nil {
		t.Errorf("it is %s", a.Lifecycle)
	}
	if x.objects.bodies["cold/ckpt/a"] != "a" || x.tree.Files()[0].Dirty {
		t.Error("nothing was exported when it was well again")
	}
	x.Order("CreateDataRepositoryAssociation", 1, EndsMisconfigured)
	in := &fsx.CreateDataRepositoryAssociationInput{FileSystemId: &x.system, FileSystemPath: sdk.String("/two"), DataRepositoryPath: sdk.String("s3://cold/two")}
	made := must.Get(x.client.CreateDataRepositoryAssociation(t.Context(), in))(t)
	x.Pass(time.Minute)
	out := must.Get(x.client.DescribeDataRepositoryAssociations(t.Context(), &fsx.DescribeDataRepositoryAssociationsInput{AssociationIds: []string{*made.Association.AssociationId}}))(t)
	if got := out.Associations[0].Lifecycle; got != types.DataRepositoryLifecycleMisconfigured {
		t.Errorf("the second is %s", got)
	}
}

func TestLinkImportsAtOnce(t *testing.T) {
	x := linked(t)
	x.objects.bodies["cold/two/a"] = "a"
	must.Get(x.client.CreateDataRepositoryAssociation(t.Context(), &fsx.CreateDataRepositoryAssociationInput{
		FileSystemId: &x.system, FileSystemPath: sdk.String("/two"), DataRepositoryPath: sdk.String("s3://cold/two"), BatchImportMetaDataOnCreate: sdk.Bool(true)}))(t)
	x.Pass(time.Minute)
	_, err := x.client.CreateDataRepositoryTask(t.Context(), x.input(types.DataRepositoryTaskTypeExport))
	wants(t, err, "DataRepositoryTaskExecuting")
	x.Pass(2 * time.Minute)
	out := must.Get(x.client.DescribeDataRepositoryTasks(t.Context(), nil))(t)
	if task := out.DataRepositoryTasks; len(task) != 1 || task[0].Lifecycle != types.DataRepositoryTaskLifecycleSucceeded || task[0].Type != types.DataRepositoryTaskTypeImport {
		t.Errorf("tasks: %v", task)
	}
	if files := x.tree.Files(); len(files) != 1 || files[0].Name != "two/a" || !files[0].Released {
		t.Errorf("files: %v", files)
	}
}
