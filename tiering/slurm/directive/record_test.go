package directive

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// example of each thing that a record has.
const recorded = `{"version":1,"requests":[` +
	`{"verb":"stage-in","from":"dataset:x","to":["scratch:x"],"required":true,"shared":true},` +
	`{"verb":"stage-out","from":"scratch:out","to":["project:%j/{node}"],"when":"success"},` +
	`{"verb":"checkpoint","from":"scratch:c","to":["project:c","archive:c"],"profile":"dcp","keep":3},` +
	`{"verb":"purge","from":"fast:x","when":"always"}],` +
	`"scratch":[{"tier":"scratch","type":"scratch","striped":true,"bytes":1024},{"tier":"scratch","type":"xfs","name":"a","bytes":1}]}`

// TestRecord is what lies on disk: it does not change but with its version.
func TestRecord(t *testing.T) {
	job, err := Parse(script("#DATAMOVE stage-in=dataset:x required shared", "#DATAMOVE stage-out=scratch:out to=project:%j/{node} when=success",
		"#DATAMOVE checkpoint=scratch:c to=project:c,archive:c profile=dcp keep=3", "#DATAMOVE purge=fast:x",
		"#DW jobdw type=scratch capacity=1KiB", "#DW jobdw type=xfs capacity=1b name=a"), site)
	must.Do(t, err)
	text, err := json.Marshal(job)
	if err != nil || string(text) != recorded {
		t.Errorf("%s, %v; want\n%s", text, err, recorded)
	}
	var back Job
	if err := json.Unmarshal([]byte(recorded), &back); err != nil || !reflect.DeepEqual(back, job) {
		t.Errorf("read back %+v, %v", back, err)
	}
	if text, err := json.Marshal(Job{}); err != nil || string(text) != `{"version":1}` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestBadRecords(t *testing.T) {
	swap := func(from, to string) string {
		if !strings.Contains(recorded, from) {
			t.Fatalf("the record has no %s", from)
		}
		return strings.Replace(recorded, from, to, 1)
	}
	for _, row := range []struct {
		name, text string
		kind       error
	}{
		{"a later version", swap(`"version":1`, `"version":2`), mover.ErrUnsupported},
		{"a later version, with more in it", swap(`"version":1`, `"version":2,"more":[]`), mover.ErrUnsupported},
		{"no version", `{}`, mover.ErrUnsupported},
		{"cut", recorded[:80], nil},
		{"an unknown key", swap(`"required"`, `"needed"`), mover.ErrUsage},
		{"a wrong kind of value", swap(`"required":true`, `"required":1`), mover.ErrUsage},
		{"an unknown verb", swap(`"purge"`, `"remove"`), mover.ErrUsage},
		{"an unknown profile", swap(`"dcp"`, `"xyz"`), mover.ErrUsage},
		{"keep one", swap(`"keep":3`, `"keep":1`), mover.ErrUsage},
		{"no end", swap(`,"when":"always"`, ``), mover.ErrUsage},
		{"no target", swap(`"to":["scratch:x"],`, ``), mover.ErrUsage},
		{"two targets", swap(`["scratch:x"]`, `["scratch:x","scratch:y"]`), mover.ErrUsage},
		{"a comma", swap(`"archive:c"`, `"archive:c,d"`), mover.ErrUsage},
		{"out of its tier", swap(`"fast:x"`, `"fast:../x"`), mover.ErrUsage},
		{"a node where none can be", swap(`"fast:x"`, `"fast:{node}"`), mover.ErrUsage},
		{"a control character", swap(`"fast:x"`, `"fast:\u0007"`), mover.ErrUsage},
		{"a variable out of the directory", swap(`"name":"a"`, `"name":"../a"`), mover.ErrUsage},
		{"space of no size", swap(`"bytes":1024`, `"bytes":0`), mover.ErrUsage},
		{"too much", `{"version":1,"requests":[` + strings.Repeat(`{"verb":"purge","from":"fast:x","when":"always"},`, RequestsMost) + `{}]}`, mover.ErrUsage},
		{"too long", swap(`"fast:x"`, `"fast:`+strings.Repeat("x/", LineMost/2)+`"`), mover.ErrUsage},
	} {
		var job Job
		err := json.Unmarshal([]byte(row.text), &job)
		if err == nil || row.kind != nil && !errors.Is(err, row.kind) || !job.Empty() {
			t.Errorf("%s: %+v, %v; want kind %v", row.name, job, err, row.kind)
		}
	}
}

// TestCheckAgain reads a record after the tiers have changed.
func TestCheckAgain(t *testing.T) {
	var job Job
	must.Do(t, json.Unmarshal([]byte(recorded), &job))
	if err := job.Check(site); err != nil {
		t.Errorf("the same tiers: %v", err)
	}
	changed := Tiers{Named: map[string]Tier{"scratch": {Path: "/x"}, "project": site.Named["project"], "fast": {Path: "/fast"}}}
	err := job.Check(changed)
	if !errors.Is(err, mover.ErrUsage) {
		t.Fatalf("other tiers: %v", err)
	}
	for _, want := range []string{"to: there is no tier archive", "purge: the tier fast is not ephemeral", "jobdw: the tier scratch is not, or no longer, node-local", "shared: it is for the job's directory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("other tiers: %v; want %s", err, want)
		}
	}
}

// again fails unless a job is the same behind every way of keeping it.
func again(t interface{ Fatalf(string, ...any) }, job Job) {
	if back, err := Parse(Text{Script: job.String()}, site); err != nil || !reflect.DeepEqual(back, job) {
		t.Fatalf("%+v is printed\n%s\nand read back %+v, %v", job, job, back, err)
	}
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatalf("%+v: %v", job, err)
	}
	var back Job
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, job) {
		t.Fatalf("%+v is recorded %s and read back %+v, %v", job, text, back, err)
	}
	if err := job.Check(site); err != nil {
		t.Fatalf("%+v was accepted, and is not: %v", job, err)
	}
	for _, line := range job.Summary() {
		if strings.ContainsAny(line, "\n\r\x00\x1b") {
			t.Fatalf("%+v is told with control characters: %q", job, line)
		}
	}
	for _, r := range job.Requests { // what is one request is one in a comment, too
		one, err := Parse(Text{Comment: "x datamove: " + r.String() + " | x"}, site)
		if err != nil || len(one.Requests) != 1 || !reflect.DeepEqual(one.Requests[0], r) {
			t.Fatalf("%s is in a comment %+v, %v", r, one, err)
		}
	}
}

// TestPrintedIsReadBack makes jobs of words that are right, mostly.
func TestPrintedIsReadBack(t *testing.T) {
	accepted := 0
	at := func(roots ...string) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom(roots).Draw(t, "root") + rapid.StringMatching(`(a|b|c|d|e)("| |;|\||,|\\|%%|%j|%x|ü|/f|=|#|\$)?(/|g)?`).Draw(t, "name")
		})
	}
	sources, files := at("project:in", "fast:", "archive:", "/home/", "s3://bucket/", "file:///home/%25%25"), at("scratch:out", "project:out", "/lustre/x")
	hot, cold := at("scratch:", "cache:", "project:to"), at("project:to", "archive:", "s3://bucket/", "/home/", "fast:keep")
	said := func(key string, l *rapid.Generator[string], t *rapid.T) string {
		return key + "=" + quote(l.Draw(t, key))
	}
	some := func(t *rapid.T, words ...string) string { return rapid.SampledFrom(append(words, "")).Draw(t, "more") }
	line := rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 6).Draw(t, "kind") {
		case 0, 1:
			return ours + " " + said("stage-in", sources, t) + some(t, " required", " required", " shared") + " " + said("to", hot, t)
		case 2:
			return ours + " stage-in=dataset:x" + some(t, " required shared", " shared", " to=scratch:x")
		case 3:
			return ours + " " + said("stage-out", files, t) + some(t, " when=always", " when=success") + " " + said("to", cold, t)
		case 4:
			return ours + " " + said("checkpoint", files, t) + some(t, " profile=dcp keep=3", " profile=plain") + " " + said("to", cold, t)
		case 5:
			return ours + " " + said("purge", at("fast:tmp", "fast:out"), t) + some(t, " when=success")
		}
		return rapid.SampledFrom([]string{"#DW jobdw type=scratch capacity=7MB", "#DW jobdw type=xfs name=a-b capacity=7GiB", "#DW jobdw type=scratch access_mode=private capacity=1.5GB",
			"#DW jobdw type=xfs name=c capacity=1b\n#DW stage_in type=file source=/lus/a destination=$DW_JOB_c/", "#DATAMOVE dw"}).Draw(t, "dw")
	})
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		tried++
		text := strings.Join(rapid.SliceOfN(line, 1, 3).Draw(t, "lines"), "\n")
		job, err := Parse(Text{Script: text}, site)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		if !job.Empty() {
			accepted++
		}
		again(t, job)
	})
	if accepted < tried/5 {
		t.Errorf("only %d of %d jobs were accepted: this shows little", accepted, tried)
	}
}

// TestOrderOfWords shuffles the words of a line.
func TestOrderOfWords(t *testing.T) {
	words := []string{"checkpoint=scratch:c", "to=project:c", "profile=hf", "keep=4"}
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.Permutation(words).Draw(t, "words"), " ")
		if job, err := Parse(script(ours+" "+line), site); err != nil || printed(job) != "checkpoint=scratch:c to=project:c profile=hf keep=4" {
			t.Fatalf("%s: %s, %v", line, printed(job), err)
		}
	})
}

func parsed(t *testing.T, text Text) {
	job, err := Parse(text, site)
	if err != nil {
		if !errors.Is(err, mover.ErrUsage) || strings.Count(err.Error(), "\n") > problemsMost || strings.ContainsAny(err.Error(), "\r\x00\x1b") {
			t.Fatalf("%+v: %q", text, err)
		}
		return
	}
	again(t, job)
}

//safety:6 with tiering/slurm TestJobOf
func FuzzScript(f *testing.F) {
	for _, s := range []string{
		"#!/bin/sh\n#DATAMOVE stage-in=dataset:x to=scratch:x required shared\n\n# x\n#DATAMOVE dw\nsrun x\n",
		"#DATAMOVE stage-out=scratch:a \\\n#DATAMOVE to=project:%j/{node} when=success",
		"#DATAMOVE checkpoint=scratch:a to=project:a,archive:b profile=dcp keep=3\n#DATAMOVE purge=fast:x",
		`#DATAMOVE stage-in="project:a \"b\\" to=file:///lustre/a%25%25`,
		"#DW jobdw type=scratch access_mode=striped,private capacity=1.5GB\n#DW stage_in type=file source=/a/b destination=${DW_JOB_STRIPED}/",
		"#DW jobdw type=xfs name=a-b capacity=1GiB\n#DW copy_out source=$DW_JOB_a_b/x destination=s3://bucket/x/\n#DW swap 1GB\n#BB create_persistent",
		"#DATAMOVE purge=fast:%x\n  \n#DATAMOVE x\n", "#DATAMOVE: x", "#DATAMOVE stage-in=s3://a:b@c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { parsed(t, Text{Script: s}) })
}

//safety:6 with tiering/slurm TestJobOf
func FuzzComment(f *testing.F) {
	for _, s := range []string{"x; datamove: stage-in=dataset:x to=scratch:x; stage-out=scratch:y to=project:y | z", `datamove:stage-in="a;b|c"`, "datamove:", ";;"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, c, e string) { parsed(t, Text{Comment: c, Environment: e}) })
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(recorded))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var job Job
		if json.Unmarshal(text, &job) != nil {
			return
		}
		out, err := json.Marshal(job)
		if err != nil {
			t.Fatalf("%+v: %v", job, err)
		}
		var back Job
		if err := json.Unmarshal(out, &back); err != nil || !reflect.DeepEqual(back, job) {
			t.Fatalf("%+v is recorded %s and read back %+v, %v", job, out, back, err)
		}
		if job.Check(site) != nil {
			return
		}
		for _, r := range job.Requests { // what a record may ask for, a directive may, too
			one, err := Parse(Text{Environment: r.String()}, site)
			if err != nil || len(one.Requests) != 1 || !reflect.DeepEqual(one.Requests[0], r) {
				t.Fatalf("%s is in a variable %+v, %v", r, one, err)
			}
		}
	})
}
