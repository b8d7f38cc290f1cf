package aws

import (
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer/types"

	"datamove.dev/test/must"
)

func TestCostsByTagAndDay(t *testing.T) {
	now := NewClock()
	s := serve(t, Options{Now: now.Now, CostPage: 2})
	first := now.Now().Truncate(day).Add(-3 * day)
	for _, c := range []Cost{
		{Day: first, USD: "0.1", Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{"team": "a"}},
		{Day: first, USD: "0.2", Service: "Amazon Simple Storage Service", Region: "us-east-1", Tags: map[string]string{"team": "a"}},
		{Day: first, USD: "5", Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{"team": "b"}},
		{Day: first.Add(2 * day), USD: "7.25", Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{"team": "a"}},
		{Day: first.Add(2 * day), USD: "100", Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{"team": "a"}, Known: now.Now().Add(time.Hour)},
	} {
		s.AddCost(c)
	}
	client := costexplorer.NewFromConfig(once(s))
	in := &costexplorer.GetCostAndUsageInput{Granularity: types.GranularityDaily, Metrics: []string{"UnblendedCost"},
		TimePeriod: &types.DateInterval{Start: sdk.String(first.Format(time.DateOnly)), End: sdk.String(first.Add(3 * day).Format(time.DateOnly))},
		Filter:     &types.Expression{Tags: &types.TagValues{Key: sdk.String("team"), Values: []string{"a"}}}}
	var amounts []string
	for pages := 0; ; pages++ {
		out := must.Get(client.GetCostAndUsage(t.Context(), in))(t)
		for _, r := range out.ResultsByTime {
			amounts = append(amounts, *r.TimePeriod.Start+" "+*r.Total["UnblendedCost"].Amount)
		}
		if in.NextPageToken = out.NextPageToken; in.NextPageToken == nil {
			if pages != 1 {
				t.Errorf("there were %d more pages", pages)
			}
			break
		}
	}
	want := []string{"2026-10-30 0.3", "2026-10-31 0", "2026-11-01 7.25"}
	if len(amounts) != 3 || amounts[0] != want[0] || amounts[1] != want[1] || amounts[2] != want[2] {
		t.Errorf("the bill is %q, and not %q", amounts, want)
	}
	in.GroupBy = []types.GroupDefinition{{Type: types.GroupDefinitionTypeDimension, Key: sdk.String("SERVICE")}}
	out := must.Get(client.GetCostAndUsage(t.Context(), in))(t)
	if g := out.ResultsByTime[0].Groups; len(g) != 2 || g[0].Keys[0] != "Amazon FSx" || *g[0].Metrics["UnblendedCost"].Amount != "0.1" {
		t.Errorf("by service: %v", g)
	}
	in.Granularity = types.GranularityHourly
	_, err := client.GetCostAndUsage(t.Context(), in)
	wants(t, err, "ValidationException")
}
