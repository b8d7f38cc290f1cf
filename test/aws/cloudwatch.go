package aws

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

var cloudWatchService = service{
	name: "monitoring", iam: "cloudwatch", namespace: "http://monitoring.amazonaws.com/doc/2010-08-01/", version: "2010-08-01", regional: true, protocol: &awsQuery,
	operations: map[string]operation{
		"GetMetricData": queryOperation((*Server).metricData),
	},
}

// Datum is a data point of a metric. The fake makes those of DataReadBytes and DataWriteBytes from what a Tree's clients do, and AgeOfOldestQueuedMessage (dimensions FileSystemId and Publisher,
// which is AutoExport) from what waits; a test puts all others there: ClientConnections and MetadataOperations of AWS/FSx, CPUUtilization of AWS/EC2 by InstanceId. Which there are:
// https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html.
type Datum struct {
	Namespace, Name string            // "AWS/FSx", "DataReadBytes"
	Dimensions      map[string]string // FileSystemId: fs-...
	At              time.Time
	Value           float64
}

// AddDatum puts one there.
func (s *Server) AddDatum(d Datum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.points = append(s.points, d)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// moved notes what a client of a file system has read or written.
func (s *Server) moved(name, system string, bytes int64, now time.Time) {
	s.points = append(s.points, Datum{"AWS/FSx", name, map[string]string{"FileSystemId": system}, now, float64(bytes)})
}

// queued notes how long the oldest file waits for its export, where files are exported by themselves.
func (s *Server) queued(now time.Time) {
	for _, f := range s.systems {
		age, exports := time.Duration(0), false
		for _, a := range s.linked(f.id) {
			if !a.exports() {
				continue
			}
			exports = true
			for _, name := range f.tree.below([]string{a.FileSystemPath}, func(f *File) bool { return f.Dirty }) {
				age = max(age, now.Sub(f.tree.files[name].changed))
			}
		}
		if exports {
			s.points = append(s.points, Datum{"AWS/FSx", "AgeOfOldestQueuedMessage", map[string]string{"FileSystemId": f.id, "Publisher": "AutoExport"}, now, age.Seconds()})
		}
	}
}

// metric is one question of GetMetricData.
type metric struct {
	id, label, namespace, name, stat string
	dimensions                       map[string]string
	period                           time.Duration
	silent                           bool // ReturnData is false
}

const (
	mostMetrics = 500
	mostPoints  = 100800
)

// metricData is of https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_GetMetricData.html, without expressions.
func (s *Server) metricData(c *call, in *form) (any, error) {
	asked, err := in.metrics()
	if err != nil {
		return nil, err
	}
	start, err1 := in.moment("StartTime")
	end, err2 := in.moment("EndTime")
	limit, err3 := in.number("MaxDatapoints")
	order, token := or(in.text("ScanBy"), "TimestampDescending"), in.text("NextToken")
	for _, err := range []error{err1, err2, err3, in.rest()} {
		if err != nil {
			return nil, err
		}
	}
	switch {
	case !start.Before(end):
		return nil, refuse("ValidationError", "StartTime is not before EndTime")
	case order != "TimestampDescending" && order != "TimestampAscending":
		return nil, refuse("ValidationError", "ScanBy %s is none", printable(order))
	case limit != nil && (*limit < 1 || *limit > mostPoints):
		return nil, refuse("ValidationError", "MaxDatapoints %d: 1 to %d", *limit, mostPoints)
	}
	s.queued(c.at)
	return s.results(asked, start, end, order, limit, token)
}

func (f *form) metrics() (all []metric, err error) {
	ids := map[string]bool{}
	err = f.each("MetricDataQueries.member", func(p string) error {
		m := metric{id: f.text(p + "Id"), label: f.text(p + "Label"), silent: f.text(p+"ReturnData") == "false", dimensions: map[string]string{}}
		p += "MetricStat."
		m.namespace, m.name, m.stat = f.text(p+"Metric.Namespace"), f.text(p+"Metric.MetricName"), f.text(p+"Stat")
		seconds, err := f.number(p + "Period")
		if err != nil {
			return err
		}
		_ = f.each(p+"Metric.Dimensions.member", func(p string) error {
			m.dimensions[f.text(p+"Name")] = f.text(p + "Value")
			return nil
		})
		switch {
		case m.id == "" || m.id[0] < 'a' || m.id[0] > 'z' || ids[m.id]:
			return refuse("ValidationError", "the Id %s of a query begins with a small letter, and is there once", printable(m.id))
		case m.namespace == "" || m.name == "" || statistics[m.stat] == nil:
			return refuse("ValidationError", "the query %s has a MetricStat with Namespace, MetricName and Stat (Sum, Average, Minimum, Maximum, SampleCount): this fake knows no others", m.id)
		case seconds == nil || *seconds < 60 || *seconds%60 != 0:
			return refuse("ValidationError", "the Period of the query %s is a multiple of 60 s", m.id)
		}
		m.period, ids[m.id] = time.Duration(*seconds)*time.Second, true
		all = append(all, m)
		return nil
	})
	if err == nil && (len(all) == 0 || len(all) > mostMetrics) {
		err = refuse("ValidationError", "MetricDataQueries: 1 to %d", mostMetrics)
	}
	return all, err
}

var statistics = map[string]func(values []float64) float64{
	"Sum":         sum,
	"Average":     func(v []float64) float64 { return sum(v) / float64(len(v)) },
	"Minimum":     slices.Min[[]float64],
	"Maximum":     slices.Max[[]float64],
	"SampleCount": func(v []float64) float64 { return float64(len(v)) },
}

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// results are all points of all questions, from where the last page ended, until there are too many.
func (s *Server) results(asked []metric, start, end time.Time, order string, limit *int, token string) (any, error) {
	after, err := untoken(token)
	if err != nil {
		return nil, refuse("InvalidNextToken", "NextToken %s is none of ours", printable(token))
	}
	most := mostPoints
	if limit != nil {
		most = *limit
	}
	var results []element
	n, last := uint64(0), after+uint64(most)
	for _, m := range asked {
		if m.silent {
			continue
		}
		periods := s.periods(m, start, end)
		times := slices.SortedFunc(maps.Keys(periods), time.Time.Compare)
		if order == "TimestampDescending" {
			slices.Reverse(times)
		}
		var stamps, values []element
		status := "Complete"
		for _, t := range times {
			n++
			if n > last {
				status = "PartialData"
			}
			if n > after && n <= last {
				stamps = append(stamps, element{"member", "", t.UTC().Format(time.RFC3339)})
				values = append(values, element{"member", "", strconv.FormatFloat(statistics[m.stat](periods[t]), 'g', -1, 64)})
			}
		}
		results = append(results, element{"member", "", []element{{"Id", "", m.id}, {"Label", "", or(m.label, m.name)},
			{"Timestamps", "", stamps}, {"Values", "", values}, {"StatusCode", "", status}}})
	}
	reply := []element{{"MetricDataResults", "", results}}
	if n > last {
		reply = append(reply, element{"NextToken", "", tokenOf(last)})
	}
	return reply, nil
}

// periods are the values of a metric, by the beginning of their period. The end is exclusive. Dimensions are all of the metric, as documented: fewer are another metric.
func (s *Server) periods(m metric, start, end time.Time) map[time.Time][]float64 {
	all := map[time.Time][]float64{}
	for _, p := range s.points {
		if p.Namespace == m.namespace && p.Name == m.name && maps.Equal(p.Dimensions, m.dimensions) && !p.At.Before(start) && p.At.Before(end) {
			t := p.At.Truncate(m.period)
			all[t] = append(all[t], p.Value)
		}
	}
	return all
}
