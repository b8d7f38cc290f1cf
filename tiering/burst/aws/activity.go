package aws

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"

	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
)

const (
	lagging = 10 * time.Minute // that figures may come later than what they tell of
	idleCPU = 1                // percent, below which an instance does nothing: one thread for each GPU of a p5.48xlarge, which has 192 vCPUs, is 4
)

// kept is how far back CloudWatch has figures of which period, with a day to spare (User Guide, "Metrics retention"): what is older is told by longer ones. The first is that of the metric itself.
var kept = []struct{ back, period time.Duration }{{14 * 24 * time.Hour, 5 * time.Minute}, {62 * 24 * time.Hour, 5 * time.Minute}, {454 * 24 * time.Hour, time.Hour}}

// metric is a figure that is asked for.
type metric struct {
	namespace, name, dimension, statistic string
	period                                time.Duration // of a figure
	publisher                             string        // a second dimension; "" is that there is none
}

// The figures of FSx for Lustre, of each minute (User Guide, "Monitoring with Amazon CloudWatch") and of EC2, of five where no more is paid for.
var (
	reads    = metric{"AWS/FSx", "DataReadBytes", "FileSystemId", "Sum", burst.Figure, ""}
	writes   = metric{"AWS/FSx", "DataWriteBytes", "FileSystemId", "Sum", burst.Figure, ""}
	names    = metric{"AWS/FSx", "MetadataOperations", "FileSystemId", "Sum", burst.Figure, ""}
	waiting  = metric{"AWS/FSx", "AgeOfOldestQueuedMessage", "FileSystemId", "Maximum", burst.Figure, "AutoExport"} // all dimensions have to be named
	computes = metric{"AWS/EC2", "CPUUtilization", "InstanceId", "Maximum", 5 * time.Minute, ""}
)

// FileSystemActivity is what clients did to a file system since a time: nothing, where the answer has no figure above none. A time is the end of the period of a figure, so that it is not before what it tells of; periods are a minute, and longer where it was asked for more than 14 days. Figures come late, by up to ten minutes.
func (a *Account) FileSystemActivity(ctx context.Context, id string, since, now time.Time) (burst.Activity, error) {
	seen, err := a.figures(ctx, id, since, now, reads, writes, names, waiting)
	if err != nil {
		return burst.Activity{}, err
	}
	active := burst.Activity{From: seen.from}
	for i, figures := range seen.of {
		for at, value := range figures {
			switch {
			case value <= 0:
			case i == 3:
				if now.Sub(at) <= lagging {
					active.Queued = max(active.Queued, time.Duration(min(value, math.MaxInt32)*float64(time.Second)))
				}
			default:
				active.Last = later(active.Last, at)
				if i > 0 {
					active.Written = later(active.Written, at)
				}
			}
		}
	}
	return active, nil
}

// InstanceActivity is when an instance did something since a time. Of a running instance there are figures; before the first of them nothing is known.
func (a *Account) InstanceActivity(ctx context.Context, id string, since, now time.Time) (burst.Activity, error) {
	seen, err := a.figures(ctx, id, since, now, computes)
	if err != nil {
		return burst.Activity{}, err
	}
	active := burst.Activity{From: now}
	for at := range seen.of[0] {
		if first := later(at.Add(-computes.period), seen.from); first.Before(active.From) {
			active.From = first
		}
	}
	for at, value := range seen.of[0] {
		if value >= idleCPU {
			active.Last = later(active.Last, at)
		}
	}
	return active, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// figures are those of some metrics, by the ends of their periods.
type figures struct {
	from  time.Time
	of    []map[time.Time]float64
	whole []bool // all of them were told
}

// figuresMost bounds the pages of an answer: two weeks of minutes are 20,160 figures of each metric, which is the most, and a page has 100,800.
const figuresMost = 10

func (a *Account) figures(ctx context.Context, id string, since, now time.Time, metrics ...metric) (figures, error) {
	k := kept[0]
	for _, more := range kept[1:] {
		if now.Sub(since) > k.back {
			k = more
			metrics = longer(metrics, k.period)
		}
	}
	if since.Before(now.Add(-k.back)) {
		since = now.Add(-k.back)
	}
	seen := figures{from: since.Truncate(k.period)}
	in := &cloudwatch.GetMetricDataInput{StartTime: aws.Time(seen.from), EndTime: aws.Time(now)}
	for i, m := range metrics {
		seen.of, seen.whole = append(seen.of, map[time.Time]float64{}), append(seen.whole, false)
		dimensions := []types.Dimension{{Name: &m.dimension, Value: &id}}
		if m.publisher != "" {
			dimensions = append(dimensions, types.Dimension{Name: aws.String("Publisher"), Value: &m.publisher})
		}
		in.MetricDataQueries = append(in.MetricDataQueries, types.MetricDataQuery{Id: aws.String(fmt.Sprintf("m%d", i)), MetricStat: &types.MetricStat{
			Metric: &types.Metric{Namespace: &m.namespace, MetricName: &m.name, Dimensions: dimensions},
			Period: aws.Int32(int32(m.period / time.Second)), Stat: &m.statistic}})
	}
	for range figuresMost {
		out, err := a.watch.GetMetricData(ctx, in)
		for i := 0; err == nil && i < len(out.MetricDataResults); i++ {
			err = seen.take(&out.MetricDataResults[i], metrics)
		}
		if err == nil && aws.ToString(out.NextToken) != "" {
			in.NextToken = out.NextToken
			continue
		}
		if err == nil && slices.Contains(seen.whole, false) {
			err = fmt.Errorf("%w: CloudWatch has not told all of them", mover.ErrTransient)
		}
		return seen, a.failed("look at", "figures of "+id, err)
	}
	return seen, a.failed("look at", "figures of "+id, odd("it has no end"))
}

// longer are metrics by longer periods.
func longer(metrics []metric, period time.Duration) []metric {
	all := slices.Clone(metrics)
	for i := range all {
		all[i].period = max(all[i].period, period)
	}
	return all
}

// take adds what a page has of a metric. What is no number is no figure: nothing is concluded from it.
func (f *figures) take(r *types.MetricDataResult, metrics []metric) error {
	i, err := strconv.Atoi(strings.TrimPrefix(aws.ToString(r.Id), "m"))
	if err != nil || i < 0 || i >= len(f.of) || len(r.Values) != len(r.Timestamps) {
		return odd("%d figures of %.40q at %d times", len(r.Values), aws.ToString(r.Id), len(r.Timestamps))
	}
	if r.StatusCode != types.StatusCodeComplete && r.StatusCode != types.StatusCodePartialData {
		return fmt.Errorf("%w: %.40q of %s", mover.ErrTransient, r.StatusCode, metrics[i].name)
	}
	f.whole[i] = r.StatusCode == types.StatusCodeComplete
	for k, at := range r.Timestamps {
		if math.IsNaN(r.Values[k]) || math.IsInf(r.Values[k], 0) {
			return odd("%v of %s", r.Values[k], metrics[i].name)
		}
		f.of[i][at.Add(metrics[i].period)] = r.Values[k]
	}
	return nil
}
