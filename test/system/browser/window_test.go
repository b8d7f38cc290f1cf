package browser

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/test/chromium"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	rig.Be(rig.Commands{"datamove": root.Main, "datamoved": daemon.Main})
	code := m.Run()
	chromium.Close()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	rig.End(code)
}

// window is a page in the browser. What it complains about fails the test.
type window struct {
	ctx   context.Context
	close func() // before the end of the test

	mu       sync.Mutex
	t        testing.TB // that looks at it; guarded by mu for what listens
	mistakes []string   // that the browser told of; guarded by mu
	away     bool       // a test sends the service away: that the network complains is right; guarded by mu
}

// newWindow opens one. It is blank.
func newWindow(t testing.TB) *window {
	t.Helper()
	ctx, closeWindow := chromedp.NewContext(chromium.Need(t))
	w := &window{t: t, ctx: ctx, close: closeWindow}
	console := chromedp.Console(ctx)
	heard := make(chan struct{})
	go func() { defer close(heard); w.listen(console) }()
	t.Cleanup(func() {
		closeWindow()
		<-heard
		for _, m := range w.mistakes {
			t.Errorf("the browser complains: %s", m)
		}
	})
	w.before(chromium.Watchdog)
	w.before(`window.pause = ((timeout) => (ms) => new Promise((resolve) => timeout(resolve, ms)))(setTimeout)`) // by the clock that no script has made faster
	return w
}

// before has a script run before each page that is opened.
func (w *window) before(script string) {
	w.t.Helper()
	w.do(chromium.Call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}))
}

// open opens an address, and leaves what was open.
func (w *window) open(url string, width, height int64) {
	w.t.Helper()
	w.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
}

// look opens a path of a site, in a window of that size, where scripts run before the page does.
func (s *site) look(path string, width, height int64, scripts ...string) *window {
	s.t.Helper()
	w := newWindow(s.t)
	if s.mayFail {
		w.mayFail()
	}
	for _, script := range scripts {
		w.before(script)
	}
	w.open(s.url+path, width, height)
	return w
}

// leave leaves the page that is open.
func (w *window) leave() {
	w.t.Helper()
	w.do(chromedp.Navigate("about:blank"))
}

// shared is a test in a window that others use, too: that takes a fraction of one of its own.
type shared struct {
	name string
	test func(t *testing.T, w *window)
}

func (w *window) during(t *testing.T, one shared) {
	t.Helper()
	all := w.t
	t.Run(one.name, func(t *testing.T) {
		w.looksAt(t)
		defer w.looksAt(all)
		one.test(t, w)
	})
}

// inTurn has tests use one window, each with a site of its own that it opens.
func inTurn(t *testing.T, w *window, tests ...shared) {
	t.Helper()
	for _, one := range tests {
		test := one.test
		one.test = func(t *testing.T, w *window) {
			defer w.leave() // before the site goes
			test(t, w)
		}
		w.during(t, one)
	}
}

func (w *window) looksAt(t testing.TB) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = t
}

func (w *window) listen(console func(func(chromedp.ConsoleMessage, error) bool)) {
	for m, err := range console {
		if err != nil {
			return // the window is closed
		}
		w.mu.Lock()
		if what := chromium.Complaint(m); what != "" && !(w.away && m.Source == "network") {
			w.mistakes = append(w.mistakes, w.t.Name()+": "+what)
		}
		w.mu.Unlock()
	}
}

// mayFail lets requests of the page fail from now on.
func (w *window) mayFail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = true
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, chromium.Patience)
	defer cancel()
	must.Do(w.t, chromedp.Do(ctx, steps...))
}

// eval is the value of an expression in the page; of a promise, what it becomes.
func eval[T any](w *window, format string, args ...any) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, chromium.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	if errors.Is(err, context.DeadlineExceeded) {
		w.shot("late")
		text, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string](`document.body.innerText`))
		w.t.Fatalf("this did not come true in %v: %s\nThe page says:\n%.4000s", chromium.Patience, fmt.Sprintf(format, args...), text)
	}
	must.Do(w.t, err)
	return value
}

// tools are what tests ask a page with: they live in the browser.
const tools = `(() => {
	const all = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility())
	const text = (selector) => all(selector)[0]?.innerText.trim()
	const row = (id) => Object.fromEntries([...document.getElementById('row-' + id)?.children ?? []].map((c) => [c.className, c.innerText]))
	const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
	const painted = async () => { await frame(); await frame() }
	const until = async (f) => { for (;;) { const v = await f(); if (v) return v; await pause(50) } } // each frame would be drawn
	return async (f) => f({all, text, row, frame, painted, until})
})()`

// ask calls a function of the tools: ask[string](w, "({text}) => text('h2')").
func ask[T any](w *window, format string, args ...any) T {
	w.t.Helper()
	return eval[T](w, "%s", tools+"("+fmt.Sprintf(format, args...)+")")
}

// wait waits until an expression of the tools is true.
func (w *window) wait(format string, args ...any) {
	w.t.Helper()
	ask[bool](w, "async ({all, text, row, until}) => Boolean(await until(() => %s))", fmt.Sprintf(format, args...))
}

// says waits until the first visible element of a selector has a text.
func (w *window) says(selector, want string) {
	w.t.Helper()
	w.wait("text(%q) === %q", selector, want)
}

// click clicks what can be seen.
func (w *window) click(selector string) {
	w.t.Helper()
	w.wait("all(%q).length", selector)
	w.do(chromedp.Click(selector, chromedp.NodeVisible))
}

// key presses a key.
func (w *window) key(keys string) {
	w.t.Helper()
	w.do(chromedp.KeyEvent(keys))
}

// slash presses a key with a letter, as a keyboard does: the letter comes only if the
// page lets it.
func (w *window) slash() {
	w.t.Helper()
	w.do(chromium.Call(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Text: "/"}),
		chromium.Call(input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyUp, Key: "/"}))
}

// point moves the mouse.
func (w *window) point(x, y float64) {
	w.t.Helper()
	w.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
}

// prefer makes the browser one whose user likes dark or light, or that prints.
func (w *window) prefer(scheme, medium string) {
	w.t.Helper()
	w.do(chromium.Call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// shot keeps a picture of the page, which go test -artifacts leaves for people to see.
func (w *window) shot(name string) {
	w.t.Helper()
	w.keep(name, chromedp.CaptureScreenshot())
}

// keep keeps any picture.
func (w *window) keep(name string, of chromedp.Action[[]byte]) {
	w.t.Helper()
	if f := flag.Lookup("test.artifacts"); f == nil || f.Value.String() != "true" {
		return // nothing would be left of it
	}
	picture := must.Get(chromedp.Run(w.ctx, of))(w.t)
	must.Do(w.t, os.WriteFile(filepath.Join(w.t.ArtifactDir(), strings.ReplaceAll(name, " ", "-")+".png"), picture, 0o600))
}
