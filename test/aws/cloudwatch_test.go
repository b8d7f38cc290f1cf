package aws

import (
	"slices"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/schemas"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	fsxtypes "github.com/aws/aws-sdk-go-v2/service/fsx/types"
	"github.com/aws/smithy-go/transport/http/protocol/awsquery"

	"datamove.dev/test/must"
)

// watch is a client of CloudWatch that speaks the query protocol.
func watch(c sdk.Config) *cloudwatch.Client {
	return cloudwatch.NewFromConfig(c, func(o *cloudwatch.Options) { o.Protocol = awsquery.New(schemas.GraniteServiceVersion20100801) })
}

func ask(id, name, stat string, dimensions ...string) types.MetricDataQuery {
	m := &types.Metric{Namespace: sdk.String("AWS/FSx"), MetricName: &name}
	for i := 0; i < len(dimensions); i += 2 {
		m.Dimensions = append(m.Dimensions, types.Dimension{Name: &dimensions[i], Value: &dimensions[i+1]})
	}
	return types.MetricDataQuery{Id: &id, MetricStat: &types.MetricStat{Metric: m, Period: sdk.Int32(300), Stat: &stat}}
}

func TestMetricsAreOfWhatClientsDid(t *testing.T) {
	x := linked(t, func(in *fsx.CreateDataRepositoryAssociationInput) {
		in.S3 = &fsxtypes.S3DataRepositoryConfiguration{AutoExportPolicy: &fsxtypes.AutoExportPolicy{Events: []fsxtypes.EventType{"NEW", "CHANGED"}}}
	})
	begin := x.Now()
	x.tree.Write(File{Name: "ckpt/a", Body: make([]byte, 100)})
	x.Pass(20 * time.Second)
	x.tree.Write(File{Name: "ckpt/b", Body: make([]byte, 50)})
	if _, err := x.tree.Read(t.Context(), "ckpt/a"); err != nil {
		t.Fatal(err)
	}
	client := watch(once(x.Server))
	get := func(more ...func(*cloudwatch.GetMetricDataInput)) *cloudwatch.GetMetricDataOutput {
		t.Helper()
		in := &cloudwatch.GetMetricDataInput{StartTime: sdk.Time(begin.Add(-time.Hour)), EndTime: sdk.Time(x.Now().Add(time.Second)), MetricDataQueries: []types.MetricDataQuery{
			ask("written", "DataWriteBytes", "Sum", "FileSystemId", x.system), ask("read", "DataReadBytes", "Sum", "FileSystemId", x.system),
			ask("age", "AgeOfOldestQueuedMessage", "Maximum", "FileSystemId", x.system, "Publisher", "AutoExport"), ask("none", "ClientConnections", "Average", "FileSystemId", x.system),
		}}
		for _, change := range more {
			change(in)
		}
		return must.Get(client.GetMetricData(t.Context(), in))(t)
	}
	values := map[string][]float64{}
	for _, r := range get().MetricDataResults {
		values[*r.Id] = r.Values
	}
	for id, want := range map[string][]float64{"written": {150}, "read": {100}, "age": {20}, "none": nil} {
		if !slices.Equal(values[id], want) {
			t.Errorf("%s is %v, and not %v", id, values[id], want)
		}
	}
	x.Pass(10 * time.Second) // now the first one is exported, and the second one 20 s later
	x.Pass(time.Hour)
	for _, r := range get().MetricDataResults {
		if *r.Id == "age" && r.Values[0] != 0 {
			t.Errorf("after all is exported, the oldest is %v s old", r.Values[0])
		}
	}
	first := get(func(in *cloudwatch.GetMetricDataInput) { in.MaxDatapoints = sdk.Int32(1) })
	rest := get(func(in *cloudwatch.GetMetricDataInput) { in.NextToken = first.NextToken })
	if len(first.MetricDataResults[0].Values) != 1 || first.NextToken == nil || len(rest.MetricDataResults[1].Values) != 1 || rest.NextToken != nil {
		t.Errorf("pages: %v, then %v", first.MetricDataResults, rest.MetricDataResults)
	}
	if x.objects.bodies["cold/ckpt/b"] != string(make([]byte, 50)) {
		t.Error("nothing was exported by itself")
	}
}
