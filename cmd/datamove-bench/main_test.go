package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
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

const founding = "../../deploy/clusters/founding.yaml"

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
	if out, code := run(t, "", args...); code != 0 || !strings.Contains(out, "disk.read") || !strings.Contains(out, "GB/s") {
		t.Errorf("exit %d\n%s", code, out)
	}
}
