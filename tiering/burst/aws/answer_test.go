package aws

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/aws"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/pricing"
)

const system = "fs-0123456789abcdef0"

// TestActivity: what clients did to a file system, of the figures of minutes that the stand-in has.
func TestActivity(t *testing.T) {
	c := aws.NewClock()
	server := aws.New(aws.Options{Now: c.Now, Store: empty(), Record: aws.NeedValidator(t).Watch(t)})
	a, now := with(server, owner()), c.Now().Add(time.Hour)
	c.Pass(time.Hour)
	ask := func(since time.Time) burst.Activity {
		t.Helper()
		active, err := a.FileSystemActivity(t.Context(), system, since, now)
		is(t, err, nil)
		return active
	}
	datum := func(name string, minutes int, value float64, more ...string) {
		of := map[string]string{"FileSystemId": system}
		if len(more) > 0 {
			of["Publisher"] = more[0]
		}
		server.AddDatum(aws.Datum{Namespace: "AWS/FSx", Name: name, Dimensions: of, At: now.Add(-time.Duration(minutes) * time.Minute), Value: value})
	}
	since := now.Add(-33 * time.Minute)
	if got := ask(since); got != (burst.Activity{From: now.Add(-35 * time.Minute)}) {
		t.Errorf("nothing was done: %+v", got)
	}
	datum("DataReadBytes", 5, 0)
	datum("DataWriteBytes", 5, 0)
	if got := ask(since); !got.Last.IsZero() || !got.Written.IsZero() {
		t.Errorf("figures of nothing: %+v", got)
	}
	datum("DataReadBytes", 10, 1)
	if got := ask(since); !got.Last.Equal(now.Add(-9*time.Minute)) || !got.Written.IsZero() {
		t.Errorf("a byte was read: %+v", got)
	}
	datum("DataWriteBytes", 20, 4096)
	datum("DataWriteBytes", 40, 4096)
	if got := ask(since); !got.Last.Equal(now.Add(-9*time.Minute)) || !got.Written.Equal(now.Add(-19*time.Minute)) {
		t.Errorf("and some were written before: %+v", got)
	}
	datum("MetadataOperations", 7, 1) // a removal is a write, and so may be any other
	if got := ask(since); !got.Written.Equal(now.Add(-6 * time.Minute)) {
		t.Errorf("a name was changed: %+v", got)
	}
	datum("AgeOfOldestQueuedMessage", 30, 99, "AutoExport")
	datum("AgeOfOldestQueuedMessage", 3, 77, "AutoImport")
	if got := ask(since); got.Queued != 0 {
		t.Errorf("a change waited, and does not any more: %+v", got)
	}
	datum("AgeOfOldestQueuedMessage", 3, 42.5, "AutoExport")
	if got := ask(since); got.Queued != 42500*time.Millisecond {
		t.Errorf("a change waits: %+v", got)
	}
	// Whoever came home long ago is asked about since then, by longer periods.
	for days, period := range map[int]time.Duration{14: time.Minute, 15: 5 * time.Minute, 62: 5 * time.Minute, 63: time.Hour, 400: time.Hour, 1000: time.Hour} {
		at := now.AddDate(0, 0, -min(days, 454)).Truncate(max(period, 5*time.Minute))
		got := ask(now.AddDate(0, 0, -days))
		if !got.From.Equal(at) || got.Last != now.Add(-7*time.Minute).Truncate(period).Add(period) || got.Queued < 42500*time.Millisecond {
			t.Errorf("since %d days: %+v; want from %v", days, got, at)
		}
	}

	machine := func() burst.Activity {
		t.Helper()
		active, err := a.InstanceActivity(t.Context(), "i-0123456789abcdef0", now.Add(-5*time.Hour), now)
		is(t, err, nil)
		return active
	}
	cpu := func(minutes int, percent float64) {
		server.AddDatum(aws.Datum{Namespace: "AWS/EC2", Name: "CPUUtilization", Dimensions: map[string]string{"InstanceId": "i-0123456789abcdef0"}, At: now.Add(-time.Duration(minutes) * time.Minute), Value: percent})
	}
	if got := machine(); !got.From.Equal(now) {
		t.Errorf("nothing is known of it, and so it is not idle: %+v", got)
	}
	cpu(180, 0.2)
	if got := machine(); !got.From.Equal(now.Add(-180*time.Minute)) || !got.Last.IsZero() {
		t.Errorf("it is idle since three hours: %+v", got)
	}
	cpu(120, 8*100.0/192) // a thread for each of eight GPUs, on 192 vCPUs
	if got := machine(); !got.Last.Equal(now.Add(-115 * time.Minute)) {
		t.Errorf("it trained two hours ago: %+v", got)
	}
}

// page is a page of GetMetricData in XML.
func page(token string, results ...string) string {
	if token != "" {
		token = "<NextToken>" + token + "</NextToken>"
	}
	return "<GetMetricDataResponse><GetMetricDataResult><MetricDataResults>" + strings.Join(results, "") + "</MetricDataResults>" + token + "</GetMetricDataResult></GetMetricDataResponse>"
}

func result(id, status string, at time.Time, values ...string) string {
	var times, numbers strings.Builder
	for i, v := range values {
		fmt.Fprintf(&times, "<member>%s</member>", at.Add(time.Duration(i)*time.Minute).UTC().Format(time.RFC3339))
		fmt.Fprintf(&numbers, "<member>%s</member>", v)
	}
	return "<member><Id>" + id + "</Id><StatusCode>" + status + "</StatusCode><Timestamps>" + times.String() + "</Timestamps><Values>" + numbers.String() + "</Values></member>"
}

// pages answers with one after the other, and then with the last again.
type pages struct {
	all   []string
	asked int
}

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/xml")
	if r.Header.Get("X-Amz-Target") != "" {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	}
	_, _ = w.Write([]byte(p.all[min(p.asked, len(p.all)-1)]))
	p.asked++
}

// TestFigures: figures come in pages, and from what is not all of them, or does not fit, nothing is concluded.
func TestFigures(t *testing.T) {
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	at := now.Add(-30 * time.Minute)
	others := func(status string) string {
		return result("m1", status, at) + result("m2", status, at) + result("m3", status, at)
	}
	complete := others("Complete")
	for _, test := range []struct {
		what  string
		pages []string
		kind  error
		last  time.Time
		asked int
	}{
		{"one page", []string{page("", result("m0", "Complete", at, "0", "1"), complete)}, nil, at.Add(2 * time.Minute), 1},
		{"three pages", []string{page("a", result("m0", "PartialData", at, "1"), complete), page("b", result("m0", "PartialData", at.Add(time.Minute), "1")), page("", result("m0", "Complete", at.Add(5*time.Minute), "1E3"))}, nil, at.Add(6 * time.Minute), 3},
		{"they have no end", []string{page("a", result("m0", "PartialData", at, "1"), complete)}, mover.ErrCorrupt, time.Time{}, figuresMost},
		{"the last page is not the end", []string{page("", result("m0", "PartialData", at, "1"), complete)}, mover.ErrTransient, time.Time{}, 1},
		{"one metric is not told", []string{page("", complete)}, mover.ErrTransient, time.Time{}, 1},
		{"none is told", []string{page("")}, mover.ErrTransient, time.Time{}, 1},
		{"AWS has failed", []string{page("", result("m0", "InternalError", at), complete)}, mover.ErrTransient, time.Time{}, 1},
		{"it is forbidden", []string{page("", result("m0", "Forbidden", at), complete)}, mover.ErrTransient, time.Time{}, 1},
		{"of something else", []string{page("", result("m4", "Complete", at, "1"), complete)}, mover.ErrCorrupt, time.Time{}, 1},
		{"of something odd", []string{page("", result("m0x", "Complete", at, "1"), complete)}, mover.ErrCorrupt, time.Time{}, 1},
		{"of what is less than nothing", []string{page("", result("m-1", "Complete", at, "1"), complete)}, mover.ErrCorrupt, time.Time{}, 1},
		{"fewer times than values", []string{page("", strings.Replace(result("m0", "Complete", at, "1"), "<member>1</member>", "<member>1</member><member>2</member>", 1), complete)}, mover.ErrCorrupt, time.Time{}, 1},
		{"no number", []string{page("", result("m0", "Complete", at, "NaN"), complete)}, mover.ErrCorrupt, time.Time{}, 1},
		{"too large a number", []string{page("", result("m0", "Complete", at, "Infinity"), complete)}, mover.ErrCorrupt, time.Time{}, 1},
		{"no XML", []string{"not <xml"}, mover.ErrCorrupt, time.Time{}, 1},
	} {
		p := &pages{all: test.pages}
		got, err := with(p, owner()).FileSystemActivity(t.Context(), system, now.Add(-time.Hour), now)
		if !errors.Is(err, test.kind) || test.kind == nil && err != nil || p.asked != test.asked || err == nil && !got.Last.Equal(test.last) {
			t.Errorf("%s: %+v, %v after %d calls", test.what, got, err, p.asked)
		}
	}
	huge := &pages{all: []string{page("", result("m0", "Complete", at)+result("m1", "Complete", at)+result("m2", "Complete", at)+result("m3", "Complete", now.Add(-time.Minute), "1e300"))}}
	if got, err := with(huge, owner()).FileSystemActivity(t.Context(), system, now.Add(-time.Hour), now); err != nil || got.Queued <= 0 {
		t.Errorf("a change waits for longer than there is time: %+v, %v", got, err)
	}
	cpu := &pages{all: []string{page("", result("m0", "Complete", at, "NaN"))}}
	if _, err := with(cpu, owner()).InstanceActivity(t.Context(), "i-1", now.Add(-time.Hour), now); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("an instance that computes NaN percent: %v", err)
	}
}

// TestCosts: what Cost Explorer says of bursts by days, over pages.
func TestCosts(t *testing.T) {
	c := aws.NewClock()
	server := aws.New(aws.Options{Now: c.Now, Store: empty(), CostPage: 2, Record: aws.NeedValidator(t).Watch(t)})
	a, day := with(server, owner()), time.Date(2026, 10, 28, 0, 0, 0, 0, time.UTC)
	for i, usd := range []string{"1.2345678", "0.0000004", "-3.5", "7", "0.5"} {
		server.AddCost(aws.Cost{Day: day.AddDate(0, 0, i), USD: usd, Service: "Amazon FSx", Region: "us-east-1", Tags: map[string]string{burst.TagBurst: "0123"}})
		server.AddCost(aws.Cost{Day: day.AddDate(0, 0, i), USD: "100", Service: "Amazon FSx", Region: "us-east-1"})
	}
	server.AddCost(aws.Cost{Day: day, USD: "2", Service: "Amazon EC2", Region: "us-east-1", Tags: map[string]string{burst.TagBurst: "4567"}})
	all, err := a.Costs(t.Context(), day, day.AddDate(0, 0, 5))
	is(t, err, nil)
	var got strings.Builder
	for _, c := range all {
		fmt.Fprintf(&got, "%s %s %v %v\n", c.Day.Format(time.DateOnly), c.Burst, int64(c.Money), c.Final)
	}
	const want = "2026-10-28 0123 1234568 true\n2026-10-28 4567 2000000 true\n2026-10-29 0123 0 true\n2026-10-30 0123 -3500000 true\n2026-10-31 0123 7000000 true\n2026-11-01 0123 500000 false\n"
	if got.String() != want || server.Calls("GetCostAndUsage") != 3 {
		t.Errorf("after %d calls\n%s", server.Calls("GetCostAndUsage"), got.String())
	}

	group := func(key, amount, unit string) string {
		return fmt.Sprintf(`{"Keys": [%q], "Metrics": {"UnblendedCost": {"Amount": %q, "Unit": %q}}}`, key, amount, unit)
	}
	reply := func(groups, token string) string {
		return `{"ResultsByTime": [{"TimePeriod": {"Start": "2026-10-28", "End": "2026-10-29"}, "Estimated": false, "Total": {}, "Groups": [` + groups + `]}]` + token + `}`
	}
	key := burst.TagBurst + "$0123"
	for _, test := range []struct {
		what, reply string
		money       pricing.Money
		kind        error
	}{
		{"an exponent", reply(group(key, "1.5E-5", "USD"), ""), 15, nil},
		{"another one", reply(group(key, "1.2e3", "USD"), ""), 1_200_000_000, nil},
		{"a credit", reply(group(key, "-0.0000005", "USD"), ""), -1, nil},
		{"many digits", reply(group(key, "0.12345678901234567890", "USD"), ""), 123457, nil},
		{"what has no tag", reply(group(burst.TagBurst+"$", "5", "EUR"), ""), 0, nil},
		{"another tag", reply(group("other$0123", "5", "EUR"), ""), 0, nil},
		{"euros", reply(group(key, "5", "EUR"), ""), 0, mover.ErrCorrupt},
		{"no unit", reply(group(key, "5", ""), ""), 0, mover.ErrCorrupt},
		{"another metric", strings.ReplaceAll(reply(group(key, "5", "USD"), ""), "UnblendedCost", "Other"), 0, mover.ErrCorrupt},
		{"no number", reply(group(key, "much", "USD"), ""), 0, mover.ErrCorrupt},
		{"nothing", reply(group(key, "", "USD"), ""), 0, mover.ErrCorrupt},
		{"NaN", reply(group(key, "NaN", "USD"), ""), 0, mover.ErrCorrupt},
		{"without end", reply(group(key, "-Inf", "USD"), ""), 0, mover.ErrCorrupt},
		{"more than all money", reply(group(key, "1e300", "USD"), ""), 0, mover.ErrCorrupt},
		{"two keys", strings.Replace(reply(group(key, "5", "USD"), ""), `"Keys": [`, `"Keys": ["a", `, 1), 0, mover.ErrCorrupt},
		{"no day", strings.Replace(reply(group(key, "5", "USD"), ""), `"Start": "2026-10-28"`, `"Start": "\u001b[2J"`, 1), 0, mover.ErrCorrupt},
		{"no period", `{"ResultsByTime": [{"Groups": [` + group(key, "5", "USD") + `]}]}`, 0, mover.ErrCorrupt},
		{"pages without end", reply(group(key, "5", "USD"), `, "NextPageToken": "a"`), 0, mover.ErrCorrupt},
	} {
		h := &says{answers: map[string]string{"GetCostAndUsage": test.reply}}
		all, err := with(h, owner()).Costs(t.Context(), day, day.AddDate(0, 0, 1))
		sum := pricing.Money(0)
		for _, c := range all {
			sum += c.Money
		}
		if !errors.Is(err, test.kind) || test.kind == nil && err != nil || err == nil && sum != test.money || err != nil && strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: %v, %v", test.what, int64(sum), err)
		}
		if n := h.asked["GetCostAndUsage"]; n > costPages {
			t.Errorf("%s: %d calls", test.what, n)
		}
	}
}

// TestHostile: answers that AWS does not give are mover.ErrCorrupt, and nothing of them is taken for true.
func TestHostile(t *testing.T) {
	fs := func(fields string) string {
		return `{"FileSystems": [{"FileSystemType": "LUSTRE", "FileSystemId": "fs-0123456789abcdef0", "Lifecycle": "AVAILABLE"` + fields + `}]}`
	}
	one := func(name, fields string) string { return `{"` + name + `": {` + fields + `}}` }
	ctx := t.Context()
	ask := map[string]func(a *Account) error{
		"CreateFileSystem": func(a *Account) error { return errOf(a.Create(ctx, scratch("x"))) },
		"DescribeFileSystems": func(a *Account) error {
			err := errOf(a.FileSystem(ctx, system))
			if errors.Is(err, mover.ErrNotExist) {
				return errors.New("an odd answer says that it is gone")
			}
			return err
		},
		"all":                                func(a *Account) error { return errOf(a.FileSystems(ctx)) },
		"CreateDataRepositoryAssociation":    func(a *Account) error { return errOf(a.Associate(ctx, system, "x", "s3://b/x/", nil)) },
		"DescribeDataRepositoryAssociations": func(a *Account) error { return errOf(a.Associations(ctx, system)) },
		"CreateDataRepositoryTask": func(a *Account) error {
			return errOf(a.Begin(ctx, system, "x", burst.ExportWork, []string{"a"}, "s3://b/x", nil))
		},
		"DescribeDataRepositoryTasks": func(a *Account) error { return errOf(a.Task(ctx, "task-0123456789abcdef0")) },
		"tasks":                       func(a *Account) error { return errOf(a.Tasks(ctx, system)) },
		"DescribeInstances":           func(a *Account) error { return errOf(a.Instances(ctx)) },
		"StopInstances":               func(a *Account) error { return a.Stop(ctx, "i-0123456789abcdef0") },
	}
	instances := func(id, token string) string {
		return "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>" + id + "</instanceId></item></instancesSet></item></reservationSet>" + token + "</DescribeInstancesResponse>"
	}
	task := func(id, of, more string) string {
		return `{"DataRepositoryTasks": [{"TaskId": "` + id + `", "FileSystemId": "` + of + `"` + more + `}]}`
	}
	for _, test := range []struct{ what, operation, ask, reply string }{
		{"no file system was made", "CreateFileSystem", "", `{}`},
		{"one without an ID", "CreateFileSystem", "", one("FileSystem", `"Lifecycle": "CREATING"`)},
		{"one with an odd ID", "CreateFileSystem", "", one("FileSystem", `"FileSystemId": "fs-1; rm -rf /"`)},
		{"nothing was seen", "DescribeFileSystems", "", `{}`},
		{"nothing was seen, in a list", "DescribeFileSystems", "", `{"FileSystems": []}`},
		{"two were", "DescribeFileSystems", "", strings.Replace(fs(""), `[{`, `[{"FileSystemId": "fs-0123456789abcdef1"}, {`, 1)},
		{"another one was", "DescribeFileSystems", "", strings.Replace(fs(""), "def0", "def1", 1)},
		{"it is mounted in an odd way", "DescribeFileSystems", "", fs(`, "DNSName": "x; rm -rf /"`)},
		{"or so", "DescribeFileSystems", "", fs(`, "LustreConfiguration": {"MountName": "x\u001b[2J"}`)},
		{"a listing with an odd one", "DescribeFileSystems", "all", strings.Replace(fs(""), "fs-0", "../0", 1)},
		{"a listing without an end", "DescribeFileSystems", "all", strings.Replace(fs(""), `{"FileSystems"`, `{"NextToken": "a", "FileSystems"`, 1)},
		{"no association was made", "CreateDataRepositoryAssociation", "", `{}`},
		{"an odd one was", "CreateDataRepositoryAssociation", "", one("Association", `"AssociationId": "dra-x"`)},
		{"associations of another file system", "DescribeDataRepositoryAssociations", "", `{"Associations": [{"AssociationId": "dra-0123456789abcdef0", "FileSystemId": "fs-other"}]}`},
		{"associations without an end", "DescribeDataRepositoryAssociations", "", `{"NextToken": "a"}`},
		{"no task was begun", "CreateDataRepositoryTask", "", `{}`},
		{"one that leads somewhere else", "CreateDataRepositoryTask", "", one("DataRepositoryTask", `"TaskId": "task-../../../../etc"`)},
		{"no task", "DescribeDataRepositoryTasks", "", `{"DataRepositoryTasks": []}`},
		{"another task", "DescribeDataRepositoryTasks", "", task("task-0123456789abcdef1", system, "")},
		{"fewer files than none failed", "DescribeDataRepositoryTasks", "", task("task-0123456789abcdef0", system, `, "Status": {"TotalCount": 1, "FailedCount": -1}`)},
		{"tasks of another file system", "DescribeDataRepositoryTasks", "tasks", task("task-0123456789abcdef0", "fs-other", "")},
		{"tasks without an end", "DescribeDataRepositoryTasks", "tasks", `{"NextToken": "a"}`},
		{"an odd instance", "DescribeInstances", "", instances("x", "")},
		{"instances without an end", "DescribeInstances", "", instances("i-0123456789abcdef0", "<nextToken>a</nextToken>")},
		{"another instance stops", "StopInstances", "", "<StopInstancesResponse><instancesSet><item><instanceId>i-0123456789abcdef1</instanceId></item></instancesSet></StopInstancesResponse>"},
		{"none stops", "StopInstances", "", "<StopInstancesResponse></StopInstancesResponse>"},
		{"no JSON", "DescribeFileSystems", "", `{"FileSystems": [`},
		{"a list that is none", "DescribeFileSystems", "", `{"FileSystems": {}}`},
		{"an answer that is too long", "DescribeFileSystems", "", `{"Message": "` + strings.Repeat("x", answerMost) + `"}`},
	} {
		o := owner()
		o.Attempts = 2
		h := &says{answers: map[string]string{test.operation: test.reply}}
		do := ask[test.operation]
		if test.ask != "" {
			do = ask[test.ask]
		}
		if err := do(with(h, o)); !errors.Is(err, mover.ErrCorrupt) || len(err.Error()) > 800 || strings.ContainsRune(err.Error(), '\x1b') {
			t.Errorf("%s: %.300q", test.what, err)
		}
		if n := h.asked[test.operation]; n > pagesMost {
			t.Errorf("%s: %d calls", test.what, n)
		}
	}
	for what, reply := range map[string]string{
		"no keys":               "<AssumeRoleResponse><AssumeRoleResult></AssumeRoleResult></AssumeRoleResponse>",
		"keys that do not end":  "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken></Credentials></AssumeRoleResult></AssumeRoleResponse>",
		"keys without a secret": "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA</AccessKeyId><SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>",
	} {
		o := owner()
		o.Role = aws.RoleARN("burst")
		a := with(&says{answers: map[string]string{"AssumeRole": reply}}, o)
		if err := errOf(a.Renew(ctx)); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		if err := errOf(a.FileSystems(ctx)); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAmounts: an amount is a number of dollars, to a millionth.
func TestAmounts(t *testing.T) {
	for text, want := range map[string]pricing.Money{"0": 0, "1": pricing.Dollar, "-1e-6": -1, "1e9": pricing.MoneyMost, "0.0000005": 1, "4E-7": 0} {
		if got, err := parse(text); err != nil || got != want {
			t.Errorf("%s is %v, %v", text, int64(got), err)
		}
	}
	if _, err := parse(fmt.Sprint(math.MaxFloat64)); !errors.Is(err, mover.ErrCorrupt) {
		t.Error(err)
	}
}
