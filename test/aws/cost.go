package aws

import (
	"math/big"
	"slices"
	"strings"
	"time"
)

var costService = service{
	name: "ce", iam: "ce", target: "AWSInsightsIndexService", protocol: &json11, operations: map[string]operation{
		"GetCostAndUsage": jsonOperation((*Server).costAndUsage),
	},
}

// Cost is a line of the bill that a test has put there.
type Cost struct {
	Day     time.Time         // UTC
	USD     string            // "12.3456789"
	Service string            // "Amazon FSx"
	Region  string            // "us-east-1"
	Tags    map[string]string // cost allocation tags that are switched on
	Known   time.Time         // when Cost Explorer begins to know it; zero is at once
}

// AddCost puts one there.
func (s *Server) AddCost(c Cost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.costs = append(s.costs, c)
}

type interval struct{ Start, End string }

type costQuery struct {
	TimePeriod    *interval
	Granularity   string
	Metrics       []string
	Filter        *expression
	GroupBy       []grouping
	NextPageToken string
}

type grouping struct{ Type, Key string }

// expression is what a line of the bill has to be. It has one member.
type expression struct {
	And, Or    []*expression
	Not        *expression
	Dimensions *values
	Tags       *values
}

type values struct {
	Key          string
	Values       []string
	MatchOptions []string
}

const day = 24 * time.Hour

var costMetrics = []string{"AmortizedCost", "BlendedCost", "NetAmortizedCost", "NetUnblendedCost", "UnblendedCost"} // the same in the fake: nobody has bought in advance

// costAndUsage is of https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_GetCostAndUsage.html, by days.
func (s *Server) costAndUsage(c *call, in *costQuery) (any, error) {
	start, end, err := in.check(c.at)
	if err != nil {
		return nil, err
	}
	after, err := untoken(in.NextPageToken)
	if err != nil {
		return nil, refuse("InvalidNextTokenException", "NextPageToken is none of ours")
	}
	results, n := []map[string]any{}, uint64(0)
	reply := map[string]any{}
	for d := start; d.Before(end); d = d.Add(day) {
		if n++; n <= after {
			continue
		}
		if s.opts.CostPage > 0 && len(results) == s.opts.CostPage {
			reply["NextPageToken"] = tokenOf(n - 1)
			break
		}
		results = append(results, s.costOf(c.at, d, in))
	}
	reply["ResultsByTime"] = results
	if in.GroupBy != nil {
		reply["GroupDefinitions"] = in.GroupBy
	}
	return reply, nil
}

func (in *costQuery) check(now time.Time) (start, end time.Time, err error) {
	if in.TimePeriod == nil {
		return start, end, refuse("ValidationException", "TimePeriod is required")
	}
	start, err1 := time.Parse(time.DateOnly, in.TimePeriod.Start)
	end, err2 := time.Parse(time.DateOnly, in.TimePeriod.End)
	switch {
	case err1 != nil || err2 != nil || !start.Before(end):
		return start, end, refuse("ValidationException", "TimePeriod: Start and End are days (2026-11-27), and Start is before End, which is exclusive")
	case start.After(now):
		return start, end, refuse("ValidationException", "the Start of the TimePeriod is in the future")
	case end.Sub(start) > 430*day:
		return start, end, refuse("ValidationException", "the TimePeriod has more than 14 months")
	case in.Granularity != "DAILY":
		return start, end, refuse("ValidationException", "this fake knows no Granularity but DAILY")
	case len(in.Metrics) == 0 || len(in.GroupBy) > 2:
		return start, end, refuse("ValidationException", "at least one of Metrics, and at most two of GroupBy")
	}
	for _, m := range in.Metrics {
		if !slices.Contains(costMetrics, m) {
			return start, end, refuse("ValidationException", "this fake knows no metric %s", printable(m))
		}
	}
	for _, g := range in.GroupBy {
		if g.Type != "TAG" && (g.Type != "DIMENSION" || (g.Key != "SERVICE" && g.Key != "REGION")) {
			return start, end, refuse("ValidationException", "this fake groups by TAG, and by the DIMENSIONs SERVICE and REGION")
		}
	}
	return start, end, in.Filter.check()
}

func (e *expression) check() error {
	if e == nil {
		return nil
	}
	n := 0
	for _, there := range []bool{e.And != nil, e.Or != nil, e.Not != nil, e.Dimensions != nil, e.Tags != nil} {
		if there {
			n++
		}
	}
	if n != 1 {
		return refuse("ValidationException", "an Expression has exactly one of And, Or, Not, Dimensions, Tags")
	}
	if d := e.Dimensions; d != nil && d.Key != "SERVICE" && d.Key != "REGION" {
		return refuse("ValidationException", "this fake knows no dimension %s", printable(d.Key))
	}
	for _, v := range []*values{e.Dimensions, e.Tags} {
		for i := 0; v != nil && i < len(v.MatchOptions); i++ {
			if v.MatchOptions[i] != "EQUALS" && (v.MatchOptions[i] != "ABSENT" || v != e.Tags) {
				return refuse("ValidationException", "this fake knows no MatchOptions but EQUALS, and ABSENT of Tags")
			}
		}
	}
	for _, sub := range append(append([]*expression{e.Not}, e.And...), e.Or...) {
		if err := sub.check(); err != nil {
			return err
		}
	}
	return nil
}

// takes says whether a line of the bill is meant.
func (e *expression) takes(c Cost) bool {
	takes := func(sub *expression) bool { return sub.takes(c) }
	switch {
	case e == nil:
		return true
	case e.And != nil:
		return !slices.ContainsFunc(e.And, func(sub *expression) bool { return !sub.takes(c) })
	case e.Or != nil:
		return slices.ContainsFunc(e.Or, takes)
	case e.Not != nil:
		return !e.Not.takes(c)
	case e.Dimensions != nil:
		return slices.Contains(e.Dimensions.Values, c.dimension(e.Dimensions.Key))
	}
	value, has := c.Tags[e.Tags.Key]
	if slices.Contains(e.Tags.MatchOptions, "ABSENT") || len(e.Tags.Values) == 0 {
		return !has
	}
	return has && slices.Contains(e.Tags.Values, value)
}

func (c Cost) dimension(key string) string {
	return map[string]string{"SERVICE": c.Service, "REGION": c.Region}[key]
}

// costOf is a day of the bill. It is an estimate until the day has been over for a day.
func (s *Server) costOf(now, d time.Time, in *costQuery) map[string]any {
	total, groups := new(big.Rat), map[string]*big.Rat{}
	for _, c := range s.costs {
		if !c.Day.UTC().Truncate(day).Equal(d) || c.Known.After(now) || !in.Filter.takes(c) {
			continue
		}
		amount, ok := new(big.Rat).SetString(c.USD)
		if !ok {
			continue // AddCost was given no number: there is no such line
		}
		total.Add(total, amount)
		key := in.key(c)
		if groups[key] == nil {
			groups[key] = new(big.Rat)
		}
		groups[key].Add(groups[key], amount)
	}
	result := map[string]any{
		"TimePeriod": interval{d.Format(time.DateOnly), d.Add(day).Format(time.DateOnly)}, "Estimated": now.Before(d.Add(2 * day)),
		"Total": map[string]any{}, "Groups": []any{},
	}
	if in.GroupBy == nil {
		result["Total"] = in.amounts(total)
		return result
	}
	var all []any
	for _, key := range sorted(groups) {
		all = append(all, map[string]any{"Keys": strings.Split(key, "\x00"), "Metrics": in.amounts(groups[key])})
	}
	if all != nil {
		result["Groups"] = all
	}
	return result
}

// key is the group of a line. A tag's is "key$value", also when there is no value.
func (in *costQuery) key(c Cost) string {
	var keys []string
	for _, g := range in.GroupBy {
		if g.Type == "TAG" {
			keys = append(keys, g.Key+"$"+c.Tags[g.Key])
		} else {
			keys = append(keys, c.dimension(g.Key))
		}
	}
	return strings.Join(keys, "\x00")
}

func (in *costQuery) amounts(amount *big.Rat) map[string]any {
	text := strings.TrimRight(strings.TrimRight(amount.FloatString(10), "0"), ".")
	all := map[string]any{}
	for _, m := range in.Metrics {
		all[m] = map[string]string{"Amount": text, "Unit": "USD"}
	}
	return all
}
