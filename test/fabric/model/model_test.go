package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/fabric"
	"datamove.dev/test/must"
)

func TestUsage(t *testing.T) {
	here := filepath.Join(t.TempDir(), "x")
	must.Do(t, os.WriteFile(here, nil, 0o755))
	binaries := []string{"-datamove", here, "-datamoved", here, "-pages", here}
	o, err := parse(append(binaries, "-agents", "1,32", "-span", "2s"))
	if err != nil || len(o.plan.Agents) != 2 || o.plan.Load == nil {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-agents", "0"}, {"-agents", "1,,2"}, {"-agents", "201"}, {"-load", "magic"}, {"-object", "0"}, {"-datamove", here + "y"}} {
		if err := run(t.Context(), append(binaries, args...), io.Discard, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func TestJudge(t *testing.T) {
	row := func(share, idle float64) fabric.Row {
		return fabric.Row{Agents: 2, Rounds: []fabric.Round{{Ceiling: fabric.Measure{PerSec: 100, Idle: 90}, Load: fabric.Measure{PerSec: share, Idle: idle}}}}
	}
	for _, c := range []struct {
		row   fabric.Row
		least float64
		want  string // "" is good
	}{
		{row(95, 20), 95, ""},
		{row(94, 20), 95, "94.0 % of iperf3"},
		{row(10, 20), 0, ""},
		{row(99, 14), 0, "invalid"},
	} {
		err := judge([]fabric.Row{c.row}, c.least)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v, at least %v: %v", c.row, c.least, err)
		}
	}
}
