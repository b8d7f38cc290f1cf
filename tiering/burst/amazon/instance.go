package amazon

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"datamove.dev/tiering/burst"
)

// Instance is one of EC2.
type Instance struct {
	ID, Type, State string // pending, running, shutting-down, terminated, stopping or stopped
	Since           time.Time
	Tags            map[string]string
}

// Instances are those that have the tag of a burst, and are not gone.
func (a *Account) Instances(ctx context.Context) (all []Instance, err error) {
	pages := ec2.NewDescribeInstancesPaginator(a.ec2, &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag-key"), Values: []string{burst.TagBurst}},
		{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped"}}}})
	err = a.pages("instances", pages.HasMorePages, func() error {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				one := instance(&r.Instances[i])
				if !instanceForm.MatchString(one.ID) {
					return odd("an instance %q", one.ID)
				}
				all = append(all, one)
			}
		}
		return nil
	})
	return all, err
}

func instance(i *types.Instance) Instance {
	s := Instance{ID: aws.ToString(i.InstanceId), Type: string(i.InstanceType), Since: aws.ToTime(i.LaunchTime), Tags: map[string]string{}}
	if i.State != nil {
		s.State = string(i.State.Name)
	}
	for _, t := range i.Tags {
		s.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return s
}

// Stop stops an instance, which can be started again; one that can not be stopped (spot instances, those with local disks as their root) is told of.
func (a *Account) Stop(ctx context.Context, id string) error {
	out, err := a.ec2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
	if err == nil && (len(out.StoppingInstances) != 1 || aws.ToString(out.StoppingInstances[0].InstanceId) != id) {
		err = odd("%d instances stop", len(out.StoppingInstances))
	}
	return a.failed("stop", id, err)
}
