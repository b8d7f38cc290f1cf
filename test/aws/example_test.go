package aws_test

import (
	"context"
	"fmt"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"

	"datamove.dev/test/aws"
)

// A client asks again after its answer was lost, and the clock is moved by hand.
func Example() {
	ctx, now := context.Background(), time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	fake := aws.New(aws.Options{Now: func() time.Time { return now }})
	fake.Order("CreateFileSystem", 1, aws.AnswerLost)
	client := fsx.NewFromConfig(fake.Config())
	made, err := client.CreateFileSystem(ctx, &fsx.CreateFileSystemInput{
		FileSystemType: types.FileSystemTypeLustre, StorageCapacity: sdk.Int32(1200), SubnetIds: []string{"subnet-0123456789abcdef0"}, ClientRequestToken: sdk.String("job-7"),
		LustreConfiguration: &types.CreateFileSystemLustreConfiguration{DeploymentType: types.LustreDeploymentTypeScratch2},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now = now.Add(5 * time.Minute)
	all, err := client.DescribeFileSystems(ctx, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(made.FileSystem.Lifecycle, len(all.FileSystems), all.FileSystems[0].Lifecycle, fake.Calls("CreateFileSystem"))
	// Output: CREATING 1 AVAILABLE 2
}
