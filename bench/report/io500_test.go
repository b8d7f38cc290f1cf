package report_test

import (
	"math"
	"strings"
	"testing"

	"datamove.dev/bench/report"
	"datamove.dev/bench/report/reporttest"
	"datamove.dev/bench/result"
	"datamove.dev/test/must"
)

// official is a whole run of IO500: bandwidths of 2 GiB/s, and of 2 at easy reads 32; metadata of 4 kIOPS.
func official() []result.Phase {
	var all []result.Phase
	for _, k := range reporttest.IO500 {
		rate := 4000.0
		if k.Unit == result.Bytes {
			rate = 2 << 30
		}
		if k.Name == "ior-easy-read" {
			rate = 32 << 30
		}
		all = append(all, one("io500", k.Name, k.Unit, 1, rate))
	}
	return all
}

// TestIO500: scores are geometric means. What is not whole has none, and what wrote for less than 300 s is not valid: both are said.
func TestIO500(t *testing.T) {
	named := func(phases []result.Phase, name string) *result.Phase {
		for i := range phases {
			if phases[i].Name == name {
				return &phases[i]
			}
		}
		t.Fatalf("no phase %s", name)
		return nil
	}
	for _, row := range []struct {
		name    string
		change  func(all []result.Phase) []result.Phase
		noScore string
		invalid string
	}{
		{"whole", func(all []result.Phase) []result.Phase { return all }, "", ""},
		{"more phases that do not count", func(all []result.Phase) []result.Phase { return append(all, one("io500", "mkdir", result.Ops, 1, 9)) }, "", ""},
		{"one is not there", func(all []result.Phase) []result.Phase { return all[1:] }, "ior-easy-write was not run", ""},
		{"one failed", func(all []result.Phase) []result.Phase { named(all, "find").Failed = "n1 was lost"; return all }, "find failed: repeat 1: n1 was lost", ""},
		{"one read what was not written", func(all []result.Phase) []result.Phase { named(all, "ior-hard-read").Wrong = 1; return all }, "ior-hard-read read 1 block that was not written", ""},
		{"one counts something else", func(all []result.Phase) []result.Phase { named(all, "find").Unit = result.Bytes; return all }, "find counts bytes, and not ops", ""},
		{"one is there twice", func(all []result.Phase) []result.Phase {
			again := *named(all, "find")
			again.What = "of other sizes"
			return append(all, again)
		}, "find was run in more than one way", ""},
		{"writes are short", func(all []result.Phase) []result.Phase {
			p := named(all, "mdtest-hard-write")
			p.Last = result.Done{Seconds: 299, Ops: 4000 * 299}
			p.First = p.Last
			return all
		}, "", "mdtest-hard-write took 299 s"},
		{"reads may be short", func(all []result.Phase) []result.Phase {
			p := named(all, "mdtest-hard-read")
			p.Last = result.Done{Seconds: 10, Ops: 4000 * 10}
			p.First = p.Last
			return all
		}, "", ""},
	} {
		r := report.Sum(runs(runOf(row.change(official())...)), report.Options{})
		s := r.IO500[0]
		if got := strings.Join(s.NoScore, "; "); got != row.noScore {
			t.Errorf("%s: no score: %q, want %q", row.name, got, row.noScore)
		}
		if got := strings.Join(s.Invalid, "; "); got != row.invalid {
			t.Errorf("%s: invalid: %q, want %q", row.name, got, row.invalid)
		}
		scored := math.Abs(s.Bandwidth-4) < 1e-6 && math.Abs(s.Metadata-4) < 1e-6 && math.Abs(s.Score-4) < 1e-6
		if none := s.Score == 0 && s.Bandwidth == 0 && s.Metadata == 0; row.noScore == "" && !scored || row.noScore != "" && !none {
			t.Errorf("%s: %g of %g GiB/s and %g kIOPS", row.name, s.Score, s.Bandwidth, s.Metadata)
		}
		var b strings.Builder
		must.Do(t, r.Table(&b))
		for text, want := range map[string]bool{"no score: ": row.noScore != "", "INVALID by the rules of IO500": row.invalid != "", "not the official benchmark": true} {
			if strings.Contains(b.String(), text) != want {
				t.Errorf("%s: %q is %v in\n%s", row.name, text, !want, b.String())
			}
		}
	}
	if r := report.Sum(runs(runOf(one("large", "ior-easy-write", result.Bytes, 1, 1e9))), report.Options{}); len(r.IO500) != 0 {
		t.Errorf("another suite has a score: %+v", r.IO500)
	}
}
