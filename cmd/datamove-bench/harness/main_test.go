package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/bench/compare"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

// run runs the command, and returns all that it said, with its exit code.
func run(t *testing.T, in string, args ...string) (out string, code int) {
	t.Helper()
	out, said, code := runs(t, in, args...)
	return out + said, code
}

// runs is run, with what it printed apart from what it said of it.
func runs(t *testing.T, in string, args ...string) (out, said string, code int) {
	t.Helper()
	var printed, told bytes.Buffer
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(in))
	root.SetOut(&printed)
	root.SetErr(&told)
	if err := root.ExecuteContext(t.Context()); err != nil {
		return printed.String(), told.String() + err.Error(), exitCode(err)
	}
	return printed.String(), told.String(), 0
}

const founding = "../../../deploy/clusters/founding.yaml"

// TestModel: programs read the verdict on top; people, what is missing; and a verdict that is required and not there is exit 1.
func TestModel(t *testing.T) {
	out, code := run(t, "", "model", founding, "-o", "json")
	var got struct {
		Schema, Cluster, Verdict, Binding string
		Roof                              float64 `json:"roof_gb_per_s"`
		Missing                           map[string]int64
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%v, exit %d\n%s", err, code, out)
	}
	if got.Schema != "datamove.model/v1" || got.Cluster != "founding" || got.Verdict != "refuted" || got.Binding != "oss.nic" || got.Roof < 148 || got.Roof > 149 || got.Missing["oss.nic"] != 34 {
		t.Errorf("%+v", got)
	}
	if out, code := run(t, "", "model", founding); code != 0 || !strings.Contains(out, "34 more are missing") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if out, code := run(t, "", "model", founding, "--set", "oss.nic=400G", "--set", "clients.nic=200G", "--require", "modelled"); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, row := range []struct {
		code int
		want string
		args []string
	}{
		{1, "founding is refuted, and validated is required", []string{"model", founding, "--require", "validated"}},
		{2, "want one cluster file", []string{"model"}},
		{2, "no such file", []string{"model", "nothing.yaml"}},
		{2, "unknown field; did you mean nic?", []string{"model", founding, "--set", "oss.nik=400G"}},
		{2, "must be table or json", []string{"model", founding, "-o", "xml"}},
		{2, "must be modelled, extrapolated or validated", []string{"model", founding, "--require", "great"}},
		{2, "want a file of 4 MiB or more", []string{"ceilings", "--runs", "1", "--time", "1ms", "--dir", t.TempDir(), "--size", "1KiB"}},
		{2, "unknown flag", []string{"ceilings", "--fast"}},
	} {
		if out, code := run(t, "", row.args...); code != row.code || !strings.Contains(out, row.want) {
			t.Errorf("%q: exit %d, want %d with %q\n%s", row.args, code, row.code, row.want, out)
		}
	}
	if out, code := run(t, "kind: Cluster\nname: in\nclients: {nodes: 1, nic: 100G}\noss: {nodes: 1, nic: 50G}\n", "model", "-"); code != 0 || !strings.Contains(out, "in, write: at most 5.312 GB/s, by oss.nic") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestCeilings: what was measured is JSON for programs, and a table for people.
func TestCeilings(t *testing.T) {
	args := []string{"ceilings", "--runs", "1", "--time", "5ms", "--dir", t.TempDir(), "--size", "8MiB", "--files", "50"}
	out, code := run(t, "", append(args, "-o", "json")...)
	var got ceilingsFile
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Schema != "datamove.ceilings/v1" || len(got.Ceilings) != 10 {
		t.Errorf("%v, exit %d\n%s", err, code, out)
	}
	if out, code := run(t, "", args...); code != 0 || !strings.Contains(out, "disk.read") || !strings.Contains(out, "B/s") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestCompare: --quick fills in what is not given, and --save keeps what is printed; a file that can not be is said before anything is
// measured, and one of the last time stays until there is a new one.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "datamove")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\n[ $1 = version ] && exit\nexec cp -a $3 $4\n"), 0o755))
	saved := filepath.Join(dir, "saved.json")
	must.Do(t, os.WriteFile(saved, []byte("of the last time"), 0o600))
	args := []string{"compare", "-q", "--scenario", "memory-sparse", "--peers", "cp", "--dir", t.TempDir(), "--tmpfs", t.TempDir(), "--datamove", program, "-o", "json", "--save", saved, "--quick"}
	for _, row := range []struct {
		more  []string
		runs  int
		scale float64
		words string
	}{
		{nil, 3, 0.01, "datamove-bench compare --scenario memory-sparse --peers cp --quick"},
		{[]string{"--runs", "1", "--scale", "0.002"}, 1, 0.002, "datamove-bench compare --scenario memory-sparse --peers cp --quick --runs 1 --scale 0.002"},
	} {
		out, code := run(t, "", append(args, row.more...)...)
		var got compare.Report
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
			t.Fatalf("%v, exit %d\n%s", err, code, out)
		}
		if got.Runs != row.runs || got.Scale != row.scale || got.Command != row.words || len(got.Results[0].Scores[1].Samples) != row.runs {
			t.Errorf("%+v", got)
		}
		if text, err := os.ReadFile(saved); err != nil || string(text) != out {
			t.Errorf("%v\n%s", err, text)
		}
	}

	before, err := os.ReadFile(saved)
	must.Do(t, err)
	for _, row := range []struct {
		code int
		want string
		more []string
	}{
		{2, "--save", []string{"--save", filepath.Join(dir, "nowhere", "saved.json")}},
		{1, "is no scenario", []string{"--scenario", "floppy"}},
		{2, "must be table, json or md", []string{"-o", "xml"}},
	} {
		if out, code := run(t, "", append(args, row.more...)...); code != row.code || !strings.Contains(out, row.want) {
			t.Errorf("%q: exit %d, want %d with %q\n%s", row.more, code, row.code, row.want, out)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, ".*"))
	if after, e := os.ReadFile(saved); e != nil || err != nil || !bytes.Equal(before, after) || len(names) > 0 {
		t.Errorf("%q are left beside, %v, %v", names, err, e)
	}
}

// TestCeilingsOfBucket: an endpoint is measured through the configuration, and nothing is left in the bucket.
func TestCeilingsOfBucket(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	text := fmt.Sprintf("tiers:\n  cold: {level: cold, s3: {endpoint: %q, bucket: %q, region: us-east-1, credentials: %q}}\n", o.Endpoint, o.Bucket, o.Credentials)
	conf := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(conf, []byte(text), 0o600))
	out, said, code := runs(t, "", "ceilings", "--runs", "1", "--time", "1ms", "--size", "16MiB", "--workers", "2", "--s3", "cold:some/where", "--config", conf, "-o", "json")
	var got ceilingsFile
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%v, exit %d\n%s%s", err, code, out, said)
	}
	names := map[string]float64{}
	for _, c := range got.Ceilings {
		names[c.Name] = c.Rate
	}
	for _, name := range []string{"s3.put", "s3.get", "s3.write", "s3.read"} {
		if names[name] <= 0 {
			t.Errorf("%s: %v", name, names)
		}
	}
	for e, err := range s3test.Open(t, o).Walk(t.Context(), mover.WalkOptions{}) {
		t.Errorf("left: %s, %v", e.Name, err)
	}
	if out, code := run(t, "", "ceilings", "--runs", "1", "--time", "1ms", "--s3", t.TempDir()); code != 2 || !strings.Contains(out, "want a bucket") {
		t.Errorf("exit %d\n%s", code, out)
	}
}
