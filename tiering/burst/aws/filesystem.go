package aws

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
)

// FileSystem is one of FSx for Lustre, as AWS tells it.
type FileSystem struct {
	ID, ARN    string
	State      string // CREATING, AVAILABLE, FAILED, DELETING, MISCONFIGURED, UPDATING or MISCONFIGURED_UNAVAILABLE
	Why        string // it failed
	DNS, Mount string // mount -t lustre DNS@tcp:/Mount
	GiB        int64
	Type       string
	Since      time.Time
	Tags       map[string]string
}

// Want is a file system that is to be made.
type Want struct {
	burst.FileSystem
	Token  string
	GiB    int64
	KMSKey string
	Tags   map[string]string
}

// Create asks for a file system. With the token of one that was asked for it is that one.
func (a *Account) Create(ctx context.Context, w Want) (FileSystem, error) {
	lustre := &types.CreateFileSystemLustreConfiguration{DeploymentType: types.LustreDeploymentType(w.Type), DataCompressionType: types.DataCompressionTypeNone}
	if w.Compress {
		lustre.DataCompressionType = types.DataCompressionTypeLz4
	}
	in := &fsx.CreateFileSystemInput{ClientRequestToken: &w.Token, FileSystemType: types.FileSystemTypeLustre, StorageType: types.StorageTypeSsd, StorageCapacity: aws.Int32(int32(w.GiB)),
		SubnetIds: []string{w.Subnet}, SecurityGroupIds: w.SecurityGroups, Tags: tags(w.Tags), LustreConfiguration: lustre}
	if w.KMSKey != "" {
		in.KmsKeyId = &w.KMSKey
	}
	if w.Type == burst.Persistent2 {
		lustre.PerUnitStorageThroughput = aws.Int32(int32(w.Throughput))
		lustre.AutomaticBackupRetentionDays = aws.Int32(0) // what is joined to a bucket can have none
		lustre.MetadataConfiguration = &types.CreateFileSystemLustreMetadataConfiguration{Mode: types.MetadataConfigurationModeAutomatic}
		if w.EFA {
			lustre.EfaEnabled = aws.Bool(true)
		}
	}
	in.FileSystemTypeVersion = aws.String("2.15") // the newest, with project quotas
	out, err := a.fsx.CreateFileSystem(ctx, in)
	if err != nil {
		return FileSystem{}, a.failed("create", "a file system", err)
	}
	made, err := fileSystem(out.FileSystem)
	return made, a.failed("create", "a file system", err)
}

// FileSystem tells of one. mover.ErrNotExist is that there is none, or not any more.
func (a *Account) FileSystem(ctx context.Context, id string) (FileSystem, error) {
	out, err := a.fsx.DescribeFileSystems(ctx, &fsx.DescribeFileSystemsInput{FileSystemIds: []string{id}})
	if err != nil {
		return FileSystem{}, a.failed("look at", id, err)
	}
	if len(out.FileSystems) != 1 { // one that is not there is an error of its own
		return FileSystem{}, a.failed("look at", id, odd("%d file systems", len(out.FileSystems)))
	}
	seen, err := fileSystem(&out.FileSystems[0])
	if err == nil && seen.ID != id {
		err = odd("it is of %s", seen.ID)
	}
	return seen, a.failed("look at", id, err)
}

// FileSystems are all of FSx for Lustre in the region, also those that are not ours.
func (a *Account) FileSystems(ctx context.Context) (all []FileSystem, err error) {
	pages := fsx.NewDescribeFileSystemsPaginator(a.fsx, &fsx.DescribeFileSystemsInput{})
	err = a.pages("file systems", pages.HasMorePages, func() error {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for i := range page.FileSystems {
			if page.FileSystems[i].FileSystemType != types.FileSystemTypeLustre {
				continue
			}
			one, err := fileSystem(&page.FileSystems[i])
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// Delete asks that a file system goes, with all that is only on it. One that is not there is gone. A SCRATCH file system has no backup; of others we make none.
func (a *Account) Delete(ctx context.Context, id, token string) error {
	_, err := a.fsx.DeleteFileSystem(ctx, &fsx.DeleteFileSystemInput{FileSystemId: &id, ClientRequestToken: &token})
	return a.failed("delete", id, err)
}

// Tag adds tags to a file system.
func (a *Account) Tag(ctx context.Context, arn string, more map[string]string) error {
	_, err := a.fsx.TagResource(ctx, &fsx.TagResourceInput{ResourceARN: &arn, Tags: tags(more)})
	return a.failed("tag", arn, err)
}

func fileSystem(f *types.FileSystem) (FileSystem, error) {
	if f == nil {
		return FileSystem{}, odd("it has no file system")
	}
	s := FileSystem{ID: aws.ToString(f.FileSystemId), ARN: aws.ToString(f.ResourceARN), State: string(f.Lifecycle), DNS: aws.ToString(f.DNSName), GiB: int64(aws.ToInt32(f.StorageCapacity)),
		Since: aws.ToTime(f.CreationTime), Tags: map[string]string{}}
	if f.FailureDetails != nil {
		s.Why = mover.Printable(aws.ToString(f.FailureDetails.Message))
	}
	if l := f.LustreConfiguration; l != nil {
		s.Mount, s.Type = aws.ToString(l.MountName), string(l.DeploymentType)
	}
	for _, t := range f.Tags {
		s.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	if !systemForm().MatchString(s.ID) || !nameForm().MatchString(s.DNS) || !nameForm().MatchString(s.Mount) {
		return FileSystem{}, odd("a file system %q at %.80q, to be mounted as %.80q", s.ID, s.DNS, s.Mount)
	}
	return s, nil
}

// tags are in order: a request that is made again with its token has to be the same one.
func tags(of map[string]string) (all []types.Tag) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, types.Tag{Key: aws.String(key), Value: aws.String(of[key])})
	}
	return all
}
