package aws

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer"
	"github.com/aws/aws-sdk-go-v2/service/costexplorer/types"

	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

// costPages bounds an answer.
const costPages = 100

// Costs are those of what has the tag of a burst, of the days from one on up to another. The tag has to be activated for cost allocation by the owner of the account, and is known a day later.
// A call costs money itself: $0.01, as AWS says.
func (a *Account) Costs(ctx context.Context, from, to time.Time) (all []burst.Cost, err error) {
	in := &costexplorer.GetCostAndUsageInput{Granularity: types.GranularityDaily, Metrics: []string{"UnblendedCost"},
		TimePeriod: &types.DateInterval{Start: aws.String(from.UTC().Format(time.DateOnly)), End: aws.String(to.UTC().Format(time.DateOnly))},
		GroupBy:    []types.GroupDefinition{{Type: types.GroupDefinitionTypeTag, Key: aws.String(burst.TagBurst)}}}
	for range costPages {
		out, err := a.costs.GetCostAndUsage(ctx, in)
		if err != nil {
			return nil, a.failed("ask", "Cost Explorer", err)
		}
		for i := range out.ResultsByTime {
			if all, err = costsOf(all, &out.ResultsByTime[i]); err != nil {
				return nil, a.failed("ask", "Cost Explorer", err)
			}
		}
		if aws.ToString(out.NextPageToken) == "" {
			return all, nil
		}
		in.NextPageToken = out.NextPageToken
	}
	return nil, a.failed("ask", "Cost Explorer", odd("it has no end"))
}

// costsOf adds those of a day. Groups are called KEY$VALUE, and what has no tag KEY$.
func costsOf(all []burst.Cost, of *types.ResultByTime) ([]burst.Cost, error) {
	if of.TimePeriod == nil {
		return nil, odd("a result of no day")
	}
	day, err := time.Parse(time.DateOnly, aws.ToString(of.TimePeriod.Start))
	if err != nil {
		return nil, odd("a result of the day %.40q", aws.ToString(of.TimePeriod.Start))
	}
	for _, g := range of.Groups {
		if len(g.Keys) != 1 {
			return nil, odd("a group with %d keys", len(g.Keys))
		}
		id, is := strings.CutPrefix(g.Keys[0], burst.TagBurst+"$")
		if !is || id == "" {
			continue
		}
		metric := g.Metrics["UnblendedCost"]
		if unit := aws.ToString(metric.Unit); unit != "USD" {
			return nil, odd("costs in %.20q; want USD", unit)
		}
		money, err := parse(aws.ToString(metric.Amount))
		if err != nil {
			return nil, err
		}
		all = append(all, burst.Cost{Day: day, Burst: id, Money: money, Final: !of.Estimated})
	}
	return all, nil
}

// parse reads an amount as AWS writes it, with many digits or an exponent; credits are negative. It is rounded to millionths of a dollar.
func parse(amount string) (pricing.Money, error) {
	dollars, err := strconv.ParseFloat(amount, 64)
	if err != nil || !(math.Abs(dollars) <= float64(pricing.MoneyMost/pricing.Dollar)) {
		return 0, odd("%.60q is no amount", amount)
	}
	return pricing.Money(math.Round(dollars * float64(pricing.Dollar))), nil
}
