package aws

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer"
	costs "github.com/aws/aws-sdk-go-v2/service/costexplorer/types"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"datamove.dev/test/must"
)

func TestEachServiceFailsInItsWords(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	c := once(s)
	for _, row := range []struct {
		operation, throttled, broken, denied string
		call                                 func() error
	}{
		{"DescribeFileSystems", "ThrottlingException", "InternalServerError", "AccessDeniedException", func() error {
			_, err := fsx.NewFromConfig(c).DescribeFileSystems(t.Context(), nil)
			return err
		}},
		{"GetCallerIdentity", "Throttling", "InternalFailure", "AccessDenied", func() error {
			_, err := sts.NewFromConfig(c).GetCallerIdentity(t.Context(), nil)
			return err
		}},
		{"DescribeInstances", "RequestLimitExceeded", "InternalError", "UnauthorizedOperation", func() error {
			_, err := ec2Call(t, c, "DescribeInstances")
			return err
		}},
		{"GetMetricData", "Throttling", "InternalFailure", "AccessDenied", func() error {
			_, err := watch(c).GetMetricData(t.Context(), &cloudwatch.GetMetricDataInput{StartTime: sdk.Time(time.Unix(0, 0)), EndTime: sdk.Time(time.Unix(60, 0)),
				MetricDataQueries: []types.MetricDataQuery{ask("a", "DataReadBytes", "Sum", "FileSystemId", "fs-1")}})
			return err
		}},
		{"GetCostAndUsage", "ThrottlingException", "InternalFailure", "AccessDeniedException", func() error {
			_, err := costexplorer.NewFromConfig(c).GetCostAndUsage(t.Context(), &costexplorer.GetCostAndUsageInput{Metrics: []string{"UnblendedCost"}, Granularity: costs.GranularityDaily,
				TimePeriod: &costs.DateInterval{Start: sdk.String("2026-11-01"), End: sdk.String("2026-11-02")}})
			return err
		}},
	} {
		if err := row.call(); err != nil {
			t.Errorf("%s fails, and nothing was ordered: %v", row.operation, err)
		}
		for _, f := range []struct {
			fault Fault
			code  string
		}{{Throttled, row.throttled}, {InternalError, row.broken}, {Denied, row.denied}} {
			s.Order(row.operation, 1, f.fault)
			if err := row.call(); err == nil || !strings.Contains(err.Error(), f.code) {
				t.Errorf("%s, %s: %v, and not %s", row.operation, f.fault, err, f.code)
			}
		}
	}
}

func TestWorkIsDoneAndTheAnswerLost(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	client := fsx.NewFromConfig(once(s))
	s.Order("*", 1, AnswerLost)
	_, err := client.CreateFileSystem(t.Context(), scratch("a"))
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the error is %v", err)
	}
	out := must.Get(client.DescribeFileSystems(t.Context(), nil))(t)
	if len(out.FileSystems) != 1 {
		t.Errorf("%d file systems", len(out.FileSystems))
	}
	if log := s.Log(); !log[0].Lost || log[0].Token != "a" || log[0].Code != "" || log[1].Lost || log[0].Parameters["StorageCapacity"] != 1200.0 {
		t.Errorf("the log is %+v", log)
	}
}

func TestHeldUntilReleased(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now})
	client := fsx.NewFromConfig(once(s))
	release := s.Hold("DescribeFileSystems")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	for _, c := range []context.Context{ctx, t.Context()} {
		go func() {
			_, err := client.DescribeFileSystems(c, nil)
			done <- err
		}()
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that went away: %v", err)
	}
	release()
	release()
	if err := <-done; err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}

func TestTimeOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Options{Skew: 15 * time.Minute})
		client := fsx.NewFromConfig(s.Config())
		s.Order("CreateFileSystem", 2, Throttled)
		out := must.Get(client.CreateFileSystem(t.Context(), scratch("a")))(t) // it waits between its attempts
		begin := time.Now()
		for out.FileSystem.Lifecycle == "CREATING" {
			time.Sleep(10 * time.Second)
			all := must.Get(client.DescribeFileSystems(t.Context(), nil))(t)
			out.FileSystem = &all.FileSystems[0]
		}
		if took := time.Since(begin); took != 5*time.Minute || s.Calls("CreateFileSystem") != 3 {
			t.Errorf("it took %v, and %d calls", took, s.Calls("CreateFileSystem"))
		}
	})
}

func TestStrangeRequests(t *testing.T) {
	s := New(Options{})
	client := Through(s)
	for _, row := range []struct {
		name, method, url, authorization, target, body string
		status                                         int
	}{
		{"a reading", http.MethodGet, "http://aws.test/", "", "", "", http.StatusNotFound},
		{"CBOR", http.MethodPost, "http://aws.test/service/GraniteServiceVersion20100801/operation/GetMetricData", "", "", "", http.StatusNotFound},
		{"no service", http.MethodPost, "http://aws.test/", "AWS4-HMAC-SHA256 Credential=a/20261102/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=00", "", "", http.StatusNotFound},
		{"another target", http.MethodPost, "http://aws.test/", "AWS4-HMAC-SHA256 Credential=a/20261102/us-east-1/fsx/aws4_request, SignedHeaders=host, Signature=00", "Other.Call", "", http.StatusNotFound},
		{"two megabytes", http.MethodPost, "http://aws.test/", "", "", strings.Repeat("x", 2<<20), http.StatusRequestEntityTooLarge},
		{"no scope", http.MethodPost, "http://aws.test/", "AWS4-HMAC-SHA256 Credential=a", "", "", http.StatusNotFound},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := must.Get(http.NewRequestWithContext(t.Context(), row.method, row.url, strings.NewReader(row.body)))(t)
			r.Header.Set("Authorization", row.authorization)
			r.Header.Set("X-Amz-Target", row.target)
			r.Header.Set("Content-Type", "application/x-amz-json-1.1")
			answer := must.Get(client.Do(r))(t)
			if answer.StatusCode != row.status {
				t.Errorf("the status is %d", answer.StatusCode)
			}
		})
	}
}

// The same over a connection, which is really cut.
func TestOverAConnection(t *testing.T) {
	s := serve(t, Options{Now: NewClock().Now, Regions: []string{"us-east-1", "eu-central-1"}})
	connections := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(connections.CloseIdleConnections)
	c := once(s)
	c.BaseEndpoint, c.HTTPClient = sdk.String(s.Start(t)), connections
	client := fsx.NewFromConfig(c)
	s.Order("CreateFileSystem", 1, AnswerLost)
	if _, err := client.CreateFileSystem(t.Context(), scratch("a")); !errors.Is(err, io.EOF) {
		t.Errorf("the error is %v", err)
	}
	out := must.Get(client.CreateFileSystem(t.Context(), scratch("a")))(t)
	for _, row := range []struct {
		region, json, ec2 string
		systems           int
	}{
		{"us-east-1", "", "", 1},
		{"eu-central-1", "", "", 0},
		{"ap-south-1", "UnrecognizedClientException", "AuthFailure", 0},
	} {
		c.Region = row.region
		all, err := fsx.NewFromConfig(c).DescribeFileSystems(t.Context(), nil)
		wants(t, err, row.json)
		if err == nil && len(all.FileSystems) != row.systems {
			t.Errorf("%d file systems in %s", len(all.FileSystems), row.region)
		}
		_, err = ec2Call(t, c, "DescribeInstances")
		wants(t, err, row.ec2)
	}
	c.Region = "eu-central-1"
	_, err := fsx.NewFromConfig(c).ListTagsForResource(t.Context(), &fsx.ListTagsForResourceInput{ResourceARN: out.FileSystem.ResourceARN})
	wants(t, err, "ResourceNotFound")
}
