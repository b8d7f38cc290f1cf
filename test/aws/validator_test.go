package aws

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/fsx"

	"datamove.dev/test/must"
)

// What the judge has to find: without this test its silence would mean little.
func TestJudgeFindsWhatIsWrong(t *testing.T) {
	v := NeedValidator(t)
	const id = "00000001-0000-4000-8000-000000000001"
	fsxReply := func(reply string) Exchange {
		return Exchange{Service: "fsx", Operation: "DescribeFileSystems", Request: `{"MaxResults":3}`, Status: 200, Type: json11.contentType, RequestID: id, Reply: reply}
	}
	request := func(request string) Exchange {
		e := fsxReply(`{"FileSystems":[]}`)
		e.Request = request
		return e
	}
	refused := func(status int, reply string) Exchange {
		e := fsxReply(reply)
		e.Status = status
		return e
	}
	query := func(request, reply string) Exchange {
		return Exchange{Service: "sts", Operation: "AssumeRole", Request: request, Status: 200, Type: awsQuery.contentType, RequestID: id, Reply: reply}
	}
	const assume = "Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fburst&RoleSessionName=job-7"
	role := func(inside string) string {
		return `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>` + inside + `</AssumeRoleResult><ResponseMetadata><RequestId>` + id + `</RequestId></ResponseMetadata></AssumeRoleResponse>`
	}
	instances := func(request, inside string) Exchange {
		return Exchange{Service: "ec2", Operation: "DescribeInstances", Request: request, Status: 200, Type: ec2Query.contentType, RequestID: id,
			Reply: `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>` + id + `</requestId>` + inside + `</DescribeInstancesResponse>`}
	}
	for _, row := range []struct {
		name  string
		e     Exchange
		wrong string // a part of the complaint; "" is none
	}{
		{"good", fsxReply(`{"FileSystems":[{"FileSystemId":"fs-0123456789abcdef0","Lifecycle":"CREATING","CreationTime":1793606400.000}]}`), ""},
		{"a state that is none", fsxReply(`{"FileSystems":[{"Lifecycle":"BROKEN"}]}`), "is none of"},
		{"an id that is none", fsxReply(`{"FileSystems":[{"FileSystemId":"fs-0123456789ABCDEF0"}]}`), "does not match"},
		{"a member that is none", fsxReply(`{"FileSystems":[{"FilesystemID":"fs-0123456789abcdef0"}]}`), "FilesystemID"},
		{"a number as text", fsxReply(`{"FileSystems":[{"StorageCapacity":"1200"}]}`), "StorageCapacity"},
		{"too long", fsxReply(`{"FileSystems":[{"DNSName":"` + "fs-0123456789abcdef0." + strings.Repeat("x", 300) + `"}]}`), "DNSName"},
		{"newer than the model", fsxReply(`{"FileSystems":[{"LustreConfiguration":{"MetadataConfiguration":{"Mode":"AUTOMATIC"},"EfaEnabled":true}}]}`), ""},
		{"newer, and wrong", fsxReply(`{"FileSystems":[{"LustreConfiguration":{"MetadataConfiguration":{"Iops":1500}}}]}`), "Mode"},
		{"no JSON", fsxReply(`{`), "JSONDecodeError"},
		{"a request with too little", request(`{"MaxResults":0}`), "MaxResults"},
		{"a request with a member that is none", request(`{"Max":1}`), "Max"},
		{"an error of the operation", refused(400, `{"__type":"FileSystemNotFound","Message":"none"}`), ""},
		{"an error of another operation", refused(400, `{"__type":"DataRepositoryTaskExecuting","Message":"busy"}`), "none of the operation"},
		{"an error without a message", refused(400, `{"__type":"FileSystemNotFound"}`), "no message"},
		{"a common error", refused(400, `{"__type":"ThrottlingException","Message":"Rate exceeded"}`), ""},
		{"a query", query(assume, role(`<PackedPolicySize>6</PackedPolicySize>`)), ""},
		{"a query's parameter that is none", query(assume+"&Why=so", role("")), "Why"},
		{"a query's parameter that is missing", query("Action=AssumeRole&Version=2011-06-15", role("")), "RoleArn"},
		{"a query's reply with an element that is none", query(assume, role(`<Packed>6</Packed>`)), "Packed"},
		{"a query's reply without a member", query(assume, role(`<Credentials><AccessKeyId>ASIA0000000000000000</AccessKeyId></Credentials>`)), "SecretAccessKey"},
		{"a query's reply of another request", query(assume, strings.Replace(role(""), id, "x", 1)), "RequestId"},
		{"EC2", instances("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=tag%3Aa&Filter.1.Value.1=b", `<reservationSet><item><reservationId>r-1</reservationId></item></reservationSet>`), ""},
		{"EC2's list with another member", instances("Action=DescribeInstances&Version=2016-11-15", `<reservationSet><member/></reservationSet>`), "member"},
		{"EC2's parameter that is none", instances("Action=DescribeInstances&Version=2016-11-15&Filters.1.Name=a", ""), "Filters.1.Name"},
		{"EC2 with another namespace", func() Exchange {
			e := instances("Action=DescribeInstances&Version=2016-11-15", "")
			e.Reply = strings.Replace(e.Reply, "2016", "2015", 1)
			return e
		}(), "namespace"},
	} {
		t.Run(row.name, func(t *testing.T) {
			wrong := must.Get(v.Judge(row.e))(t)
			if all := strings.Join(wrong, "\n"); (row.wrong == "") != (all == "") || !strings.Contains(all, row.wrong) {
				t.Errorf("it complains of %q, and not of %q", all, row.wrong)
			}
		})
	}
}

func TestExchangesAreLines(t *testing.T) {
	var text bytes.Buffer
	s := New(Options{Record: Lines(&text)})
	client := fsx.NewFromConfig(once(s))
	must.Get(client.DescribeFileSystems(t.Context(), nil))(t)
	s.Order("DescribeFileSystems", 1, AnswerLost)
	if _, err := client.DescribeFileSystems(t.Context(), nil); err == nil {
		t.Error("the answer was to be lost")
	}
	var all []Exchange
	for line := range strings.Lines(text.String()) {
		var e Exchange
		must.Do(t, json.Unmarshal([]byte(line), &e))
		all = append(all, e)
	}
	if len(all) != 2 || all[0].Operation != "DescribeFileSystems" || all[0].Reply != `{"FileSystems":[]}` || all[0].Lost || !all[1].Lost {
		t.Errorf("the lines are %+v", all)
	}
}
