package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "datamove.dev/test/seed/property" // of rapid
)

//safety:5/jobs retention, whatever it is told, keeps the last two that are verified, and the newest that a second tier has
func TestJudge(t *testing.T) {
	many := func(n int) (held []Held) {
		for i := range n {
			held = append(held, Held{Name: fmt.Sprint("s", i+1), Step: int64(i + 1), Verified: true, Second: true})
		}
		return held
	}
	for _, row := range []struct {
		what string
		keep Keep
		held []Held
		two  bool
		drop string
	}{
		{"all", Keep{}, many(5), false, ""},
		{"the last", Keep{Last: 3}, many(5), false, "s2 s1"},
		{"never below two", Keep{Last: 1}, many(5), false, "s3 s2 s1"},
		{"every second one", Keep{Last: 2, Every: 2}, many(6), false, "s3 s1"},
		{"what is not verified does not count", Keep{Last: 2}, append(many(4), Held{Name: "s9", Step: 9}), false, "s2 s1"},
		{"what was not read when it came does not count, and goes", Keep{Last: 2}, append(many(5), Held{Name: "s0", Verified: true, Unread: true}, Held{Name: "s9", Step: 9, Verified: true, Unread: true}), false, "s3 s2 s1 s0"},
		{"nothing was read when it came", Keep{Last: 2}, []Held{{Name: "s1", Step: 1, Verified: true, Unread: true}, {Name: "s2", Step: 2, Verified: true, Unread: true}, {Name: "s3", Step: 3, Verified: true, Unread: true}}, false, ""},
		{"tagged", Keep{Last: 2}, append(many(3), Held{Name: "s0", Verified: true, Tagged: true}), false, "s1"},
		{"rolled back", Keep{Last: 2}, []Held{{Name: "4000", Step: 4000, Saved: 1, Verified: true}, {Name: "5000", Step: 5000, Saved: 2, Verified: true}, {Name: "3500", Step: 3500, Saved: 3, Verified: true}, {Name: "3600", Step: 3600, Saved: 4, Verified: true}}, false, "5000 4000"},
		{"rolled back, the head is the only one of its line", Keep{Last: 2}, []Held{{Name: "3000", Step: 3000, Saved: 4, Verified: true}, {Name: "4000", Step: 4000, Saved: 2, Verified: true}, {Name: "5000", Step: 5000, Saved: 3, Verified: true}}, false, "4000"},
		{"rolled back by a tracker", Keep{Last: 2}, []Held{{Name: "10", Step: 10, Saved: 1, Verified: true}, {Name: "20", Step: 20, Saved: 4, Verified: true, Named: true}, {Name: "30", Step: 30, Saved: 3, Verified: true}}, false, "30"},
		{"rolled back by a tracker, and saved since", Keep{Last: 2}, []Held{{Name: "10", Step: 10, Saved: 1, Verified: true}, {Name: "20", Step: 20, Saved: 2, Verified: true}, {Name: "30", Step: 30, Saved: 3, Verified: true}, {Name: "25", Step: 25, Saved: 5, Verified: true, Named: true}}, false, "30 10"},
		{"rolled back, and what is saved since is on its way", Keep{Last: 2}, []Held{{Name: "10", Step: 10, Saved: 1, Verified: true}, {Name: "20", Step: 20, Saved: 2, Verified: true}, {Name: "30", Step: 30, Saved: 3, Verified: true}, {Name: "25", Step: 25, Saved: 5}}, false, "10"},
		{"rolled back, and a tag", Keep{Last: 2}, []Held{{Name: "10", Step: 10, Saved: 1, Verified: true}, {Name: "20", Step: 20, Saved: 2, Verified: true}, {Name: "30", Step: 30, Saved: 3, Verified: true, Tagged: true}, {Name: "25", Step: 25, Saved: 5, Verified: true}}, false, "10"},
		{"rolled back, and the second tier has both", Keep{Last: 2}, []Held{{Name: "10", Step: 10, Saved: 1, Verified: true, Second: true}, {Name: "20", Step: 20, Saved: 2, Verified: true}, {Name: "30", Step: 30, Saved: 3, Verified: true, Second: true}, {Name: "25", Step: 25, Saved: 5, Verified: true}}, true, "30"},
		{"a tracker names an old one", Keep{Last: 2}, append(many(3), Held{Name: "s0", Verified: true, Named: true}), false, "s1"},
		{"the second tier has none", Keep{Last: 2}, []Held{{Name: "s1", Step: 1, Verified: true}, {Name: "s2", Step: 2, Verified: true}, {Name: "s3", Step: 3, Verified: true}}, true, ""},
		{"the second tier has an old one", Keep{Last: 2}, []Held{{Name: "s1", Step: 1, Verified: true, Second: true}, {Name: "s2", Step: 2, Verified: true, Second: true}, {Name: "s3", Step: 3, Verified: true}, {Name: "s4", Step: 4, Verified: true}}, true, "s1"},
		{"two runs in a folder, and the best of them", Keep{Last: 2}, append(many(3), Held{Name: "b1", Saved: 9, Verified: true, Second: true}, Held{Name: "b2", Saved: 10, Verified: true, Second: true}, Held{Name: "b3", Saved: 11, Verified: true, Second: true}, Held{Name: "best.ckpt", Step: -1, Verified: true}), false, "b1 s1"},
	} {
		if got := strings.Join(dropped(row.keep.Judge(row.held, row.two)), " "); got != row.drop {
			t.Errorf("%s: %q, want %q", row.what, got, row.drop)
		}
	}
}

func dropped(verdicts []Verdict) (names []string) {
	for _, v := range verdicts {
		if !v.Keep {
			names = append(names, v.Name)
		}
	}
	return names
}

// TestJudgeKeeps: whatever there is, and whatever is asked for, two verified ones that were read stay, the newest with them, and with a second tier the newest
// that it has; nothing goes that is not verified, or tagged; and what a run has kept it keeps when it is asked again.
//
//safety:5/jobs with TestJudge
func TestJudgeKeeps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var held []Held
		for i := range rapid.IntRange(0, 20).Draw(t, "n") {
			b := func(what string) bool { return rapid.Bool().Draw(t, what) }
			held = append(held, Held{Name: fmt.Sprint(i), Step: rapid.Int64Range(-1, 12).Draw(t, "step"), Saved: rapid.Int64Range(0, 3).Draw(t, "time"), Verified: b("verified"), Unread: b("unread"), Tagged: b("tagged"), Second: b("second")})
		}
		k := Keep{Last: rapid.IntRange(-1, 5).Draw(t, "last"), Every: rapid.Int64Range(0, 4).Draw(t, "every")}
		two := rapid.Bool().Draw(t, "two")
		all := k.Judge(held, two)
		var stays []Held
		before, after := 0, 0
		var newest, newestTwice *Held
		for i, v := range all {
			if v.counts() {
				before++
				if newest == nil {
					newest = &all[i].Held
				}
				left := newest.Step >= 0 && v.Step > newest.Step // by a roll back
				if v.Second && (newestTwice == nil || newestTwice.Step > newest.Step && newest.Step >= 0 && !left) {
					newestTwice = &all[i].Held
				}
			}
			if v.Keep {
				stays = append(stays, v.Held)
				if v.counts() {
					after++
				}
				continue
			}
			if !v.Verified || v.Tagged || k.Last <= 0 || k.Every > 0 && v.Step >= 0 && v.Step%k.Every == 0 {
				t.Fatalf("%+v goes", v)
			}
		}
		if len(all) != len(held) || after < min(before, max(2, k.Last)) {
			t.Fatalf("%d of %d verified ones stay", after, before)
		}
		for _, one := range []*Held{newest, newestTwice} {
			if one != nil && (two || one == newest) && !slices.Contains(stays, *one) {
				t.Fatalf("%+v goes", *one)
			}
		}
		for _, name := range k.Relies(all) {
			if i := slices.IndexFunc(stays, func(h Held) bool { return h.Name == name }); i < 0 || !stays[i].counts() {
				t.Fatalf("others go for %s", name)
			}
		}
		if again := dropped(k.Judge(stays, two)); len(again) > 0 {
			t.Fatalf("%v go the next time", again)
		}
	})
}

// TestStates is a drawing: what is verified was copied, and what was copied was complete.
func TestStates(t *testing.T) {
	for _, row := range []struct {
		from, to State
		may      bool
	}{
		{"", Seen, true}, {"", Complete, false}, {Seen, Copying, false}, {Settling, Copying, false}, {Complete, Copying, true}, {Complete, Verified, false}, {Copying, Verified, false},
		{Copying, Settling, true}, {Copied, Verified, true}, {Verified, Expired, true}, {Copying, Expired, false}, {Copying, Superseded, true}, {Superseded, Verified, false},
	} {
		if got := row.from.May(row.to); got != row.may {
			t.Errorf("%s -> %s: %v", row.from, row.to, got)
		}
	}
	for s, next := range nextStates {
		for _, n := range next {
			if _, known := nextStates[n]; !known || n == s {
				t.Errorf("%s -> %s", s, n)
			}
		}
	}
}
