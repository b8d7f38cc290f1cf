package browser

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"datamove.dev/bench/report"
	"datamove.dev/bench/report/reporttest"
	"datamove.dev/test/chromium"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// file is the page of a report.
func file(t *testing.T, r *report.Report) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, r.HTML(&b))
	name := filepath.Join(t.TempDir(), "report page.html")
	must.Do(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// openReport opens a report, in a window of that width. What it asks for beside itself fails the test, and so does a name that ran.
func openReport(t *testing.T, file string, width int64) *window {
	t.Helper()
	w := newWindow(t)
	w.before(`window.alert = (x) => console.error('a name ran', x)`)
	at := (&url.URL{Scheme: "file", Path: file}).String()
	requests := chromedp.Events(w.ctx, network.RequestWillBeSent)
	var heard sync.WaitGroup
	asked := 0        // for the page itself
	var away []string // requests to anything else
	heard.Go(func() {
		for r, err := range requests {
			if err != nil {
				return // the window is closed
			}
			if asked++; r.Request.URL != at {
				away = append(away, r.Request.URL)
			}
		}
	})
	t.Cleanup(func() {
		w.close()
		heard.Wait()
		if len(away) > 0 || asked == 0 {
			t.Errorf("%d requests, these to elsewhere: %q", asked, away)
		}
	})
	w.do(chromium.Call(network.Enable, network.EnableParams{}))
	w.open(at, width, 900)
	return w
}

// problems is what is wrong with what can be seen of a page: charts that are no charts or are not on it, texts that are on each other or can hardly be read, links to nowhere.
const problems = `(() => {
	const bad = []
	const name = (e) => e.localName + ' "' + (e.textContent ?? '').trim().replace(/\s+/g, ' ').slice(0, 60) + '"'
	const seen = (selector, in_ = document) => [...in_.querySelectorAll(selector)].filter((e) => e.checkVisibility())
	if (document.documentElement.scrollWidth > innerWidth) bad.push('the page is ' + (document.documentElement.scrollWidth - innerWidth) + ' pixels wider than the screen')
	for (const svg of seen('svg')) {
		const box = svg.getBoundingClientRect(), title = svg.querySelector('title').textContent
		if (box.width < 250 || box.height < 40 || box.left < 0 || box.right > innerWidth) bad.push('chart ' + title + ' is at ' + JSON.stringify(box))
		for (const id of svg.getAttribute('aria-labelledby').split(' ')) if (!svg.querySelector('#' + id)?.textContent) bad.push('chart ' + title + ' has no ' + id)
		const marks = [...svg.querySelectorAll('path, rect, circle')].map((e) => e.getBBox())
		if (!marks.some((b) => b.width > 5 || b.height > 5)) bad.push('chart ' + title + ' shows nothing')
		const texts = [...svg.querySelectorAll('text')].map((e) => [e, e.getBoundingClientRect()])
		texts.forEach(([e, b], i) => {
			if (b.left < box.left - 1 || b.right > box.right + 1 || b.top < box.top - 1 || b.bottom > box.bottom + 1) bad.push('chart ' + title + ': ' + name(e) + ' is cut off')
			if (b.height < 7) bad.push('chart ' + title + ': ' + name(e) + ' is too small: ' + b.height)
			for (const [other, o] of texts.slice(i + 1))
				if (Math.min(b.right, o.right) - Math.max(b.left, o.left) > 1 && Math.min(b.bottom, o.bottom) - Math.max(b.top, o.top) > 2) bad.push('chart ' + title + ': ' + name(e) + ' is on ' + name(other))
		})
	}
	const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true })
	const known = new Map()
	const light = (colour) => {
		if (known.has(colour)) return known.get(colour)
		pen.clearRect(0, 0, 1, 1)
		pen.fillStyle = colour
		pen.fillRect(0, 0, 1, 1)
		const [r, g, b, alpha] = [...pen.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
		const part = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		const value = [0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b), alpha]
		known.set(colour, value)
		return value
	}
	const below = (e) => {
		for (; e; e = e.parentElement) {
			const [value, alpha] = light(getComputedStyle(e).backgroundColor)
			if (alpha > 0.99) return value
		}
		return 1
	}
	for (const e of seen('body *')) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || ['title', 'desc'].includes(e.localName)) continue
		const style = getComputedStyle(e), [ink] = light(e.closest('svg') ? style.fill : style.color), ground = below(e)
		const ratio = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05)
		if (ratio < 4.5) bad.push(name(e) + ' can hardly be read: ' + ratio.toFixed(2))
	}
	for (const a of document.querySelectorAll('a')) if (!a.getAttribute('href').startsWith('#') || !document.querySelector(a.getAttribute('href'))) bad.push(name(a) + ' leads nowhere')
	const ids = [...document.querySelectorAll('[id]')].map((e) => e.id)
	if (new Set(ids).size !== ids.length) bad.push('two elements have one id')
	return [...new Set(bad)]
})()`

// TestReport opens a report from a file: wide and narrow, light and dark; in soak each in both; and on paper. Nothing may complain, nothing is asked for, each chart is there and can be read.
func TestReport(t *testing.T) {
	name := file(t, reporttest.Example(t))
	type kind struct {
		name, scheme string
		width        int64
	}
	kinds := []kind{{"wide", "light", 1280}, {"narrow-dark", "dark", 390}}
	if seed.Soak() {
		kinds = append(kinds, kind{"wide-dark", "dark", 1280}, kind{"narrow", "light", 390})
	}
	for _, row := range kinds {
		w := openReport(t, name, row.width)
		w.prefer(row.scheme, "")
		titles := eval[[]string](w, `[...document.querySelectorAll('svg')].filter((e) => e.checkVisibility()).map((e) => e.querySelector('title').textContent)`)
		for _, want := range []string{"large write", "io500 find", "Ceilings, read", "Ceilings, write", "Change of each phase", "Rate over time", "Latency", "Targets", "Nodes"} {
			if !slices.Contains(titles, want) {
				t.Errorf("%s: there is no chart %q", row.name, want)
			}
		}
		if dark := eval[bool](w, `getComputedStyle(document.body).backgroundColor.match(/\d+/)[0] < 128`); dark != (row.scheme == "dark") {
			t.Errorf("%s: dark is %v", row.name, dark)
		}
		if seed.Soak() { // with all open there is more of the same
			for _, problem := range eval[[]string](w, problems) {
				t.Errorf("%s: %s", row.name, problem)
			}
		}
		for _, part := range []string{"header", "#summary", "#baseline", "#scaling", "#roofline", "#io500", "#p4", "#notes"} {
			w.keep(row.name+part, chromedp.Screenshot(chromedp.CSS(part)))
		}
		eval[bool](w, `document.querySelectorAll('details').forEach((d) => { d.open = true }), true`)
		for _, problem := range eval[[]string](w, problems) {
			t.Errorf("%s, all open: %s", row.name, problem)
		}
		if charts := eval[int](w, `[...document.querySelectorAll('svg')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height > 40).length`); charts != 18+2+1+72*4 {
			t.Errorf("%s: %d charts", row.name, charts)
		}
		w.close()
	}
	openReport(t, name, 794).onPaper() // A4
}

// onPaper: what is printed is light, whatever its reader likes, and what is closed on a screen is open.
func (w *window) onPaper() {
	w.t.Helper()
	w.prefer("dark", "print")
	if closed := eval[int](w, `[...document.querySelectorAll('.phase svg')].filter((e) => !e.checkVisibility()).length`); closed > 0 {
		w.t.Errorf("%d charts are not printed", closed)
	}
	if ink := eval[string](w, `getComputedStyle(document.body).color`); ink != "rgb(23, 32, 43)" {
		w.t.Errorf("text is %s", ink)
	}
}

// TestHostileReport: names that would like to be more than names are names, also to a browser.
func TestHostileReport(t *testing.T) {
	name := file(t, reporttest.Hostile(t))
	for _, width := range []int64{390, 1280}[:kill.Times(1, 2)] {
		w := openReport(t, name, width)
		eval[bool](w, `document.querySelectorAll('details').forEach((d) => { d.open = true }), true`)
		for _, problem := range eval[[]string](w, problems) {
			t.Errorf("%d pixels: %s", width, problem)
		}
		if got := eval[[]string](w, `[...document.querySelectorAll('script, img, iframe, object, embed, form, base, link, foreignObject, use, image, [onerror], [onload], [src], [style]')].map((e) => e.outerHTML)`); len(got) > 0 {
			t.Errorf("%d pixels: %q", width, got)
		}
		if got := eval[bool](w, `document.body.textContent.includes('<script>alert(1)</script>')`); !got {
			t.Errorf("%d pixels: a name is not shown as it is", width)
		}
	}
}
