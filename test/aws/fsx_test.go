package aws

import (
	"errors"
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/test/must"
)

func TestFileSystemLives(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now})
	client := fsx.NewFromConfig(once(s))
	made := must.Get(client.CreateFileSystem(t.Context(), scratch("burst-1")))(t)
	id := made.FileSystem.FileSystemId
	lifecycle := func() types.FileSystemLifecycle {
		t.Helper()
		out := must.Get(client.DescribeFileSystems(t.Context(), &fsx.DescribeFileSystemsInput{FileSystemIds: []string{*id}}))(t)
		return out.FileSystems[0].Lifecycle
	}
	if got := lifecycle(); got != types.FileSystemLifecycleCreating {
		t.Errorf("a new file system is %s", got)
	}
	now.Pass(5*time.Minute - time.Second)
	if got := lifecycle(); got != types.FileSystemLifecycleCreating {
		t.Errorf("a second too early it is %s", got)
	}
	now.Pass(time.Second)
	if got := lifecycle(); got != types.FileSystemLifecycleAvailable {
		t.Errorf("after its time it is %s", got)
	}
	must.Get(client.DeleteFileSystem(t.Context(), &fsx.DeleteFileSystemInput{FileSystemId: id}))(t)
	if got := lifecycle(); got != types.FileSystemLifecycleDeleting {
		t.Errorf("deleted, it is %s", got)
	}
	now.Pass(2 * time.Minute)
	_, err := client.DescribeFileSystems(t.Context(), &fsx.DescribeFileSystemsInput{FileSystemIds: []string{*id}})
	var missing *types.FileSystemNotFound
	if !errors.As(err, &missing) {
		t.Errorf("gone, the error is %v", err)
	}
}

func TestTokenMakesOne(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	client := fsx.NewFromConfig(patient(s))
	s.Order("CreateFileSystem", 1, Throttled)
	s.Order("CreateFileSystem", 1, AnswerLost)
	first := must.Get(client.CreateFileSystem(t.Context(), scratch("burst-1")))(t)
	again := must.Get(client.CreateFileSystem(t.Context(), scratch("burst-1")))(t)
	if *first.FileSystem.FileSystemId != *again.FileSystem.FileSystemId {
		t.Error("one token made two file systems")
	}
	other := scratch("burst-1")
	other.StorageCapacity = sdk.Int32(2400)
	_, err := client.CreateFileSystem(t.Context(), other)
	wants(t, err, "IncompatibleParameterError")
	if n := s.Calls("CreateFileSystem"); n != 5 {
		t.Errorf("%d calls", n)
	}
	all := must.Get(client.DescribeFileSystems(t.Context(), nil))(t)
	if len(all.FileSystems) != 1 {
		t.Errorf("there are %d file systems", len(all.FileSystems))
	}
}

func TestCreateHoldsToTheRules(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	client := fsx.NewFromConfig(once(s))
	p2 := func(gib, per int32) func(*fsx.CreateFileSystemInput) {
		return func(in *fsx.CreateFileSystemInput) {
			in.StorageCapacity = &gib
			in.LustreConfiguration = &types.CreateFileSystemLustreConfiguration{DeploymentType: types.LustreDeploymentTypePersistent2, PerUnitStorageThroughput: &per}
		}
	}
	gib := func(n int32) func(*fsx.CreateFileSystemInput) {
		return func(in *fsx.CreateFileSystemInput) { in.StorageCapacity = &n }
	}
	metadata := func(in *fsx.CreateFileSystemInput, mode types.MetadataConfigurationMode, iops *int32) {
		in.LustreConfiguration.MetadataConfiguration = &types.CreateFileSystemLustreMetadataConfiguration{Mode: mode, Iops: iops}
	}
	for _, row := range []struct {
		name   string
		code   string
		change []func(*fsx.CreateFileSystemInput)
	}{
		{"1200", "", []func(*fsx.CreateFileSystemInput){gib(1200)}},
		{"2400", "", []func(*fsx.CreateFileSystemInput){gib(2400)}},
		{"4800", "", []func(*fsx.CreateFileSystemInput){gib(4800)}},
		{"3600 is for SCRATCH_1", "BadRequest", []func(*fsx.CreateFileSystemInput){gib(3600)}},
		{"0", "BadRequest", []func(*fsx.CreateFileSystemInput){gib(0)}},
		{"throughput of SCRATCH_2", "InvalidPerUnitStorageThroughput", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) { in.LustreConfiguration.PerUnitStorageThroughput = sdk.Int32(125) }}},
		{"PERSISTENT_2", "", []func(*fsx.CreateFileSystemInput){p2(1200, 125)}},
		{"PERSISTENT_2 with 1000", "", []func(*fsx.CreateFileSystemInput){p2(2400, 1000)}},
		{"PERSISTENT_2 with 200", "InvalidPerUnitStorageThroughput", []func(*fsx.CreateFileSystemInput){p2(1200, 200)}},
		{"PERSISTENT_2 without", "InvalidPerUnitStorageThroughput", []func(*fsx.CreateFileSystemInput){p2(1200, 125), func(in *fsx.CreateFileSystemInput) { in.LustreConfiguration.PerUnitStorageThroughput = nil }}},
		{"PERSISTENT_2 with 2.10", "BadRequest", []func(*fsx.CreateFileSystemInput){p2(1200, 125), func(in *fsx.CreateFileSystemInput) { in.FileSystemTypeVersion = sdk.String("2.10") }}},
		{"all that PERSISTENT_2 can", "", []func(*fsx.CreateFileSystemInput){p2(4800, 1000), func(in *fsx.CreateFileSystemInput) {
			in.LustreConfiguration.EfaEnabled, in.LustreConfiguration.DataCompressionType = sdk.Bool(true), types.DataCompressionTypeLz4
			in.KmsKeyId = sdk.String("arn:aws:kms:us-east-1:123456789012:key/1")
			metadata(in, types.MetadataConfigurationModeUserProvisioned, sdk.Int32(24000))
		}}},
		{"EFA grows in other steps", "BadRequest", []func(*fsx.CreateFileSystemInput){p2(2400, 1000), func(in *fsx.CreateFileSystemInput) {
			in.LustreConfiguration.EfaEnabled = sdk.Bool(true)
			metadata(in, types.MetadataConfigurationModeAutomatic, nil)
		}}},
		{"EFA without metadata", "BadRequest", []func(*fsx.CreateFileSystemInput){p2(4800, 1000), func(in *fsx.CreateFileSystemInput) { in.LustreConfiguration.EfaEnabled = sdk.Bool(true) }}},
		{"4500 IOPS", "BadRequest", []func(*fsx.CreateFileSystemInput){p2(1200, 125), func(in *fsx.CreateFileSystemInput) {
			metadata(in, types.MetadataConfigurationModeUserProvisioned, sdk.Int32(4500))
		}}},
		{"AUTOMATIC with IOPS", "BadRequest", []func(*fsx.CreateFileSystemInput){p2(1200, 125), func(in *fsx.CreateFileSystemInput) {
			metadata(in, types.MetadataConfigurationModeAutomatic, sdk.Int32(1500))
		}}},
		{"a key for SCRATCH_2", "BadRequest", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) { in.KmsKeyId = sdk.String("alias/x") }}},
		{"no subnet", "InvalidNetworkSettings", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) { in.SubnetIds = []string{} }}},
		{"no configuration", "MissingFileSystemConfiguration", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) { in.LustreConfiguration = nil }}},
		{"a tag of AWS", "BadRequest", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) {
			in.Tags = []types.Tag{{Key: sdk.String("aws:x"), Value: sdk.String("")}}
		}}},
		{"another type", "BadRequest", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) { in.FileSystemType = types.FileSystemTypeOpenzfs }}},
		{"a member that the fake does not know", "SerializationException", []func(*fsx.CreateFileSystemInput){func(in *fsx.CreateFileSystemInput) { in.LustreConfiguration.ImportPath = sdk.String("s3://cold") }}},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := scratch("")
			in.ClientRequestToken = nil
			for _, change := range row.change {
				change(in)
			}
			_, err := client.CreateFileSystem(t.Context(), in)
			wants(t, err, row.code)
		})
	}
}

func TestPagesAreWhole(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	client := fsx.NewFromConfig(once(s))
	made := map[string]bool{}
	for i := range 7 {
		out := must.Get(client.CreateFileSystem(t.Context(), scratch(fmt.Sprint("b", i))))(t)
		made[*out.FileSystem.FileSystemId] = true
	}
	pages := fsx.NewDescribeFileSystemsPaginator(client, &fsx.DescribeFileSystemsInput{MaxResults: sdk.Int32(3)})
	n := 0
	for ; pages.HasMorePages(); n++ {
		out := must.Get(pages.NextPage(t.Context()))(t)
		for _, f := range out.FileSystems {
			delete(made, *f.FileSystemId)
		}
	}
	if n != 3 || len(made) != 0 {
		t.Errorf("%d pages, without %v", n, made)
	}
	_, err := client.DescribeFileSystems(t.Context(), &fsx.DescribeFileSystemsInput{NextToken: sdk.String("bm9uZQ==")})
	wants(t, err, "BadRequest")
}

func TestTagsAreKept(t *testing.T) {
	x := linked(t)
	arn := must.Get(x.client.DescribeFileSystems(t.Context(), nil))(t).FileSystems[0].ResourceARN
	_, err := x.client.TagResource(t.Context(), &fsx.TagResourceInput{ResourceARN: arn, Tags: []types.Tag{
		{Key: sdk.String("datamove:burst"), Value: sdk.String("other")}, {Key: sdk.String("until"), Value: sdk.String("2026-12-01T00:00:00Z")}}})
	wants(t, err, "")
	_, err = x.client.UntagResource(t.Context(), &fsx.UntagResourceInput{ResourceARN: arn, TagKeys: []string{"until", "none"}})
	wants(t, err, "")
	out := must.Get(x.client.ListTagsForResource(t.Context(), &fsx.ListTagsForResourceInput{ResourceARN: arn}))(t)
	if len(out.Tags) != 1 || *out.Tags[0].Key != "datamove:burst" || *out.Tags[0].Value != "other" {
		t.Errorf("the tags are %v", out.Tags)
	}
	_, err = x.client.ListTagsForResource(t.Context(), &fsx.ListTagsForResourceInput{ResourceARN: sdk.String(*arn + "0")})
	wants(t, err, "ResourceNotFound")
	_, err = x.client.ListTagsForResource(t.Context(), &fsx.ListTagsForResourceInput{ResourceARN: sdk.String("arn:aws:s3:us-east-1:123456789012:bucket/x")})
	wants(t, err, "BadRequest")
}

func TestFileSystemFails(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now})
	client := fsx.NewFromConfig(once(s))
	s.Order("CreateFileSystem", 1, EndsFailed)
	must.Get(client.CreateFileSystem(t.Context(), scratch("a")))(t)
	now.Pass(5 * time.Minute)
	f := must.Get(client.DescribeFileSystems(t.Context(), nil))(t).FileSystems[0]
	if f.Lifecycle != types.FileSystemLifecycleFailed || f.FailureDetails == nil {
		t.Errorf("it is %s", f.Lifecycle)
	}
	s.Limit("FILE_SYSTEM_COUNT", 1)
	_, err := client.CreateFileSystem(t.Context(), scratch("b"))
	var limit *types.ServiceLimitExceeded
	if !errors.As(err, &limit) || limit.Limit != types.ServiceLimitFileSystemCount {
		t.Errorf("above the limit: %v", err)
	}
}
