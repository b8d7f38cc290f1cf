package browser

import (
	"testing"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/units"
)

// testTonight: what policies will do is shown by when they do it, and what became of runs beside it.
func testTonight(t *testing.T, w *window) {
	s := newService()
	h := newHouse(t, s)
	w.open(h.url+"/", 1200, 800)
	eval[string](w, "location.hash = '#/tonight'")
	w.wait("text('main .note') === 'The configuration has no policies.'")
	s.with(func() { tieredBy(s) })
	w.leave()
	w.open(h.url+"/#/tonight", 1200, 800)
	w.wait("all('.policies tbody tr').length === 2")
	for what, want := range map[string]string{
		"all('.policies tbody tr')[0].children[0].textContent": "project-to-cold storage-team",
		"all('.policies tbody tr')[0].children[4].textContent": "20,111 files, 9.00 TiB",
		"all('.policies tbody tr')[0].children[5].textContent": "19,000 files, 8.00 TiB",
		"all('.policies tbody tr')[0].children[6].textContent": "9h00m ago: done",
		"all('.policies tbody tr')[1].children[3].textContent": "above 85% of tier scratch; at task.done",
		"all('.policies tbody tr')[0].children[7].textContent": "Run now …",
		"all('.policies tbody tr')[1].children[7].textContent": "",
		"all('.runs tbody tr')[0].children[9].textContent":     "Undo …",
		"all('.runs tbody tr')[1].children[9].textContent":     "",
		"all('.policies tbody tr')[1].children[6].textContent": "never",
		"all('.runs tbody tr')[0].children[4].textContent":     "120,431 files, 80.0 TiB of 120,443 files, 81.0 TiB",
		"all('.runs tbody tr')[1].children[8].textContent":     "12 of 52 files failed, and the policy lets 5 % (limits.errorPct)",
		"all('.runs tbody tr')[1].children[7].textContent":     "",
	} {
		w.wait("%s === %q", what, want)
	}
	var runs datamovev1.ListRunsResponse
	h.get("/v1/runs", &runs)
	amount := func(a *datamovev1.RunTotals) string {
		return units.Plural(a.GetFiles(), "file", "files") + ", " + units.Bytes(a.GetBytes())
	}
	if len(runs.Runs) < 2 {
		t.Fatalf("%d runs", len(runs.Runs))
	}
	for i, r := range runs.Runs {
		want := amount(r.Done) + " of " + amount(r.Planned) + " " + units.Count(r.Skipped) + " " + units.Count(r.Failed)
		w.wait("[...all('.runs tbody tr')[%d].children].slice(4, 7).map((c) => c.textContent).join(' ') === %q", i, want)
	}
	for _, deed := range []string{"run", "undo"} {
		w.click("main td [data-deed=" + deed + "]")
		w.click("dialog[open] [data-deed=surely]")
		w.wait("!document.querySelector('dialog[open]')")
	}
	w.wait("all('.runs tbody tr')[0].children[8].textContent === 'run 01m8bd0yp9fk7w51plan, undo 01m8bd0yp9fk7w51aama'")
}

// testUsage: sums are asked for once for each choice, which the address has, and again when a tier was scanned anew.
func testUsage(t *testing.T, w *window) {
	s := newService()
	tieredBy(s)
	s.scans[1].Files, s.scans[1].Bytes = 0, 0 // the first scan found nothing, and a feed told of all that came
	h := newHouse(t, s)
	w.open(h.url+"/#/usage", 1200, 800)
	w.wait("all('.usage tbody tr').length === 2")
	w.wait("all('.usage tbody tr')[0].textContent === 'ada30,000,000100,000800 TiB801 TiB'")
	w.wait("all('.usage tbody tr')[1].children[0].textContent === '–'")
	w.wait("all('main select')[0].textContent === 'projectscratch on n01'") // of what was scanned
	w.wait("document.querySelector('main [role=status]').textContent.startsWith('41,000,000 files, 900 TiB, as they were ')")
	eval[bool](w, `(() => { const by = document.querySelectorAll('main select')[1]; by.value = 'age'; return by.dispatchEvent(new Event('change')) })()`)
	w.wait("location.hash.includes('by=age') && text('.usage th') === 'Not used for'")
	asked := func() (got []string) { s.with(func() { got = append(got, s.asked...) }); return got }
	if got := asked(); len(got) != 2 || got[0] != "sum project: by owner" || got[1] != "sum project: by age" {
		t.Errorf("%q", got)
	}
	s.with(func() { s.scans[1] = &datamovev1.Scan{Tier: "project", Time: ago(time.Second), Files: 1} })
	for range 200 {
		if len(asked()) > 2 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("a new scan is not looked at: %q", asked())
}
