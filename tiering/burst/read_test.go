package burst

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/test/must"
)

// whole has every field that there is. A line is a field, so that a test may change one.
const whole = `kind: Burst
metadata:
  name: llama-ft
  labels: {cost-center: "4711"}
spec:
  team: vision
  job:
    kind: training
    priority: high
    gpus: 64
    startsIn: 9h
    noneHere: false
    instances: {type: p5.48xlarge, count: 8}
  cloud:
    tier: cloud
    region: eu-central-1
    prefix: bursts/llama
    kmsKey: arn:aws:kms:eu-central-1:123456789012:key/0a1b-2c3d
    role: arn:aws:iam::123456789012:role/burst
    fileSystem:
      type: PERSISTENT_2
      throughput: 250
      capacity: 4800GiB
      efa: true
      compress: true
      subnet: subnet-0123456789abcdef0
      securityGroups: [sg-0123456789abcdef0]
  link:
    kind: directConnect
    rate: 10Gbit/s
  lasts: 7d
  cap: $5,000
  idle: 2h
  data:
    - from: project:datasets/imagenet
      to: datasets/imagenet
      residency: [eu, us-east-1]
      size: 1TB
      files: 1000
  checkpoints:
    - path: checkpoints/run7
      home: project:runs/run7
      profile: plain
      size: 100GB
      every: 30m
      rpo: 2h
  results:
    - path: results
      home: project:results
      size: 1GB
`

// bare is a burst without what it compares equal by its text, and not by what it says.
func bare(b *Burst) Burst {
	c := *b
	c.At, c.File, c.Text = yamldoc.Position{}, "", ""
	return c
}

func read(t *testing.T, text string) *Burst {
	t.Helper()
	all := must.Get(Read("b.yaml", []byte(text)))(t)
	return all[0]
}

// TestRead: what is right says the same when its Text is read.
func TestRead(t *testing.T) {
	b := read(t, whole)
	s := b.Spec
	if b.Metadata.Name != "llama-ft" || s.Job.Instances.Count != 8 || s.Cloud.FileSystem.Capacity != 4800<<30 || s.Link.Rate != 1_250_000_000 || s.Lasts != Span(7*24*time.Hour) ||
		s.Cap.String() != "$5,000.00" || s.Idles() != 2*time.Hour || s.Checkpoints[0].Objective() != 2*time.Hour || b.Rhythm() != 30*time.Minute || b.Prefix() != "bursts/llama" {
		t.Errorf("%+v", b)
	}
	again := read(t, b.Text)
	if !reflect.DeepEqual(bare(again), bare(b)) || again.Text != b.Text {
		t.Errorf("%+v\nof %s\nand not %+v", again, b.Text, b)
	}
	if got := b.Location("results"); got != "cloud:bursts/llama/results" {
		t.Error(got)
	}
	least := read(t, "kind: Burst\nmetadata: {name: x}\nspec:\n  team: a\n  job: {kind: training, gpus: 1}\n  cloud: {tier: c, region: us-east-1}\n  link: {kind: vpn, rate: 1GB}\n  lasts: 1h\n  results: [{path: r, home: /home/r}]\n")
	if least.Spec.Idles() != DefaultIdle || least.Rhythm() != 30*time.Minute || least.Prefix() != "bursts/x" || least.Spec.Cloud.FileSystem != nil {
		t.Errorf("%+v", least)
	}
	two, err := Read("b.yaml", []byte(whole+"---\n"+strings.Replace(whole, "name: llama-ft", "name: other", 1)))
	if err != nil || len(two) != 2 || !reflect.DeepEqual(bare(read(t, two[1].Text)), bare(two[1])) {
		t.Errorf("%v, %v", two, err)
	}
}

// TestWrong: what is wrong with a field is said with its line, and with what to write.
func TestWrong(t *testing.T) {
	for _, test := range []struct{ old, wrong, line, field, what string }{
		{"kind: Burst", "kind: Bursts", "1", "kind", "want Burst"},
		{"name: llama-ft", "name: Llama_FT", "3", "metadata.name", "like llama-ft"},
		{"name: llama-ft", "name: " + strings.Repeat("x", 41), "3", "metadata.name", "at most 40"},
		{`{cost-center: "4711"}`, `{"aws:x": a}`, "4", "metadata.labels.aws:x", "no aws:"},
		{`{cost-center: "4711"}`, `{"AWS:x": a}`, "4", "metadata.labels.AWS:x", "no aws:"},
		{`{cost-center: "4711"}`, `{datamove.dev/burst: a}`, "4", "metadata.labels.datamove.dev/burst", "is ours"},
		{`{cost-center: "4711"}`, `{note: "a, b (c)"}`, "4", "metadata.labels.note", "AWS takes letters"},
		{`{cost-center: "4711"}`, `{"": a}`, "4", "metadata.labels.", "AWS takes letters"},
		{`{cost-center: "4711"}`, `{a: ` + strings.Repeat("x", 257) + `}`, "4", "metadata.labels.a", "AWS takes letters"},
		{"team: vision", "team: a/b", "6", "spec.team", "letters a to z"},
		{"kind: training", `kind: "training\x1b[2J"`, "8", "spec.job.kind", "like training"},
		{"priority: high", "priority: top", "9", "spec.job.priority", "low, normal, high, urgent"},
		{"gpus: 64", "gpus: 2000000", "10", "spec.job.gpus", "at most"},
		{"gpus: 64", "gpus: -1", "10", "spec.job.gpus", "whole number"},
		{"startsIn: 9h", "startsIn: soon", "11", "spec.job.startsIn", "like 30m"},
		{"startsIn: 9h", "startsIn: 400d", "11", "spec.job.startsIn", "like 30m"},
		{"startsIn: 9h", "startsIn: 6h1d", "11", "spec.job.startsIn", "like 30m"},
		{"startsIn: 9h", "startsIn: -1h", "11", "spec.job.startsIn", "like 30m"},
		{"startsIn: 9h", "startsIn: d", "11", "spec.job.startsIn", "like 30m"},
		{"noneHere: false", "noneHere: 1", "12", "spec.job.noneHere", "true or false"},
		{"type: p5.48xlarge", "type: p5", "13", "spec.job.instances.type", "like p5.48xlarge"},
		{"count: 8", "count: 200000", "13", "spec.job.instances.count", "at most"},
		{", count: 8", "", "13", "spec.job.instances", "both type and count"},
		{"tier: cloud", "tier: s3://other-bucket/x", "15", "spec.cloud.tier", "no tier"},
		{"tier: cloud", "tier: /etc", "15", "spec.cloud.tier", "no tier"},
		{"tier: cloud", "tier: dataset", "15", "spec.cloud.tier", "no tier"},
		{"region: eu-central-1", "region: Frankfurt", "16", "spec.cloud.region", "like us-east-1"},
		{"prefix: bursts/llama", "prefix: ../other", "17", "spec.cloud.prefix", "a path below"},
		{"prefix: bursts/llama", "prefix: .datamove", "17", "spec.cloud.prefix", "a path below"},
		{"kms:eu-central-1", "kms:us-east-1", "18", "spec.cloud.kmsKey", "in eu-central-1"},
		{"role: arn:aws:iam::123456789012:role/burst", "role: burst", "19", "spec.cloud.role", "ARN of a role"},
		{"type: PERSISTENT_2", "type: PERSISTENT_1", "21", "spec.cloud.fileSystem.type", "PERSISTENT_2 or SCRATCH_2"},
		{"type: PERSISTENT_2", "type: SCRATCH_2", "22", "spec.cloud.fileSystem.throughput", "is of PERSISTENT_2"},
		{"throughput: 250", "throughput: 200", "22", "spec.cloud.fileSystem.throughput", "125, 250, 500 or 1000"},
		{"capacity: 4800GiB", "capacity: 2048PiB", "23", "spec.cloud.fileSystem.capacity", "at most"},
		{"capacity: 4800GiB", "capacity: 8191PiB", "23", "spec.cloud.fileSystem.capacity", "at most"},
		{"efa: true", "efa: yes please", "24", "spec.cloud.fileSystem.efa", "true or false"},
		{"subnet: subnet-0123456789abcdef0", "subnet: vpc-0123456789abcdef0", "26", "spec.cloud.fileSystem.subnet", "like subnet-"},
		{"[sg-0123456789abcdef0]", "[sg-0123456789abcdef0, default]", "27", "spec.cloud.fileSystem.securityGroups[1]", "like sg-"},
		{"kind: directConnect", "kind: pigeon", "29", "spec.link.kind", "directConnect, internet or vpn"},
		{"rate: 10Gbit/s", "rate: 0", "30", "spec.link.rate", "like 10Gbit/s"},
		{"lasts: 7d", "lasts: 1ms", "31", "spec.lasts", "like 30m"},
		{"cap: $5,000", "cap: much", "32", "spec.cap", "want dollars"},
		{"cap: $5,000", "cap: -$5", "32", "spec.cap", "like $5,000"},
		{"idle: 2h", "idle: never", "33", "spec.idle", "like 30m"},
		{"from: project:datasets/imagenet", "from: project:../x", "35", "spec.data[0].from", "out of the tier"},
		{"from: project:datasets/imagenet", `from: "project:a\x1b[2J"`, "35", "spec.data[0].from", "can not be printed"},
		{"to: datasets/imagenet", "to: /datasets", "36", "spec.data[0].to", "a path below"},
		{"to: datasets/imagenet", "to: " + strings.Repeat("x", 513), "36", "spec.data[0].to", "a path below"},
		{"[eu, us-east-1]", "[Europe]", "37", "spec.data[0].residency", "like eu or us-east-1"},
		{"size: 1TB", "size: big", "38", "spec.data[0].size", "like 64MiB"},
		{"      files: 1000\n", "", "35", "spec.data[0]", "both size and files"},
		{"path: checkpoints/run7", "path: datasets", "41", "spec.checkpoints[0].path", "one in the other"},
		{"path: checkpoints/run7", "path: results/x", "48", "spec.results[0].path", "one in the other"},
		{"home: project:runs/run7", "home: s3:/x", "42", "spec.checkpoints[0].home", "s3://bucket"},
		{"home: project:results", "home: project:runs/run7/", "49", "spec.results[0].home", "one in the other"},
		{"home: project:results", "home: project:runs", "49", "spec.results[0].home", "one in the other"},
		{"home: project:results", "home: 'project:'", "49", "spec.results[0].home", "one in the other"},
		{"profile: plain", "profile: pytorch", "43", "spec.checkpoints[0].profile", "dcp"},
		{"every: 30m", "every: 1ns", "45", "spec.checkpoints[0].every", "like 30m"},
		{"rpo: 2h", "rpo: 0s", "46", "spec.checkpoints[0].rpo", "like 30m"},
		{"  results:\n", "  result:\n", "47", "spec.result", "did you mean results"},
	} {
		text := strings.Replace(whole, test.old, test.wrong, 1)
		_, err := Read("b.yaml", []byte(text))
		var all yamldoc.Problems
		if !errors.Is(err, mover.ErrUsage) || !errors.As(err, &all) {
			t.Errorf("%s: %v", test.wrong, err)
			continue
		}
		if !slices.ContainsFunc(all, func(p yamldoc.Problem) bool {
			return fmt.Sprint(p.Line) == test.line && p.Field == test.field && strings.Contains(p.What, test.what)
		}) {
			t.Errorf("%s: want line %s, %s, %q\n%v", test.wrong, test.line, test.field, test.what, err)
		}
		if mover.Printable(strings.ReplaceAll(err.Error(), "\n", "")) != strings.ReplaceAll(err.Error(), "\n", "") && !strings.Contains(err.Error(), `"`) {
			t.Errorf("%q can not be printed", err)
		}
	}
}

// TestWrongFile: what is wrong with a file, and not with one field of it.
func TestWrongFile(t *testing.T) {
	var many strings.Builder
	for i := range listMost {
		fmt.Fprintf(&many, "    - {path: r%d, home: /r%d}\n", i, i)
	}
	for what, text := range map[string]string{
		"there is no burst":                       "",
		"is the name of the burst in line 1, too": whole + "---\n" + whole,
		"has 67 directories":                      whole + many.String(),
		"has 0 directories":                       whole[:strings.Index(whole, "  data:")],
		"not valid YAML":                          "kind: [",
		"anchors and aliases":                     "kind: &a Burst\nmetadata: *a\n",
		"has 1048577 bytes":                       strings.Repeat("#", yamldoc.TextMost+1),
		"too long":                                strings.Replace(whole, "[eu, us-east-1]", "[\""+strings.Repeat("\t", 600_000)+"\"]", 1),
		"want a table of fields":                  "[1, 2]",
	} {
		if _, err := Read("b.yaml", []byte(text)); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, and not %.300v", what, err)
		}
	}
}

// TestSpan: days and less together, and nothing twice.
func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "7d": 168 * time.Hour, "1.5d": 36 * time.Hour, "1d6h": 30 * time.Hour, "1d06h": 30 * time.Hour, "1h30m": 90 * time.Minute, "366d": spanMost,
		"": 0, "d": 0, "1h1d": 0, "1d1d": 0, "1d-1h": 0, "367d": 0, "366d1s": 0, "10": 0, "-1d": 0, "0.5s": 0, "9223372036s": 0, "1e9d": 0} {
		var s Span
		if err := s.UnmarshalText([]byte(text)); (err == nil) != (want > 0) || s != Span(want) {
			t.Errorf("%q is %v, %v; want %v", text, time.Duration(s), err, want)
		}
	}
}

// TestRecord: a record is the same after it was kept, and everything of it is.
func TestRecord(t *testing.T) {
	b := read(t, whole)
	at := time.Date(2026, 11, 2, 8, 0, 0, 123, time.UTC)
	r := Adopt(b, "0123456789abcdef", `SITE\anna (ml)`, Admitted{By: "large", Why: []string{"no"}}, at, at.Add(time.Hour))
	if begun := Begin(b, r.Owner, r.Admitted, at); begun.Token("fs", 1) == "datamove-"+begun.ID+"-adopted-fs-1" || r.Token("fs", 1) == "datamove-"+r.ID+"-fs-1" {
		t.Errorf("the tokens %s and %s: what was asked for before a burst was adopted is not known", begun.Token("fs", 1), r.Token("fs", 1))
	}
	r.Reserved, r.Spent, r.Trouble = 5, -6, "lost"
	made := Made{Token: r.Token("fs", 1), ID: "fs-0123456789abcdef0", Since: at, DNS: "d", Mount: "m", GiB: 1200, Gone: true}
	r.FileSystem, r.Link, r.Works = &made, &made, []Work{{Made: made, Kind: ExportWork, Paths: []string{"a"}, Report: "s3://x", Ended: "SUCCEEDED", Total: 1, Failed: 2, Why: "w"}}
	r.Paid = []Paid{{What: "x", Rate: "y", Bytes: 1, Until: at, Next: at}}
	r.Stage(Staged{To: "a", At: at, Files: 1, Bytes: 2, Took: 3})
	r.Stage(Staged{To: "a", At: at, Files: 1, Bytes: 20, Took: 3})
	r.Come(Homecame{Path: "a", At: at})
	r.Come(Homecame{Path: "a", At: at, Files: 1, Bytes: 2, Sent: 3, Verified: true, Left: []string{"x"}, Took: 4})
	r.Abandon("a")
	r.Abandon("a")
	for i, v := 0, reflect.ValueOf(*r); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not tried here", v.Type().Field(i).Name)
		}
	}
	text := must.Get(json.Marshal(r))(t)
	again := &Record{}
	if err := json.Unmarshal(text, again); err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("%v: %+v\nand not %+v", err, again, r)
	}
	if back, err := again.Burst(); err != nil || !reflect.DeepEqual(bare(back), bare(b)) {
		t.Errorf("%v, %+v", err, back)
	}
	if r.Held() != 20 || len(r.Staged) != 1 || len(r.Home) != 1 || len(r.Abandoned) != 1 || len(r.Open()) != 0 {
		t.Errorf("%+v", r)
	}
	r.Declaration = "kind: Burst"
	if _, err := r.Burst(); !errors.Is(err, mover.ErrCorrupt) {
		t.Error(err)
	}
}

// TestTags: all of them are of the form that FSx takes, whoever declares.
func TestTags(t *testing.T) {
	b := read(t, whole)
	r := Begin(b, `SITE\anna (ml)`+strings.Repeat("é", 300), Admitted{By: "large"}, time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC))
	tags := r.Tags
	for key, value := range tags {
		if !labelForm().MatchString(key) || !labelForm().MatchString(value) || len(key) > 128 || len(value) > 256 || strings.ToValidUTF8(value, "") != value {
			t.Errorf("%q: %q", key, value)
		}
	}
	if tags[TagBurst] != r.ID || tags["cost-center"] != "4711" || !strings.HasPrefix(tags[TagOwner], "SITE_anna _ml_é") || tags[TagUntil] != "2026-11-09T08:00:00Z" || tags[TagTeam] != "vision" || tags[TagName] != "llama-ft" {
		t.Errorf("%v", tags)
	}
}

// TestToken: the form of a ClientRequestToken is [A-za-z0-9_.-]{1,63}, the same for the same, and another one for another burst.
func TestToken(t *testing.T) {
	b, seen := read(t, whole), map[string]bool{}
	for range 100 {
		r := Begin(b, "anna", Admitted{}, time.Now())
		for _, what := range []string{"fs", "link", "task", "gone"} {
			token := r.Token(what, 999_999_999)
			if len(token) > 63 || strings.Trim(token, "abcdefghijklmnopqrstuvwxyz0123456789_.-") != "" || seen[token] || token != r.Token(what, 999_999_999) {
				t.Errorf("%q", token)
			}
			seen[token] = true
		}
	}
}

// FuzzRead: it never panics, what it refuses is mover.ErrUsage, and what it takes says the same when its Text is read.
func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add("kind: Burst\nmetadata: {name: x}\nspec: {team: a, job: {kind: training, gpus: 1}, cloud: {tier: c, region: us-east-1}, link: {kind: vpn, rate: 1GB}, lasts: 1h, results: [{path: r, home: /home/r}]}\n")
	f.Add("kind: Burst\nspec: {data: [{from: a, to: b, residency: eu}, 1, []], checkpoints: {}, job: {instances: {count: 1}}}\n---\n[]\n---\n...")
	f.Add("a: &a [*a]")
	f.Add("? {a: b}\n: c\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Read("f.yaml", []byte(text))
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("%v is no mover.ErrUsage", err)
			}
			return
		}
		for _, b := range all {
			again, err := Read("again.yaml", []byte(b.Text))
			if err != nil || len(again) != 1 || !reflect.DeepEqual(bare(again[0]), bare(b)) {
				t.Errorf("%q\nreads as %v, %+v\nand not %+v", b.Text, err, again, b)
			}
			r := Begin(b, "anna", Admitted{}, time.Now())
			if back, err := r.Burst(); err != nil || !reflect.DeepEqual(bare(back), bare(b)) {
				t.Errorf("the record says %v", err)
			}
			_, _ = b.Capacity(1 << 60)
			_ = b.Residency()
			_, _ = b.Spec.Cloud.SessionPolicy("bucket", b.Prefix())
		}
	})
}

// FuzzReadAdmission: it never panics, and what it refuses is mover.ErrUsage.
func FuzzReadAdmission(f *testing.F) {
	f.Add(DefaultAdmission)
	f.Add("kind: BurstAdmission\nrules: [{name: a, jobs: x, waitAbove: 1d2h, dataAtLeast: 1TB, priorities: low, teams: [b]}]")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ReadAdmission("f.yaml", []byte(text))
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Errorf("%v is no mover.ErrUsage", err)
			}
			return
		}
		b, _ := Read("b.yaml", []byte(whole))
		if v := a.Admit(b[0], 1<<40); (v.Err() == nil) != (v.By != "") || len(v.Why) > len(a.Rules) {
			t.Errorf("%+v", v)
		}
	})
}
