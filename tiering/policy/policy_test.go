package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
)

var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func ago(d time.Duration) int64 { return now.Add(-d).UnixNano() }

// idle is a file that nobody has used for a while.
func idle(name string, size int64, d time.Duration) dataset.File {
	f := dataset.File{Kind: mover.File, Known: mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactCtime | mover.FactLinks,
		Size: size, Stored: size, Mode: 0o640, UID: 1001, GID: 100, Links: 1, Mtime: ago(d), Atime: ago(d), Ctime: ago(d), Seen: ago(d) / 1e9}
	f.Dir, f.Base = mover.Parent(name)
	return f
}

type people struct{}

func (people) User(uid uint32) (string, error) {
	return map[uint32]string{0: "root", 1001: "anna"}[uid], nil
}

func (people) Group(gid uint32) (string, error) { return map[uint32]string{100: "users"}[gid], nil }

// text is a policy with some rules.
func text(rules string) string {
	return "kind: TierPolicy\nmetadata: {name: test}\nspec:\n  scope: {roots: [\"project:\"]}\n  vars: {exempt: [bob, anna]}\n  classes:\n" +
		"  - {name: tiny, match: {size: <64KiB}}\n  - {name: ckpt, match: {path: \"**/ckpt/**\"}}\n" +
		"  - {name: tinyckpt, match: {class: [tiny]}, where: '\"ckpt\" in class'}\n" +
		"  rules:\n" + rules
}

func read(t testing.TB, rules string) *policy.Program {
	t.Helper()
	all := must.Get(policy.Read("test.yaml", []byte(text(rules))))(t)
	return all[0]
}

// Each clause, of files that it holds for and of others.
func TestRules(t *testing.T) {
	const kib, gib = 1 << 10, 1 << 30
	old, young := idle("vision/a.tar", gib, 40*day), idle("vision/b.tar", gib, time.Hour)
	small, saved := idle("vision/note.txt", 100, 40*day), idle("run/ckpt/1/model.pt", 10*kib, 3*day)
	linked := idle("vision/c.tar", gib, 40*day)
	linked.Links = 2
	link := idle("vision/link", 0, 40*day)
	link.Kind = mover.Symlink
	stranger := idle("vision/d.tar", gib, 40*day)
	stranger.UID = 4711
	object := dataset.File{Dir: "vision", Base: "e.tar", Kind: mover.File, Known: mover.FactMtime, Size: gib, Mtime: ago(40 * day), Seen: ago(50*day) / 1e9}
	strange := idle("vision/\xff\xfe", 1, day)

	for _, row := range []struct {
		match string
		file  dataset.File
		at    policy.Facts
		holds bool
	}{
		{"match: {idle: \">30d\"}", old, policy.Facts{}, true},
		{"match: {idle: \">30d\"}", young, policy.Facts{}, false},
		{"match: {idle: \">30d\"}", old, policy.Facts{LeaseEnded: ago(day)}, false},
		{"match: {idle: \">30d\"}", old, policy.Facts{Staged: ago(day)}, false},
		{"match: {idle: \"30d..41d\"}", old, policy.Facts{}, true},
		{"match: {idle: <=1h}", young, policy.Facts{}, true},
		{"match: {idle: <1h}", young, policy.Facts{}, false},
		{"match: {accessed: \">30d\", modified: \">30d\", changed: \">30d\", seen: \">30d\"}", old, policy.Facts{}, true},
		{"match: {accessed: \">30d\"}", object, policy.Facts{}, false}, // a store tells no atime: nothing follows from it
		{"match: {modified: \">30d\"}", object, policy.Facts{}, true},
		{"match: {size: 1GiB}", old, policy.Facts{}, true},
		{"match: {size: \">1GiB\"}", old, policy.Facts{}, false},
		{"match: {size: \">=1GiB\", stored: \"<2GiB\"}", old, policy.Facts{}, true},
		{"match: {size: \"1KiB..2GiB\"}", small, policy.Facts{}, false},
		{"match: {kind: symlink}", link, policy.Facts{}, true},
		{"match: {kind: [symlink, fifo]}", old, policy.Facts{}, false},
		{"match: {owner: anna}", old, policy.Facts{}, true},
		{"match: {owner: [bob, 1001]}", old, policy.Facts{}, true},
		{"match: {owner: 4711}", stranger, policy.Facts{}, true},
		{"match: {owner: anna}", stranger, policy.Facts{}, false},
		{"match: {owner: 0}", object, policy.Facts{}, false}, // whose it is a store does not tell
		{"match: {group: users}", old, policy.Facts{}, true},
		{"match: {project: [nlp, vision]}", old, policy.Facts{Project: "vision"}, true},
		{"match: {tier: project}", old, policy.Facts{Tier: "archive"}, false},
		{"match: {name: [\"*.txt\", \"*.tar\"]}", old, policy.Facts{}, true},
		{"match: {name: \"*.txt\"}", old, policy.Facts{}, false},
		{"match: {path: \"vision/**\"}", old, policy.Facts{}, true},
		{"match: {path: \"/a.tar\"}", old, policy.Facts{}, false},
		{"match: {path: \"**/[ab].{tar,zip}\"}", old, policy.Facts{}, true},
		{"match: {class: ckpt}", saved, policy.Facts{}, true},
		{"match: {class: [tinyckpt]}", saved, policy.Facts{}, true},
		{"match: {notClass: [tiny, ckpt]}", saved, policy.Facts{}, false},
		{"match: {notClass: [tiny, ckpt]}", old, policy.Facts{}, true},
		{"match: {links: \">1\"}", linked, policy.Facts{}, true},
		{"match: {replicasElsewhere: \">=1\"}", old, policy.Facts{Replicas: 2}, true},
		{"match: {replicasElsewhere: \">=1\"}", old, policy.Facts{}, false},
		{"match: {pinned: true}", old, policy.Facts{Pinned: true}, true},
		{"match: {leased: false}", old, policy.Facts{Leased: true}, false},
		{"match: {checkpoint: [complete, verified]}", saved, policy.Facts{Checkpoint: "verified"}, true},
		{"match: {pinned: true, leased: true}, any: true", old, policy.Facts{Leased: true}, true},
		{"match: {pinned: true, leased: true}, any: true", old, policy.Facts{}, false},
		{"match: {pinned: true, leased: true}", old, policy.Facts{Leased: true}, false},
		{"match: {idle: \">30d\", not: {name: \"*.tar\"}}", old, policy.Facts{}, false},
		{"match: {idle: \">30d\", not: {name: \"*.tar\"}}", small, policy.Facts{}, true},
		{"where: 'owner in exempt'", old, policy.Facts{}, true},
		{"where: '!(owner in exempt)'", old, policy.Facts{}, false},
		{"where: 'size > 1000 && ext == \".tar\" && dir == \"vision\"'", old, policy.Facts{}, true},
		{"where: 'idle_days > 30 && now - mtime > duration(\"720h\")'", old, policy.Facts{}, true},
		{"where: 'name.matches(\"^[ab]\") && path.startsWith(\"vision/\")'", old, policy.Facts{}, true},
		{"where: 'class.exists(c, c == \"tiny\")'", small, policy.Facts{}, true},
		{"where: 'name.size() > 0'", strange, policy.Facts{}, true},
		{"where: 'mode == 416 && uid == 1001 && links == 1 && replicas == 0 && !pinned && !leased'", old, policy.Facts{}, true},
		{"match: {size: \">1KiB\"}, where: 'false'", old, policy.Facts{}, false},
	} {
		t.Run(row.match, func(t *testing.T) {
			p := read(t, "  - {name: it, "+row.match+", action: {type: archive, to: cold}}\n")
			j := p.Judge(now, people{})
			v := j.Decide(&row.file, &row.at)
			if v.Err != nil || (v.Rule == 0) != row.holds {
				t.Errorf("of %s it is %+v: %s", mover.Printable(row.file.Name()), v, j.Reason(&row.file, &row.at, v))
			}
			if got := p.Action(v).Type == policy.Archive; got != row.holds {
				t.Errorf("and does %s", p.Action(v).Type)
			}
		})
	}
}

// The first rule that matches decides; why is told with the values.
func TestFirst(t *testing.T) {
	p := read(t, `  - {name: pinned, match: {pinned: true}, action: keep}
  - {name: cold, match: {idle: ">30d", size: ">=1MiB", notClass: [ckpt]}, where: '!(owner in ["eve"])', action: {type: migrate, to: archive, verify: read}}
  - {name: rest, action: {type: notify, who: [owner], message: look at it}}
`)
	j := p.Judge(now, people{})
	old, young := idle("vision/a.tar", 1<<30, 40*day), idle("vision/b.tar", 1<<30, time.Hour)
	for _, row := range []struct {
		file   dataset.File
		at     policy.Facts
		verb   policy.Verb
		reason string
	}{
		{old, policy.Facts{Pinned: true}, policy.Keep, "keep by rule pinned: pinned true (true)"},
		{old, policy.Facts{}, policy.Migrate, `migrate by rule cold: size 1.00 GiB (>=1MiB), idle 40d00h (>30d), notClass none (ckpt), !(owner in ["eve"])`},
		{young, policy.Facts{}, policy.Notify, "notify by rule rest: everything else"},
	} {
		v := j.Decide(&row.file, &row.at)
		if got := p.Action(v).Type; got != row.verb {
			t.Errorf("%s: %s", row.file.Base, got)
		}
		if got := j.Reason(&row.file, &row.at, v); got != row.reason {
			t.Errorf("%s: %s", row.file.Base, got)
		}
	}
	sights, used := j.Explain(&young, &policy.Facts{LeaseEnded: ago(time.Minute)})
	if len(sights) != 3 || sights[1].Holds || !sights[2].Holds || !strings.Contains(used, "by its last lease") {
		t.Errorf("%+v, %s", sights, used)
	}
	if c := sights[1].Clause; len(c) != 4 || c[0].Field != "size" || !c[0].Holds || c[1].Field != "idle" || c[1].Holds || c[3].Field != "where" {
		t.Errorf("%+v", c)
	}
}

// An expression that fails decides nothing, not even by a rule behind it.
//
//safety:5 with TestHeld
func TestFailing(t *testing.T) {
	p := read(t, "  - {name: odd, where: '100 / (size - 5) > 1', action: purge}\n  - {name: rest, action: purge}\n")
	j := p.Judge(now, nil)
	f := idle("a", 5, 40*day)
	v := j.Decide(&f, &policy.Facts{})
	if v.Err == nil || p.Action(v).Type != policy.Keep {
		t.Errorf("%+v", v)
	}
	if got := j.Reason(&f, &policy.Facts{}, v); !strings.HasPrefix(got, "kept: rule odd failed: ") {
		t.Error(got)
	}
	f.Size = 6
	if v := j.Decide(&f, &policy.Facts{}); v.Rule != 0 || v.Err != nil {
		t.Errorf("%+v", v)
	}
}

// What is refused, and where.
func TestRefused(t *testing.T) {
	for _, row := range []struct{ rules, want string }{
		{"  - {name: a, match: {idel: \">30d\"}, action: purge}", "test.yaml:11:23: spec.rules[0].match.idel: unknown field; did you mean idle?"},
		{"  - {name: a, mach: {}, action: purge}", "11:15: spec.rules[0].mach: unknown field; did you mean match?"},
		{"  - {name: a, match: {idle: 30}, action: purge}", "11:29: spec.rules[0].match.idle: want a span of time with its unit"},
		{"  - {name: a, match: {idle: \"!30d\"}, action: purge}", "want a span of time"},
		{"  - {name: a, match: {size: \"=<3KiB\"}, action: purge}", "want a comparison"},
		{"  - {name: a, match: {size: \"3KiB..1KiB\"}, action: purge}", "its end is before its beginning"},
		{"  - {name: a, match: {pinned: maybe}, action: purge}", "11:31: spec.rules[0].match.pinned: want true or false"},
		{"  - {name: a, match: {class: [large]}, action: purge}", "there is no class large"},
		{"  - {name: a, match: {kind: folder}, action: purge}", "want file, dir, symlink"},
		{"  - {name: a, match: {name: \"[a\"}, action: purge}", `"[a" is no pattern`},
		{"  - {name: a, match: {size: 1, size: 2}, action: purge}", "11:32: spec.rules[0].match.size: is there twice"},
		{"  - {name: a, any: true, match: {size: 1}, action: purge}", "any and all are the same"},
		{"  - {name: a, action: delete}", `11:23: spec.rules[0].action: unknown word "delete"; want archive, evict`},
		{"  - {name: a, action: {type: relaese}}", "did you mean release?"},
		{"  - {name: a, action: archive}", "spec.rules[0].action.to: archive needs it"},
		{"  - {name: a, action: {type: purge, to: archive}}", "11:37: spec.rules[0].action.to: purge does not have it"},
		{"  - {name: a, action: keep}\n  safety: {quarantine: 0s}", "spec.safety.quarantine: want more than 0"},
		{"  - {name: a, action: keep}\n  safety: {grace: 0s, canary: 0}", "spec.safety.canary: want more than 0"},
		{"  - {name: a, action: {type: archive, to: cold, then: purge}}", "want release, and not purge"},
		{"  - {name: a, action: {type: retain, keepLast: 3, neverBelowVerified: 1}}", "want 2 or more"},
		{"  - {name: a, match: {kind: file}, action: {type: replicate, to: [peer], rpo: 5m}}", "is of checkpoints"},
		{"  - {name: a, match: {checkpoint: complete}, action: {type: migrate, to: peer, rpo: 5m}}", "migrate does not have it"},
		{"  - {name: a, action: {type: release, hsm: true, minReplicas: 2}}", "and asks for no other"},
		{"  - {name: a, action: {type: setLayout, layout: wide}}", "action.layout: want \"advised\", or words like"},
		{"  - {name: a}", "spec.rules[0].action: is missing"},
		{"  - {action: keep}", "spec.rules[0].name: is missing"},
		{"  - {name: a b, action: keep}", "want a name of letters"},
		{"  - {name: a, action: keep}\n  - {name: a, action: keep}", "12:5: spec.rules[1].name: a is the name of a rule before it"},
		{"  - {name: a, where: 'siez > 3', action: keep}", "11:23: spec.rules[0].where: undeclared reference to 'siez'"},
		{"  - {name: a, where: 'size > \"3\"', action: keep}", "found no matching overload"},
		{"  - {name: a, where: 'size >', action: keep}", "Syntax error"},
		{"  - name: a\n    action: keep\n    where: |\n      size > 3 &&\n        ower == \"a\"", "15:3: spec.rules[0].where: undeclared reference to 'ower'"},
		{"  - {name: a, where: 'size + 1', action: keep}", "is int; want true or false"},
		{"  - {name: a, where: 'name.matches(\"(\")', action: keep}", "invalid matches argument"},
		{"  - {name: a, where: 'class.all(a, class.all(b, class.all(c, class.all(d, a+b+c+d != path))))', action: keep}", "may cost up to"},
		{"  - {name: a, where: 'path.matches(\"" + strings.Repeat("(a|b)*", 200) + "\")', action: keep}", "may cost up to"},
		{"  - {name: a, where: '" + strings.Repeat("(", 100) + "true" + strings.Repeat(")", 100) + "', action: keep}", "recursion"},
		{"  - {name: a, where: '" + strings.Repeat("true || ", 1000) + "true', action: keep}", "size"},
		{"  - &x {name: a, action: keep}", "anchors and aliases"},
		{"  - {name: a, <<: {action: keep}}", "want a name before the colon"},
		{"  - {name: a, action: keep", "is not valid YAML"},
		{"  - 7", "want a table of fields"},
		{"  - {name: a, match: [], action: keep}", "want a table of fields"},
		{"  - {name: , action: keep}", "has no value"},
	} {
		all, err := policy.Read("test.yaml", []byte(text(row.rules+"\n")))
		switch {
		case err == nil:
			t.Errorf("%s\nis taken: %d", row.rules, len(all))
		case !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want):
			t.Errorf("%s\nis refused, and not with %q:\n%v", row.rules, row.want, err)
		}
	}
}

// The same of what is around rules.
func TestRefusedSpec(t *testing.T) {
	const head, rule = "kind: TierPolicy\nmetadata: {name: a}\nspec:\n  scope: {roots: [\"p:\"]}\n", "  rules: [{name: a, action: keep}]\n"
	for _, row := range []struct{ text, want string }{
		{"", "there is no policy in it"},
		{"[]", "want a table of fields"},
		{strings.Replace(head+rule, "TierPolicy", "Policy", 1), "want TierPolicy"},
		{head + rule + "  mode: dry\n", `6:9: spec.mode: unknown word "dry"; want canary, enforce or plan`},
		{head, "spec.rules: is missing"},
		{strings.Replace(head+rule, "p:", "/p", 1), "want TIER: or TIER:path"},
		{strings.Replace(head+rule, "p:", "p:../x", 1), "want TIER: or TIER:path"},
		{head + rule + "  vars: {size: [a]}\n", "none of the variables"},
		{head + rule + "  trigger: [{tier: p, high: 80, low: 80}]\n", "6:13: spec.trigger[0]: want low and high"},
		{head + rule + "  trigger: [{high: 80, low: 70}]\n", "whose watermark is it?"},
		{head + rule + "  trigger: [{event: task.done, high: 80}]\n", "and not both"},
		{head + rule + "  trigger: [{tier: p, high: 180, low: 70}]\n", "percentage from 0 to 100"},
		{head + rule + "  schedule: {cron: '0 1 * * *', tz: Mars/Olympus}\n", "there is no time zone"},
		{head + rule + "  schedule: {cron: '0 1 * *'}\n", "want minute, hour, day of month"},
		{head + rule + "  schedule: {cron: '0 0 31 2 *'}\n", "there is no day as in"},
		{head + rule + "  schedule: {cron: 'TZ=UTC 0 0 1 2 *'}\n", "the time zone is written in tz"},
		{head + rule + "  schedule: {cron: '@daily', tz: Local}\n", "hosts differ"},
		{head + rule + "  order: {by: weight}\n", "spec.order.weight: is missing"},
		{head + rule + "  order: {weight: 'name'}\n", "is string; want a number"},
		{head + rule + "  order: {by: size, weight: 'size'}\n", "is for by: weight"},
		{head + rule + "  limits: {files: -1}\n", "want a whole number"},
		{head + rule + "  limits: {bytes: 3 parsecs}\n", "want a number with a unit"},
		{head + rule + "---\n" + head + rule, "is the name of the policy in line 1, too"},
		{strings.Repeat("#", 1<<20) + "\n" + head + rule, "at most 1048576 in one file"},
		{head + "  rules: " + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "\n", "want a table"},
	} {
		if _, err := policy.Read("a.yaml", []byte(row.text)); err == nil || !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.300s\nis refused, and not with %q:\n%v", row.text, row.want, err)
		}
	}
	if _, err := policy.Read("a.yaml", []byte(head+rule)); err != nil {
		t.Error(err)
	}
}

// Whatever the text is, it is read or refused.
func FuzzRead(f *testing.F) {
	f.Add(text("  - {name: a, match: {idle: \">30d\"}, where: 'size > 3', action: {type: archive, to: cold}}\n"))
	f.Add("kind: TierPolicy\nmetadata: {name: a}\nspec: {scope: {roots: ['p:']}, rules: [{name: a, action: keep}], order: {weight: '1.0'}}\n")
	old := idle("vision/a.tar", 1<<30, 40*day)
	f.Fuzz(func(t *testing.T, s string) {
		all, err := policy.Read("fuzz.yaml", []byte(s))
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Fatal(err)
			}
			return
		}
		for _, p := range all {
			j := p.Judge(now, nil)
			v := j.Decide(&old, &policy.Facts{})
			_ = j.Reason(&old, &policy.Facts{}, v)
			_, _ = j.Weight(&old, &policy.Facts{})
		}
	})
}

// Decisions for one entry: native clauses, and one with an expression behind them.
func BenchmarkDecide(b *testing.B) {
	for name, where := range map[string]string{"native": "", "cel": `where: 'project != "keep" && !(owner in exempt)', `} {
		b.Run(name, func(b *testing.B) {
			p := read(b, `  - {name: pinned, match: {pinned: true}, action: keep}
  - {name: leased, match: {leased: true}, action: keep}
  - {name: cold, match: {idle: ">30d", size: ">=1MiB", notClass: [ckpt]}, `+where+`action: {type: migrate, to: archive}}
`)
			files := make([]dataset.File, 1000)
			for i := range files {
				files[i] = idle(fmt.Sprintf("vision/%d.tar", i), int64(1<<20+i), 40*day)
			}
			j := p.Judge(now, people{})
			at := policy.Facts{Tier: "project", Project: "vision"}
			n := 0
			for b.Loop() {
				j.Decide(&files[n%1000], &at)
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
}

// An event with a typo is that, and no watermark that lacks a tier.
func TestEventTypo(t *testing.T) {
	_, err := policy.Read("x.yaml", []byte(text("  - {name: a, action: keep}\n  trigger: [{event: checkpoint.complet}]\n")))
	if err == nil || !strings.Contains(err.Error(), "did you mean checkpoint.complete?") || strings.Contains(err.Error(), "watermark") {
		t.Error(err)
	}
}

// TestTriggerText: a trigger says in words what has the policy run.
func TestTriggerText(t *testing.T) {
	for want, trigger := range map[string]policy.Trigger{
		"at checkpoint.complete":                       {Event: policy.CheckpointComplete},
		"above 85% of tier scratch":                    {Tier: "scratch", High: 85, Low: 70},
		"above 99.5% of tier p, OST any, inodes":       {Tier: "p", OST: "any", Measure: policy.OfInodes, High: 99.5},
		"above 80% of tier p, pool flash, project 100": {Tier: "p", Pool: "flash", Project: "100", High: 80},
	} {
		if got := trigger.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
