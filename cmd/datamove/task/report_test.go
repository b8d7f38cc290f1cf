package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/test/must"
)

func TestItemAsJSON(t *testing.T) {
	text, err := json.Marshal(viewItem(engine.Item{Name: "a", Op: plan.Create, Kind: mover.File, Bytes: 9, Level: mover.Server, CRC: 0xae8b14860a799888, HasCRC: true, Why: plan.WhyNew}))
	if want := `{"name":"a","op":"create","kind":"file","bytes":9,"level":"server","crc64nvme":"ae8b14860a799888","why":"new"}`; err != nil || string(text) != want {
		t.Errorf("%s\nwant %s (%v)", text, want, err)
	}
	text, err = json.Marshal(viewItem(engine.Item{Name: "a", Op: plan.Create, Err: &mover.Error{Op: "open", Location: "/x", Name: "a", Err: mover.ErrPermission}}))
	if want := `{"name":"a","op":"create","bytes":0,"error":"open /x/a: permission denied","exit":4}`; err != nil || string(text) != want {
		t.Errorf("%s\nwant %s (%v)", text, want, err)
	}
}

func TestYAMLHasTheKeysOfJSON(t *testing.T) {
	var out bytes.Buffer
	v := ReportView{Schema: schemaReport, Command: "copy", Target: "/b: #c", Levels: map[string]int64{"written": 2}, Notes: []string{"yes", "a\nb"}}
	must.Do(t, cli.WriteObject(&out, cli.FormatYAML, v))
	for _, want := range []string{"schema: datamove.report/v1\n", "target: '/b: #c'\n", "levels:\n  written: 2\n", "notes:\n  - \"yes\"\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	PrintSummary(&out, "copy", engine.Report{Files: 1203, Bytes: 5 << 30, Elapsed: 10 * time.Second, Others: 12, Kept: 10000,
		Levels: map[mover.Level]int64{mover.Written: 1200, mover.Cloned: 3}, Notes: []string{"owners are not kept: not root"}})
	want := `copied 1,203 files, 5.00 GiB in 10.0s, 512 MiB/s
  checked: 3 cloned, 1,200 written
  also: 12 folders, links and special files made, 10,000 already there
  note: owners are not kept: not root
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", out.String(), want)
	}
}

func TestPlanText(t *testing.T) {
	for want, totals := range map[string]plan.Totals{
		"nothing to do": {Keeps: 3},
		"2 files to move (1.00 MiB), 1 directory to make, 1 hard link to make, 1 entry to update, 1 entry to remove (1.95 KiB)": {
			Files: 2, Bytes: 1 << 20, Dirs: 1, Links: 1, Updates: 1, Removes: 1, RemoveBytes: 2000},
		"1,000 entries to compare (8.00 EiB)": {Compares: 1000, CompareBytes: 1<<63 - 1},
	} {
		if got := totals.String(); got != want {
			t.Errorf("%+v is %q, want %q", totals, got, want)
		}
	}
}

func TestFailuresAreBounded(t *testing.T) {
	r := engine.Report{Failed: 5000}
	for range 1000 {
		r.Failures = append(r.Failures, engine.Item{Name: "x", Err: errors.New("no")})
	}
	var out bytes.Buffer
	PrintFailures(&out, "copy", r)
	if got := strings.Count(out.String(), "\n"); got != maxShown+1 || !strings.Contains(out.String(), "and 4,980 more; -o jsonl names each") {
		t.Errorf("%d lines:\n%s", got, out.String())
	}
}
