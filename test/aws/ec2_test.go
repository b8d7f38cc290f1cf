package aws

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/ec2query"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"

	"datamove.dev/test/must"
)

// node is an element of a reply.
type node struct {
	XMLName xml.Name
	Text    string `xml:",chardata"`
	Nodes   []node `xml:",any"`
}

// all are the texts of the elements at a path below n, in their order.
func (n node) all(path ...string) (texts []string) {
	if len(path) == 0 {
		return []string{n.Text}
	}
	for _, below := range n.Nodes {
		if below.XMLName.Local == path[0] {
			texts = append(texts, below.all(path[1:]...)...)
		}
	}
	return texts
}

// ec2Call asks EC2 once, with parameters NAME=VALUE as its API reference has them. There is no client of the SDK: the package of EC2 takes a minute to compile, and botocore's models judge
// what goes over the wire.
func ec2Call(t *testing.T, c sdk.Config, action string, parameters ...string) (reply node, err error) {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		form.Add(name, value)
	}
	body := form.Encode()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, *c.BaseEndpoint+"/", strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := sha256.Sum256([]byte(body))
	must.Do(t, v4.NewSigner().SignHTTP(t.Context(), must.Get(c.Credentials.Retrieve(t.Context()))(t), r, hex.EncodeToString(sum[:]), "ec2", c.Region, time.Now()))
	answer := must.Get(c.HTTPClient.Do(r))(t)
	defer answer.Body.Close()
	text := must.Get(io.ReadAll(answer.Body))(t)
	if answer.StatusCode != http.StatusOK {
		e := must.Get(ec2query.GetErrorResponseComponents(bytes.NewReader(text)))(t)
		return reply, &smithy.GenericAPIError{Code: e.Code, Message: e.Message}
	}
	if err := xml.Unmarshal(text, &reply); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return reply, nil
}

// instances are those of a reply to DescribeInstances: "ID STATE".
func instances(reply node) (all []string) {
	ids := reply.all("reservationSet", "item", "instancesSet", "item", "instanceId")
	for i, state := range reply.all("reservationSet", "item", "instancesSet", "item", "instanceState", "name") {
		all = append(all, ids[i]+" "+state)
	}
	return all
}

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
	c := once(s)
	state := func(filter, value string) []string {
		t.Helper()
		return instances(must.Get(ec2Call(t, c, "DescribeInstances", "Filter.1.Name="+filter, "Filter.1.Value.1="+value))(t))
	}
	out := must.Get(ec2Call(t, c, "StopInstances", "InstanceId.1=i-00000000000000001"))(t)
	before, after := out.all("instancesSet", "item", "previousState", "name"), out.all("instancesSet", "item", "currentState", "name")
	if !slices.Equal(before, []string{"running"}) || !slices.Equal(after, []string{"stopping"}) {
		t.Errorf("stopping: %q, then %q", before, after)
	}
	now.Pass(30 * time.Second)
	if got := state("tag:datamove:burst", "b1"); len(got) != 1 || got[0] != "i-00000000000000001 stopped" {
		t.Errorf("stopped: %q", got)
	}
	if got := state("instance-state-name", "running"); len(got) != 2 {
		t.Errorf("running: %q", got)
	}
	must.Get(ec2Call(t, c, "TerminateInstances", "InstanceId.1=i-00000000000000001"))(t)
	now.Pass(30 * time.Second)
	if got := state("tag:datamove:burst", "b1"); len(got) != 1 || got[0] != "i-00000000000000001 terminated" {
		t.Errorf("terminated: %q", got)
	}
	_, err := ec2Call(t, c, "StopInstances", "InstanceId.1=i-00000000000000009")
	wants(t, err, "InvalidInstanceID.NotFound")
}

func TestInstancesHaveRules(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now, Regions: []string{"us-east-1", "eu-central-1"}})
	for i := range 12 {
		s.AddInstance(Instance{ID: fmt.Sprintf("i-%017x", i), Type: "c5.large", Spot: i == 1})
	}
	s.AddInstance(Instance{ID: "i-0000000000000abcd", Type: "c5.large", Region: "eu-central-1"})
	c := once(s)
	n, seen := 0, map[string]bool{}
	for page, more := []string{"MaxResults=5"}, true; more; n++ {
		reply := must.Get(ec2Call(t, c, "DescribeInstances", page...))(t)
		for _, i := range instances(reply) {
			seen[i] = true
		}
		next := reply.all("nextToken")
		if more = len(next) == 1; more {
			page = []string{"MaxResults=5", "NextToken=" + next[0]}
		}
	}
	if n != 3 || len(seen) != 12 {
		t.Errorf("%d pages with %d instances", n, len(seen))
	}
	_, err := ec2Call(t, c, "StopInstances", "InstanceId.1=i-00000000000000001")
	wants(t, err, "UnsupportedOperation")
	_, err = ec2Call(t, c, "DescribeInstances", "MaxResults=4")
	wants(t, err, "InvalidParameterValue")
	_, err = ec2Call(t, c, "DescribeInstances", "Filter.1.Name=vpc-id", "Filter.1.Value.1=x")
	wants(t, err, "InvalidParameterValue")
	_, err = ec2Call(t, c, "CreateTags", "ResourceId.1=i-00000000000000002", "Tag.1.Key=idle", "Tag.1.Value=yes")
	wants(t, err, "")
	out := must.Get(ec2Call(t, c, "DescribeInstances", "Filter.1.Name=tag:idle", "Filter.1.Value.1=y*"))(t)
	if got := instances(out); len(got) != 1 || !strings.HasPrefix(got[0], "i-00000000000000002 ") {
		t.Errorf("tagged: %q", got)
	}
}

func TestEndpointsOfTheVPC(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	s.AddVPCEndpoint(VPCEndpoint{ID: "vpce-0123456789abcdef0", VPC: "vpc-0123456789abcdef0", Service: "com.amazonaws.us-east-1.s3", Type: "Gateway"})
	find := func(kind string) []string {
		t.Helper()
		return must.Get(ec2Call(t, once(s), "DescribeVpcEndpoints", "Filter.1.Name=service-name", "Filter.1.Value.1=com.amazonaws.us-east-1.s3",
			"Filter.2.Name=vpc-endpoint-type", "Filter.2.Value.1="+kind))(t).all("vpcEndpointSet", "item", "vpcEndpointId")
	}
	if got := find("Gateway"); !slices.Equal(got, []string{"vpce-0123456789abcdef0"}) || len(find("Interface")) != 0 {
		t.Error("the gateway is not found, or taken for an interface")
	}
}
