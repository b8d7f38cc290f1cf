package aws

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/aws"
	"datamove.dev/tiering/burst"
)

// TestEC2Endpoint: where EC2 is asked, in each partition of AWS and by the environment, and what the form and its signature say.
func TestEC2Endpoint(t *testing.T) {
	const all, ec2 = "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_EC2"
	for _, test := range []struct {
		region string
		env    map[string]string
		want   string
	}{
		{"us-east-1", nil, "https://ec2.us-east-1.amazonaws.com/"},
		{"eu-central-1", nil, "https://ec2.eu-central-1.amazonaws.com/"},
		{"us-gov-west-1", nil, "https://ec2.us-gov-west-1.amazonaws.com/"},
		{"cn-north-1", nil, "https://ec2.cn-north-1.amazonaws.com.cn/"},
		{"us-iso-east-1", nil, "https://ec2.us-iso-east-1.c2s.ic.gov/"},
		{"us-isob-east-1", nil, "https://ec2.us-isob-east-1.sc2s.sgov.gov/"},
		{"eusc-de-east-1", nil, "https://ec2.eusc-de-east-1.amazonaws.eu/"},
		{"us-east-1", map[string]string{all: "http://aws.test:1"}, "http://aws.test:1/"},
		{"us-east-1", map[string]string{all: "http://aws.test:1", ec2: "http://ec2.test/below/"}, "http://ec2.test/below/"},
		{"us-east-1", map[string]string{ec2: "http://ec2.test/below"}, "http://ec2.test/below"},
	} {
		t.Run(fmt.Sprint(test.region, test.env), func(t *testing.T) {
			t.Setenv(all, test.env[all])
			t.Setenv(ec2, test.env[ec2])
			var asked, signed, agent string
			var form url.Values
			o := owner()
			o.Region = test.region
			is(t, errOf(with(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked, signed, agent = r.URL.String(), r.Header.Get("Authorization"), r.Header.Get("User-Agent")
				form, _ = url.ParseQuery(string(body))
				_, _ = io.WriteString(w, "<DescribeInstancesResponse/>")
			}), o).Instances(t.Context())), nil)
			if asked != test.want || !strings.Contains(signed, "/"+test.region+"/ec2/aws4_request") || !strings.HasSuffix(agent, " app/datamove") {
				t.Errorf("asked %s as %q, signed %s", asked, agent, signed)
			}
			const want = "Action=DescribeInstances&Filter.1.Name=tag-key&Filter.1.Value.1=datamove.dev%2Fburst&Filter.2.Name=instance-state-name" +
				"&Filter.2.Value.1=pending&Filter.2.Value.2=running&Filter.2.Value.3=stopping&Filter.2.Value.4=stopped&Version=2016-11-15"
			if form.Encode() != want {
				t.Errorf("asked for %s", form.Encode())
			}
		})
	}
	for _, region := range []string{"", "a/b", "a.b", "a@b"} {
		asked := false
		o := owner()
		o.Region = region
		err := errOf(with(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }), o).Instances(t.Context()))
		if is(t, err, mover.ErrUsage); asked {
			t.Errorf("region %q: asked", region)
		}
	}
}

// TestEC2Pages: all pages, each asked for with the token of the one before, and of each reservation all its instances.
func TestEC2Pages(t *testing.T) {
	server := aws.New(aws.Options{Now: aws.NewClock().Now, Store: empty(), Record: aws.NeedValidator(t).Watch(t)})
	const pages = 3
	for i := range pages {
		server.AddInstance(aws.Instance{ID: fmt.Sprintf("i-%017x", i), Type: "c5.large", Tags: map[string]string{burst.TagBurst: "x"}})
	}
	a := with(server, owner())
	if all, err := a.Instances(t.Context()); err != nil || len(all) != pages {
		t.Errorf("%+v, %v", all, err)
	}

	reservation := func(ids ...string) string {
		return "<item><reservationId>r-1</reservationId><groupSet><item><groupId>sg-1</groupId></item></groupSet><instancesSet><item><instanceId>" +
			strings.Join(ids, "</instanceId></item><item><instanceId>") + "</instanceId></item></instancesSet></item>"
	}
	answers := map[string]string{
		"":      reservation("i-00000000000000001", "i-00000000000000002") + reservation("i-00000000000000003") + "|<nextToken>a b&amp;=</nextToken>",
		"a b&=": reservation("i-00000000000000004") + "|<nextToken></nextToken>",
	}
	n := 0
	all, err := with(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		set, token, _ := strings.Cut(answers[form.Get("NextToken")], "|")
		_, _ = io.WriteString(w, `<?xml version="1.0"?><DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet>`+set+"</reservationSet>"+token+"</DescribeInstancesResponse>")
	}), owner()).Instances(t.Context())
	if err != nil || len(all) != 4 || all[1].ID != "i-00000000000000002" || all[3].ID != "i-00000000000000004" || n != 2 {
		t.Errorf("%+v after %d calls, %v", all, n, err)
	}
}

// TestEC2Replies: what is no reply of EC2 is mover.ErrCorrupt, and never "there are no instances".
func TestEC2Replies(t *testing.T) {
	for _, reply := range []string{"", " ", "no", "{}", "<html>", "<DescribeInstancesResponse>", "<DescribeInstancesResponse><reservationSet><item>",
		"<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-00000000000000001</instanceId><launchTime>soon</launchTime></item></instancesSet></item></reservationSet></DescribeInstancesResponse>",
		"<!DOCTYPE x [<!ENTITY a 'b'>]><DescribeInstancesResponse>&a;</DescribeInstancesResponse>", strings.Repeat("<a>", 20_000)} {
		is(t, errOf(with(&says{answers: map[string]string{"DescribeInstances": reply}}, owner()).Instances(t.Context())), mover.ErrCorrupt)
	}
}

// TestClock: a clock that is not that of AWS costs one refused call, of EC2 as of the services whose clients are the SDK's.
func TestClock(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		now := func() time.Time { return time.Now().Add(off) }
		server := aws.New(aws.Options{Now: now, Skew: 5 * time.Minute, Store: empty()})
		a := with(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", now().UTC().Format(http.TimeFormat))
			server.ServeHTTP(w, r)
		}), owner())
		for operation, do := range map[string]func() error{
			"DescribeInstances":   func() error { return errOf(a.Instances(t.Context())) },
			"DescribeFileSystems": func() error { return errOf(a.FileSystems(t.Context())) },
		} {
			for _, calls := range []int{2, 3} {
				if err := do(); err != nil || server.Calls(operation) != calls {
					t.Errorf("%v, %s: %v after %d calls", off, operation, err, server.Calls(operation))
				}
			}
		}
	}
}
