package aws

import (
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func TestInstancesStopAndEnd(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now})
	for _, i := range []Instance{
		{ID: "i-00000000000000001", Type: "p5.48xlarge", LaunchTime: now.Now(), Tags: map[string]string{"datamove:burst": "b1"}},
		{ID: "i-00000000000000002", Type: "p5.48xlarge", LaunchTime: now.Now(), Tags: map[string]string{"datamove:burst": "b2"}},
		{ID: "i-00000000000000003", Type: "c5.large", LaunchTime: now.Now()},
	} {
		s.AddInstance(i)
	}
	client := ec2.NewFromConfig(once(s))
	state := func(filters ...types.Filter) (all []string) {
		t.Helper()
		out := must[*ec2.DescribeInstancesOutput](t)(client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: filters}))
		for _, r := range out.Reservations {
			all = append(all, *r.Instances[0].InstanceId+" "+string(r.Instances[0].State.Name))
		}
		return all
	}
	b1 := types.Filter{Name: sdk.String("tag:datamove:burst"), Values: []string{"b1"}}
	out := must[*ec2.StopInstancesOutput](t)(client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{"i-00000000000000001"}}))
	if c := out.StoppingInstances[0]; c.PreviousState.Name != "running" || c.CurrentState.Name != "stopping" {
		t.Errorf("stopping: %s, then %s", c.PreviousState.Name, c.CurrentState.Name)
	}
	now.Pass(30 * time.Second)
	if got := state(b1); len(got) != 1 || got[0] != "i-00000000000000001 stopped" {
		t.Errorf("stopped: %q", got)
	}
	if got := state(types.Filter{Name: sdk.String("instance-state-name"), Values: []string{"running"}}); len(got) != 2 {
		t.Errorf("running: %q", got)
	}
	must[*ec2.TerminateInstancesOutput](t)(client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{"i-00000000000000001"}}))
	now.Pass(30 * time.Second)
	if got := state(b1); got[0] != "i-00000000000000001 terminated" {
		t.Errorf("terminated: %q", got)
	}
	_, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{"i-00000000000000009"}})
	wants(t, err, "InvalidInstanceID.NotFound")
}

func TestInstancesHaveRules(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now, Regions: []string{"us-east-1", "eu-central-1"}})
	for i := range 12 {
		s.AddInstance(Instance{ID: fmt.Sprintf("i-%017x", i), Type: "c5.large", Spot: i == 1})
	}
	s.AddInstance(Instance{ID: "i-0000000000000abcd", Type: "c5.large", Region: "eu-central-1"})
	client := ec2.NewFromConfig(once(s))
	pages, n, seen := ec2.NewDescribeInstancesPaginator(client, &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(5)}), 0, map[string]bool{}
	for ; pages.HasMorePages(); n++ {
		for _, r := range must[*ec2.DescribeInstancesOutput](t)(pages.NextPage(t.Context())).Reservations {
			seen[*r.Instances[0].InstanceId] = true
		}
	}
	if n != 3 || len(seen) != 12 {
		t.Errorf("%d pages with %d instances", n, len(seen))
	}
	_, err := client.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{"i-00000000000000001"}})
	wants(t, err, "UnsupportedOperation")
	_, err = client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{MaxResults: sdk.Int32(4)})
	wants(t, err, "InvalidParameterValue")
	_, err = client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: sdk.String("vpc-id"), Values: []string{"x"}}}})
	wants(t, err, "InvalidParameterValue")
	_, err = client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{"i-00000000000000002"}, Tags: []types.Tag{{Key: sdk.String("idle"), Value: sdk.String("yes")}}})
	wants(t, err, "")
	out := must[*ec2.DescribeInstancesOutput](t)(client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: sdk.String("tag:idle"), Values: []string{"y*"}}}}))
	if len(out.Reservations) != 1 || *out.Reservations[0].Instances[0].InstanceId != "i-00000000000000002" {
		t.Errorf("tagged: %v", out.Reservations)
	}
}

func TestEndpointsOfTheVPC(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	s.AddVPCEndpoint(VPCEndpoint{ID: "vpce-0123456789abcdef0", VPC: "vpc-0123456789abcdef0", Service: "com.amazonaws.us-east-1.s3", Type: "Gateway"})
	client := ec2.NewFromConfig(once(s))
	find := func(kind string) int {
		t.Helper()
		out := must[*ec2.DescribeVpcEndpointsOutput](t)(client.DescribeVpcEndpoints(t.Context(), &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{
			{Name: sdk.String("service-name"), Values: []string{"com.amazonaws.us-east-1.s3"}}, {Name: sdk.String("vpc-endpoint-type"), Values: []string{kind}}}}))
		return len(out.VpcEndpoints)
	}
	if find("Gateway") != 1 || find("Interface") != 0 {
		t.Error("the gateway is not found, or taken for an interface")
	}
}
