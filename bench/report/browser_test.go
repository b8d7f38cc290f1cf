package report_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"
)

// One browser is enough for all tests; each has a window of its own in it.
var browser struct {
	once  sync.Once
	ctx   context.Context
	close func()
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if browser.close != nil {
		browser.close()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// patience is how long a test waits for something that has to happen.
const patience = 5 * time.Minute

func startBrowser(program string) (context.Context, func(), error) {
	flags := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-component-update", true))
	all, closeAll := chromedp.NewExecAllocator(context.Background(), flags...) // it has a fresh user data directory
	ctx, closeFirst := chromedp.NewContext(all)
	stop := func() { closeFirst(); closeAll() }
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// needBrowser skips a test where there is no Chromium.
func needBrowser(t testing.TB) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes a minute")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: test/setup installs it")
	}
	browser.once.Do(func() { browser.ctx, browser.close, browser.err = startBrowser(program) })
	ok(t, browser.err)
	return browser.ctx
}

// window is a page in the browser. What it complains about, and what it asks for beside the page itself, fails the test.
type window struct {
	t   testing.TB
	ctx context.Context
}

// watchdog notes what the policy of the page has stopped, before anything else runs.
const watchdog = `addEventListener('securitypolicyviolation', (e) => console.error('violation of the policy:', e.violatedDirective, e.blockedURI, e.sample))
window.alert = (x) => console.error('a name ran', x)`

// look opens a file, in a window of that width.
func look(t testing.TB, file string, width int64) *window {
	t.Helper()
	ctx, closeWindow := chromedp.NewContext(needBrowser(t))
	w := &window{t, ctx}
	at := (&url.URL{Scheme: "file", Path: file}).String()
	console, requests := chromedp.Console(ctx), chromedp.Events(ctx, network.RequestWillBeSent)
	var heard sync.WaitGroup
	var mistakes []string // of the console
	asked := 0            // for the page itself
	heard.Go(func() {
		for m, err := range console {
			if err != nil {
				return // the window is closed
			}
			if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.Type == "assert" {
				mistakes = append(mistakes, fmt.Sprintf("%s (%s:%d)", m, m.URL, m.Line+1))
			}
		}
	})
	var away []string // requests to anything else
	heard.Go(func() {
		for r, err := range requests {
			if err != nil {
				return
			}
			if asked++; r.Request.URL != at {
				away = append(away, r.Request.URL)
			}
		}
	})
	t.Cleanup(func() {
		closeWindow()
		heard.Wait()
		for _, m := range mistakes {
			t.Errorf("the browser complains: %s", m)
		}
		if len(away) > 0 || asked == 0 {
			t.Errorf("%d requests, these to elsewhere: %q", asked, away)
		}
	})
	w.do(call(network.Enable, network.EnableParams{}), call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchdog}),
		chromedp.EmulateViewport(width, 900), chromedp.Navigate(at))
	return w
}

// call is a step that calls a method of the browser.
func call[P, R any](method cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, method, params)
		return err
	})
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	ok(w.t, chromedp.Do(ctx, steps...))
}

// eval is the value of an expression in the page.
func eval[T any](w *window, format string, args ...any) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	ok(w.t, err)
	return value
}

// prefer makes the browser one whose user likes dark or light, or that prints.
func (w *window) prefer(scheme, medium string) {
	w.t.Helper()
	w.do(call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// shot keeps a picture of a part of the page, which go test -artifacts leaves for people to see.
func (w *window) shot(name string, part chromedp.CSS) {
	w.t.Helper()
	picture, err := chromedp.Run(w.ctx, chromedp.Screenshot(part))
	ok(w.t, err)
	ok(w.t, os.WriteFile(filepath.Join(w.t.ArtifactDir(), name+".png"), picture, 0o600))
}
