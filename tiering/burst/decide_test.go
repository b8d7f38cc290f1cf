package burst

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
	"datamove.dev/tiering/burst/pricing"
)

// TestAdmit is the specification of the usual rules, and of each field of a rule.
func TestAdmit(t *testing.T) {
	usual, err := ReadAdmission("usual", []byte(DefaultAdmission))
	must.Do(t, err)
	strict, err := ReadAdmission("strict", []byte("kind: BurstAdmission\nrules:\n  - {name: big, jobs: [training, tuning], dataAtLeast: 1TB, teams: [vision, speech], priorities: normal}\n"))
	must.Do(t, err)
	const TB = 1_000_000_000_000
	for _, test := range []struct {
		what  string
		rules *Admission
		job   Job
		bytes int64
		by    Name
		why   string
	}{
		{"large, and not before tomorrow", usual, Job{Kind: "training", GPUs: 64, StartsIn: Span(9 * time.Hour)}, 0, "large", ""},
		{"large, and no such GPUs here", usual, Job{Kind: "training", GPUs: 64, NoneHere: true}, 0, "large", ""},
		{"small, and urgent", usual, Job{Kind: "training", GPUs: 8, StartsIn: Span(9 * time.Hour), Priority: "urgent"}, 0, "urgent", ""},
		{"small, and of high priority", usual, Job{Kind: "training", GPUs: 8, NoneHere: true, Priority: "high"}, 0, "urgent", ""},
		{"both: by the first", usual, Job{Kind: "training", GPUs: 64, NoneHere: true, Priority: "high"}, 0, "large", ""},
		{"small, and nothing special", usual, Job{Kind: "training", GPUs: 8, StartsIn: Span(9 * time.Hour)}, 0, "", "urgent: its priority is normal, and not high or urgent"},
		{"small", usual, Job{Kind: "training", GPUs: 63, StartsIn: Span(9 * time.Hour)}, 0, "", "large: it has 63 GPUs, fewer than 64"},
		{"soon enough: six hours are not more than six hours", usual, Job{Kind: "training", GPUs: 64, StartsIn: Span(6 * time.Hour)}, 0, "", "large: it begins here in 6h00m, which is not more than 6h00m"},
		{"at once", usual, Job{Kind: "training", GPUs: 64, Priority: "urgent"}, 0, "", "urgent: it begins here in 0.00s"},
		{"inference", usual, Job{Kind: "inference", GPUs: 64, NoneHere: true, Priority: "urgent"}, 0, "", "large: the job is inference, and not training"},
		{"a priority that nobody gave is normal", strict, Job{Kind: "tuning", GPUs: 1}, TB, "big", ""},
		{"too little to send", strict, Job{Kind: "training", GPUs: 1}, TB - 1, "", "less than"},
		{"of a priority that is not named", strict, Job{Kind: "training", GPUs: 1, Priority: "low"}, TB, "", "its priority is low"},
		{"no rule admits anything", &Admission{}, Job{Kind: "training", GPUs: 1000, NoneHere: true, Priority: "urgent"}, TB, "", ""},
	} {
		b := &Burst{Spec: Spec{Team: "speech", Job: test.job}}
		got := test.rules.Admit(b, test.bytes)
		if got.By != test.by || test.by == "" && !strings.Contains(strings.Join(got.Why, "; "), test.why) || (got.Err() == nil) != (test.by != "") || got.Err() != nil && !errors.Is(got.Err(), mover.ErrRefused) {
			t.Errorf("%s: %+v", test.what, got)
		}
	}
	other := &Burst{Spec: Spec{Team: "ops", Job: Job{Kind: "training", GPUs: 1}}}
	if got := strict.Admit(other, TB); got.By != "" || !strings.Contains(got.Why[0], "team ops is not vision or speech") {
		t.Errorf("%+v", got)
	}
	for what, text := range map[string]string{
		"want BurstAdmission":             "kind: Burst\nrules: [{name: a, jobs: x}]",
		"rules: is missing":               "kind: BurstAdmission\nrules: []",
		"not 2":                           "kind: BurstAdmission\nrules: [{name: a, jobs: x}]\n---\nkind: BurstAdmission\nrules: [{name: a, jobs: x}]",
		"not 0":                           "",
		`2:40: rules[0].priorities: unkn`: "kind: BurstAdmission\nrules: [{name: a, jobs: x, priorities: [top]}]",
		"rules[0].jobs: want words":       "kind: BurstAdmission\nrules: [{name: a, jobs: \"x\\x1b\"}]",
		"rules[0].teams":                  "kind: BurstAdmission\nrules: [{name: a, jobs: x, teams: [\"a b\"]}]",
		"did you mean gpusAtLeast":        "kind: BurstAdmission\nrules: [{name: a, jobs: x, gpuAtLeast: 1}]",
	} {
		if _, err := ReadAdmission("a.yaml", []byte(text)); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), strings.ReplaceAll(what, ": want", `: "x\x1b": want`)) {
			t.Errorf("want %q, and not %v", what, err)
		}
	}
}

// steps are the capacities that FSx for Lustre has on SSD, counted one by one: 1,200 GiB, then 2,400 and each 2,400 more.
func steps(bytes int64) int64 {
	if bytes <= 1200<<30 {
		return 1200
	}
	at := int64(2400)
	for at<<30 < bytes {
		at += 2400
	}
	return at
}

// TestSize: a file system is of the next step that holds the bytes, and what no file system holds is refused.
func TestSize(t *testing.T) {
	for _, bytes := range []int64{0, 1, 1200<<30 - 1, 1200 << 30, 1200<<30 + 1, 2400 << 30, 2400<<30 + 1, 4800 << 30, 4800<<30 + 1, 1 << 50} {
		if got, err := capacityOf(bytes); err != nil || got != steps(bytes) {
			t.Errorf("%d bytes: %d GiB, %v; want %d", bytes, got, err, steps(bytes))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Int64Range(0, 1<<50).Draw(t, "bytes")
		got, err := capacityOf(bytes)
		if err != nil || got != steps(bytes) || got<<30 < bytes {
			t.Fatalf("%d bytes: %d GiB, %v; want %d", bytes, got, err, steps(bytes))
		}
	})
	for _, bytes := range []int64{1<<50 + 1, math.MaxInt64 - 1, math.MaxInt64} {
		if got, err := capacityOf(bytes); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%d bytes: %d GiB, %v", bytes, got, err)
		}
	}
	const GiB = 1 << 30
	for _, test := range []struct {
		what             string
		capacity         Size
		saves, results   Size
		data, gibs, kind int64
	}{
		{"the data and a quarter of it", 0, 0, 0, 960 * GiB, 1200, 0},
		{"a byte more", 0, 0, 0, 960*GiB + 1, 2400, 0},
		{"three saves of each directory", 0, 320 * GiB, 0, 0, 1200, 0},
		{"and results", 0, 320 * GiB, 1, 0, 2400, 0},
		{"as it says", 4800 * GiB, 1, 1, 1, 4800, 0},
		{"as it says, rounded up", 2401 * GiB, 1, 1, 1, 4800, 0},
		{"it says less than what there is, which the step that it gets holds", 1000 * GiB, 0, 0, 1100 * GiB, 1200, 0},
		{"it says too little", 1200 * GiB, 0, 0, 1200*GiB + 1, 0, 1},
		{"nothing holds it", 0, 0, 0, 1 << 50, 0, 1},
		{"more than numbers have", 0, math.MaxInt64 / 2, 0, 0, 0, 1},
		{"more than numbers have, together", 0, 0, math.MaxInt64, math.MaxInt64, 0, 1},
		{"it says so much that no number has the rest", 1200 * GiB, math.MaxInt64 / 2, 0, 0, 0, 1},
	} {
		b := &Burst{Spec: Spec{Cloud: Cloud{FileSystem: &FileSystem{Type: Scratch2, Capacity: test.capacity}}, Checkpoints: []Checkpoint{{Size: test.saves}}, Results: []Result{{Size: test.results}}}}
		got, err := b.Capacity(test.data)
		if test.kind == 0 && (err != nil || got != test.gibs) || test.kind == 1 && !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %d, %v", test.what, got, err)
		}
	}
	if got, err := (&Burst{}).Capacity(1 << 62); got != 0 || err != nil {
		t.Errorf("without a file system: %d, %v", got, err)
	}
}

// round is a book of round prices, so that a bill can be worked by hand.
const round = `kind: PriceBook
region: eu-central-1
currency: USD
date: 2026-10-01
source: the test
rates:
  s3.put: {unit: 1000 requests, usd: 1}
  s3.get: {unit: 1000 requests, usd: 0.1}
  s3.standard: {unit: GB-month, usd: 0.72}
  fsx.persistent_2.250: {unit: GB-month, usd: 7.2}
  fsx.scratch_2: {unit: GB-month, usd: 3.6}
  egress.direct-connect: {unit: GB, usd: 0.5}
  egress.vpn: {unit: GB, usd: 1}
  egress.internet: {unit: GB, usd: 2}
  ec2.p5.48xlarge: {unit: hour, usd: 50}
`

func book(t *testing.T) *pricing.Book {
	t.Helper()
	b := must.Get(pricing.Read("round.yaml", []byte(round)))(t)
	return b
}

// TestEstimate is worked by hand. November has 720 hours, so a GB that lies there for an hour costs a thousandth of a dollar in S3, and a hundredth in FSx.
func TestEstimate(t *testing.T) {
	const GiB = 1 << 30
	now := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	b := &Burst{Metadata: Metadata{Name: "x"}, Spec: Spec{
		Cloud: Cloud{FileSystem: &FileSystem{Type: Persistent2, Throughput: 250}},
		Job:   Job{Instances: Instances{Type: "p5.48xlarge", Count: 2}},
		// 0.9 of it is 100 MiB/s of contents
		Link:        Link{Kind: "directConnect", Rate: Rate(1000 << 20 / 9)},
		Lasts:       Span(10 * time.Hour),
		Checkpoints: []Checkpoint{{Path: "c", Size: 10 * GiB, Every: Span(time.Hour)}},
		Results:     []Result{{Path: "r", Size: 2 * GiB}},
	}}
	sizes := []Measured{{Files: 1000, Bytes: 200 * GiB, There: 100 * GiB, Kept: 400}, {Files: 24, Bytes: 24 * GiB}}
	e := must.Get(b.Estimate(sizes, book(t), nil, now))(t)
	// 124 GiB are sent, of 624 files; 224 GiB are there then, of 1,024. At 102.4 seconds of each 10 GiB: 124 GiB take 1,269.76 s.
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-4*math.Abs(want) {
			t.Errorf("%s: %v; want %v", what, got, want)
		}
	}
	near("sends", e.Sends.Seconds(), 1269.76)
	near("lags", e.Lags.Seconds(), 102.4)
	// 224 + 3*10 + 2 = 256 GiB and a quarter more: the smallest.
	if e.Files != 624 || e.Bytes != 124*GiB || e.Held != 224*GiB || e.GiB != 1200 || e.Saves != 10 || e.Home != 102*GiB || len(e.Late) != 0 {
		t.Errorf("%+v", e)
	}
	lies := 10 + 1269.76/3600 // hours in the bucket
	want := []struct {
		rate string
		cost float64
	}{
		{pricing.S3Put, (624 + 124*64) / 1000.0},            // a request for each file, and each 16 MiB
		{pricing.S3Standard, 224 * lies * 0.001},            // for as long as it is sent, and lasts
		{"fsx.persistent_2.250", 1200 * (10 + 0.25) * 0.01}, // a quarter of an hour is made
		{pricing.S3Get, (1024 + 224*64) / 10000.0},          // all of it is read once, what was there before, too
		{pricing.S3Put, (10 + 102*64) / 1000.0},             //
		{pricing.S3Standard, 51 * 10 * 0.001},               // half of what comes, on average
		{pricing.S3Get, (10 + 102*64) / 10000.0},            //
		{pricing.EgressDirect, 102 * 0.5},                   //
		{pricing.EC2("p5.48xlarge"), 2 * 10 * 50},           //
	}
	total := 0.0
	for i, line := range e.Bill.Lines {
		if i >= len(want) || line.Rate != want[i].rate {
			t.Fatalf("line %d is %+v", i, line)
		}
		near(line.Rate+" "+line.Why, float64(line.Cost)/1e6, want[i].cost)
		total += want[i].cost
	}
	near("in all", float64(e.Bill.Total)/1e6, total)
	if len(e.Bill.Lines) != len(want) || len(e.Basis) != 5 || !strings.Contains(strings.Join(e.Basis, "\n"), "90 % is contents") {
		t.Errorf("%+v", e)
	}
	for kind, rate := range map[string]string{"directConnect": pricing.EgressDirect, "vpn": pricing.EgressVPN, "internet": pricing.EgressInternet} {
		b.Spec.Link.Kind = kind
		if e, err := b.Estimate(sizes, book(t), nil, now); err != nil || b.Spec.Link.Egress() != rate || !slices.ContainsFunc(e.Bill.Lines, func(l pricing.Line) bool { return l.Rate == rate }) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	b.Spec.Cloud.FileSystem, b.Spec.Job.Instances = nil, Instances{}
	if e, err := b.Estimate(nil, book(t), nil, now); err != nil || e.GiB != 0 || e.Makes != 0 || len(e.Bill.Lines) != 4 {
		t.Errorf("%v, %+v", err, e)
	}
}

// TestLate: an objective that a link can not hold is said, also where each directory alone could be.
func TestLate(t *testing.T) {
	const GiB = 1 << 30
	for _, test := range []struct {
		what string
		all  []Checkpoint
		late string
	}{
		{"all well", []Checkpoint{{Path: "c", Size: 10 * GiB, Every: Span(time.Hour)}}, ""},
		{"one takes longer than there is time", []Checkpoint{{Path: "c", Size: 400 * GiB, Every: Span(time.Hour)}}, "c: one comes home in 1h08m, and there is one every 1h00m"},
		{"one is there only after what may be lost", []Checkpoint{{Path: "c", Size: 10 * GiB, Every: Span(time.Hour), RPO: Span(time.Hour)}}, "c: 1h02m of work may be lost, and 1h00m is wanted"},
		{"just so", []Checkpoint{{Path: "c", Size: 10 * GiB, Every: Span(time.Hour), RPO: Span(time.Hour + 103*time.Second)}}, ""},
		{"two that do not go together over one link", []Checkpoint{{Path: "c", Size: 200 * GiB, Every: Span(time.Hour)}, {Path: "d", Size: 200 * GiB, Every: Span(time.Hour)}}, "all together: what is saved takes 1.1 times as long"},
	} {
		b := &Burst{Spec: Spec{Link: Link{Kind: "vpn", Rate: Rate(1000 << 20 / 9)}, Lasts: Span(5 * time.Hour), Checkpoints: test.all}}
		e, err := b.Estimate(nil, book(t), nil, time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC))
		if got := strings.Join(e.Late, "; "); err != nil || (got == "") != (test.late == "") || !strings.Contains(got, test.late) {
			t.Errorf("%s: %q, %v", test.what, got, err)
		}
	}
}

// TestEstimateBounds: nothing that may be declared overflows: an estimate is not negative, or there is none.
func TestEstimateBounds(t *testing.T) {
	prices := book(t)
	rapid.Check(t, func(t *rapid.T) {
		big := func(what string) int64 {
			return rapid.OneOf(rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(0, 1<<50), rapid.Just(int64(math.MaxInt64))).Draw(t, what)
		}
		span := func(what string) Span {
			return Span(rapid.Int64Range(int64(spanLeast), int64(spanMost)).Draw(t, what))
		}
		b := &Burst{Spec: Spec{Link: Link{Kind: "vpn", Rate: Rate(max(1, big("rate")))}, Lasts: span("lasts"),
			Checkpoints: []Checkpoint{{Size: Size(big("save")), Every: span("every")}, {Size: Size(big("save2")), Every: span("every2")}}, Results: []Result{{Size: Size(big("result"))}}}}
		if rapid.Bool().Draw(t, "file system") {
			b.Spec.Cloud.FileSystem = &FileSystem{Type: Scratch2, Capacity: Size(big("capacity"))}
		}
		sizes := []Measured{{Files: big("files"), Bytes: big("bytes"), There: big("there"), Kept: big("kept")}, {Files: big("files2"), Bytes: big("bytes2")}}
		e, err := b.Estimate(sizes, prices, nil, time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC))
		if err != nil && !errors.Is(err, mover.ErrUsage) {
			t.Fatal(err)
		}
		for what, n := range map[string]int64{"files": e.Files, "bytes": e.Bytes, "held": e.Held, "sends": int64(e.Sends), "saves": e.Saves, "home": e.Home, "lags": int64(e.Lags), "bill": int64(e.Bill.Total)} {
			if n < 0 {
				t.Fatalf("%s is %d of %+v", what, n, e)
			}
		}
		if err == nil && e.GiB > 0 && e.GiB*gib < e.Held {
			t.Fatalf("%d GiB for %d bytes", e.GiB, e.Held)
		}
	})
}

// TestResidency: a label is a region or its beginning, up to a hyphen, in one partition of AWS.
func TestResidency(t *testing.T) {
	for _, test := range []struct {
		labels string
		region string
		may    bool
	}{
		{"", "us-east-1", true},
		{"eu", "eu-central-1", true}, {"eu", "eu-west-3", true}, {"eu", "us-east-1", false}, {"eu", "eu-isoe-west-1", false},
		{"eu-central", "eu-central-1", true}, {"eu-central", "eu-central-2", true}, {"eu-central", "eu-west-1", false},
		{"eu-central-1", "eu-central-1", true}, {"eu-central-1", "eu-central-2", false}, {"eu-central-1", "eu-central-11", false},
		{"us", "us-east-1", true}, {"us", "us-west-2", true}, {"us", "us-gov-west-1", false}, {"us", "us-iso-east-1", false}, {"us", "us-isob-east-1", false},
		{"us-gov", "us-gov-west-1", true}, {"us-gov", "us-gov-east-1", true}, {"us-gov", "us-east-1", false}, {"us-gov-west-1", "us-gov-west-1", true}, {"us-gov-west-1", "us-gov-east-1", false},
		{"us-iso", "us-iso-east-1", true}, {"us-iso", "us-isob-east-1", false},
		{"us-e", "us-east-1", false}, {"u", "us-east-1", false},
		{"eu us", "us-east-1", true}, {"eu us", "ap-south-1", false}, {"cn", "cn-north-1", true},
	} {
		labels := strings.Fields(test.labels)
		err := Resides("project:a", labels, test.region)
		if (err == nil) != test.may || err != nil && (!errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "project:a") || !strings.Contains(err.Error(), test.region)) {
			t.Errorf("%q in %s: %v", labels, test.region, err)
		}
	}
	b := &Burst{Spec: Spec{Cloud: Cloud{Region: "us-east-1"}, Data: []Data{{From: "a"}, {From: "b", Residency: []string{"us"}}, {From: "c", Residency: []string{"eu"}}}}}
	if err := b.Residency(); !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "c may be in eu only") {
		t.Error(err)
	}
}

// TestStates is the drawing of the table.
func TestStates(t *testing.T) {
	var drawing []string
	for _, from := range States() {
		drawing = append(drawing, strings.TrimSpace(fmt.Sprintf("%-9s -> %s", from, strings.Trim(fmt.Sprint(next[from]), "[]"))))
	}
	const want = `declared  -> staging leaving
staging   -> creating ready leaving
creating  -> importing leaving
importing -> ready leaving
ready     -> staging leaving
leaving   -> gone
gone      ->`
	if got := strings.Join(drawing, "\n"); got != want {
		t.Errorf("%s", got)
	}
	var ends func(s State, steps int) bool
	ends = func(s State, steps int) bool {
		return s.Ended() || steps > 0 && slices.ContainsFunc(next[s], func(then State) bool { return ends(then, steps-1) })
	}
	for _, from := range States() {
		if !from.Known() || !ends(from, 2) {
			t.Errorf("%s can not end", from)
		}
		for _, to := range States() {
			r := &Record{State: from}
			err := r.Enter(to, time.Unix(9, 0))
			may := from == to || slices.Contains(next[from], to)
			if (err == nil) != may || err != nil && (!errors.Is(err, mover.ErrConflict) || r.State != from) || err == nil && r.State != to {
				t.Errorf("%s to %s: %v", from, to, err)
			}
		}
	}
	if len(States()) != len(next) {
		t.Errorf("%d states, %d in the table", len(States()), len(next))
	}
	for _, none := range []State{"", "done"} {
		if none.Ended() || none.Known() || (&Record{State: none}).Enter(Gone, time.Now()) == nil {
			t.Errorf("%q is a state", none)
		}
	}
}

// policyOf reads a session policy back.
func policyOf(t *testing.T, text string) (all []statement) {
	t.Helper()
	var p struct {
		Version   string
		Statement []statement
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil || p.Version != "2012-10-17" {
		t.Fatalf("%v: %s", err, text)
	}
	return p.Statement
}

// TestSession: a session may do what a burst needs, in its region and below its prefix, and STS takes its policy.
func TestSession(t *testing.T) {
	c := &Cloud{Region: "eu-central-1", Role: "arn:aws-us-gov:iam::123456789012:role/burst"}
	for _, prefix := range []string{"team/bursts/x", "a*b", "who?", "${aws:username}", `quote"back\slash`, "日本/x", "emoji-😀", "<&>", strings.Repeat("x", 500)} {
		text, err := c.SessionPolicy("bucket", prefix)
		if err != nil {
			t.Errorf("%s: %v", prefix, err)
			continue
		}
		if len(text) > 2048 || strings.Trim(text, printableASCII) != "" {
			t.Errorf("STS takes at most 2,048 characters up to U+00FF: %q", text)
		}
		objects := 0
		for _, s := range policyOf(t, text) {
			if s.Effect != "Allow" || slices.Contains(s.Action, "*") {
				t.Errorf("%+v", s)
			}
			iam := strings.HasPrefix(s.Action[0], "iam:") // which has no regions: it is held to the roles that FSx makes for itself
			if iam && !slices.Equal(s.Resource, []string{"arn:aws-us-gov:iam::*:role/aws-service-role/s3.data-source.lustre.fsx.*"}) {
				t.Errorf("%v of %v", s.Action, s.Resource)
			}
			everywhere := iam || strings.HasPrefix(s.Action[0], "s3:") || strings.HasPrefix(s.Action[0], "ce:")
			if region := s.Condition["StringEquals"]["aws:RequestedRegion"]; everywhere == (region == "eu-central-1") {
				t.Errorf("%v in the region %q", s.Action, region)
			}
			for _, action := range s.Action {
				if service, _, _ := strings.Cut(action, ":"); service != strings.Split(s.Action[0], ":")[0] && everywhere {
					t.Errorf("%s stands with %s", action, s.Action[0])
				}
				if strings.Contains(action, "Object") {
					objects++
					if meant := unescape(s.Resource[0]); len(s.Resource) != 1 || meant != "arn:aws-us-gov:s3:::bucket/"+prefix+"/\x00" {
						t.Errorf("%s on %q", action, s.Resource)
					}
				}
				if strings.HasPrefix(action, "s3:List") && strings.HasPrefix(action, "s3:ListBucket") {
					if got := unescape(s.Condition["StringLike"]["s3:prefix"]); got != prefix+"/\x00" {
						t.Errorf("%s where the prefix is %q", action, got)
					}
				}
			}
		}
		if objects == 0 {
			t.Error("it may read nothing")
		}
	}
	if _, err := c.SessionPolicy("bucket", strings.Repeat("日", 500)); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "shorter prefix") {
		t.Errorf("%v", err)
	}
	plain := &Cloud{Region: "eu-central-1"}
	if text, err := plain.SessionPolicy("bucket", "x"); err != nil || !strings.Contains(text, `"arn:aws:s3:::bucket/x/*"`) {
		t.Errorf("%v: %s", err, text)
	}
}

var printableASCII = func() string {
	var b strings.Builder
	for c := byte(' '); c < 0x7f; c++ {
		b.WriteByte(c)
	}
	return b.String()
}()

// unescape is what a pattern of IAM means: a NUL is any text.
func unescape(pattern string) string {
	return strings.NewReplacer("${*}", "*", "${?}", "?", "${$}", "$", "*", "\x00", "?", "\x01").Replace(pattern)
}
