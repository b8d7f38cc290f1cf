package browser

import (
	"fmt"
	"strings"
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// nasty is text that would like to be more than text.
const nasty = "<img src=x onerror=alert(1)>\u202e</td><script>alert(2)</script>\x1b[31m\x00'\"`${alert(3)}javascript:alert(4)\u2066\r\n"

// control is what must not be in any text of the page, and is not there for us.
const control = `/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/`

// hostile is a service of which every text is nasty.
func hostile() *service {
	s := cluster()
	for i, t := range s.tasks[:5] {
		n := fmt.Sprintf("%d%s", i, nasty)
		t.Spec.Source, t.Spec.Target, t.Spec.Project, t.Spec.Node, t.Owner.Name, t.IdempotencyKey, t.Why, t.Phase, t.Error, t.Agent, t.Dataset = n, n, n, n, n, n, n, n, n, n, n
		t.Spec.Labels, t.Helpers = map[string]string{n: n}, []string{"h" + n, "i" + n}
		t.Spec.Options = &datamovev1.Options{Preserve: []string{n}, BackupDir: n, Rules: []*datamovev1.Rule{{Pattern: n}}}
	}
	t, failed := s.tasks[0], s.tasks[4]
	for _, name := range hostileNames {
		t.Progress.Slowest = append(t.Progress.Slowest, &datamovev1.SlowItem{Name: []byte(name), Agent: nasty})
		failed.Report.Failures = append(failed.Report.Failures, &datamovev1.Failure{Name: []byte(name), Op: nasty, Kind: nasty, Error: nasty, ErrorKind: nasty})
	}
	failed.Report.Notes = []string{nasty, nasty}
	s.why = &datamovev1.Explanation{Bottleneck: datamovev1.Bottleneck_BOTTLENECK_LINK, Text: nasty, Evidence: []string{nasty, nasty}, Advice: nasty}
	for i, a := range s.agents {
		a.Name, a.Version, a.Address, a.Reaches = fmt.Sprint(i, nasty), nasty, nasty, []string{nasty, nasty, "x" + nasty}
	}
	for i, tier := range s.tiers {
		tier.Name, tier.Level, tier.Location, tier.Node, tier.Agents = fmt.Sprint(i, nasty), nasty, nasty, nasty, []string{nasty, nasty}
	}
	for i, d := range s.datasets {
		d.Name, d.Project, d.Owner.Name, d.Versions[0].Digest = fmt.Sprint(i, nasty), nasty, nasty, nasty
	}
	for i, r := range s.replicas {
		r.Dataset, r.Digest, r.Tier, r.Node, r.Location, r.Task = s.datasets[i%5].Name, nasty, fmt.Sprint(i%3, nasty), nasty, nasty, nasty
	}
	s.leases[0].Dataset, s.leases[0].Id, s.leases[0].Holder, s.leases[0].Tier, s.leases[0].Owner.Name = s.datasets[0].Name, nasty, nasty, nasty, nasty
	s.pins[0].Dataset, s.pins[0].Reason, s.pins[0].Tier, s.pins[0].Owner.Name = s.datasets[0].Name, nasty, nasty, nasty
	for i, p := range s.policies {
		p.Name, p.Owner, p.Mode, p.Roots = fmt.Sprint(i, nasty), nasty, nasty, []string{nasty, nasty}
	}
	for _, r := range s.runs {
		r.Policy, r.By, r.Why, r.Error = nasty, nasty, nasty, nasty
	}
	for i, scan := range s.scans {
		scan.Tier, scan.Node = fmt.Sprint(i, nasty), nasty
	}
	for i, sum := range s.sums {
		sum.Group = []string{fmt.Sprint(i, nasty)}
	}
	return s
}

// TestHostileNames: text from outside is text. It makes no element, runs nothing,
// hides nothing and turns nothing around, and names of files are those of the
// command line.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := hostile()
	h := newHouse(t, s)
	w := h.look("/", 400, 800, "window.alert = (x) => console.error('a name ran', x)")
	ours := map[string]bool{}
	for at, want := range map[string]string{"#/tasks": "all('.row').length", "#/tasks/" + s.tasks[0].Id: "all('.slow tbody tr').length", "#/tasks/" + s.tasks[4].Id: "all('.failures tbody tr').length",
		"#/agents": "all('.agents tbody tr').length", "#/tiers": "all('.tier').length", "#/datasets": "all('.map tbody tr').length",
		"#/usage": "all('.usage tbody tr').length", "#/tonight": "all('.policies tbody tr').length",
		"#/tasks?text=" + strings.Repeat("%3Cimg%20src%3Dx%3E", 30): "text('main .note')", "#/__proto__/x": "all('.row').length", "#/constructor": "all('.row').length", "#/tasks/..%2f..%2fx": "all('.row').length", "#/%3Cscript%3E": "all('.row').length"} {
		eval[string](w, "location.hash = %q", at)
		w.wait("%s", want)
		for _, kind := range eval[[]string](w, "[...new Set([...document.querySelectorAll('*')].map((e) => e.localName))]") {
			ours[kind] = true
		}
		for _, bad := range eval[[]string](w, `[document.body, ...document.querySelectorAll('[title], [aria-label]')].flatMap((e) => [e === document.body ? e.textContent : '', e.title, e.ariaLabel ?? ''])
			.filter((text) => %s.test(text)).map((text) => JSON.stringify(text.slice(0, 500)))`, control) {
			t.Errorf("%s: the page shows %s", at, bad)
		}
		if over := eval[int](w, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			t.Errorf("%s: the page is %d pixels wider than the screen", at, over)
		}
	}
	for _, kind := range []string{"img", "script"} { // that are on every page
		if n := eval[int](w, "document.querySelectorAll(%q).length", kind); n != 1 {
			t.Errorf("%d elements %s", n, kind)
		}
	}
	for kind := range ours {
		if strings.Contains(" iframe object embed form base style meta-refresh ", " "+kind+" ") {
			t.Errorf("the page has an element %s", kind)
		}
	}
	w.names(s.tasks[0].Id, ".slow", len(hostileNames)+3)
	w.names(s.tasks[4].Id, ".failures", len(hostileNames)+3)
}

// names compares the names in a table with those of the command line.
func (w *window) names(id, table string, most int) {
	w.t.Helper()
	eval[string](w, "location.hash = %q", "#/tasks/"+id)
	w.wait("all('%s tbody tr').length", table)
	shown := map[string]bool{}
	for _, name := range eval[[]string](w, "[...document.querySelectorAll('%s tbody tr')].map((r) => r.children[0].textContent)", table) {
		shown[name] = true
	}
	for _, name := range hostileNames {
		if !shown[mover.Printable(name)] {
			w.t.Errorf("%s: %q is not shown as %s", table, name, mover.Printable(name))
		}
	}
	if len(shown) > most {
		w.t.Errorf("%s: %d names, of %d", table, len(shown), most)
	}
}
