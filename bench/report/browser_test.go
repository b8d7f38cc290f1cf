package report_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"go.uber.org/goleak"

	"datamove.dev/test/chromium"
)

func TestMain(m *testing.M) {
	code := m.Run()
	chromium.Close()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// window is a page in the browser. What it complains about, and what it asks for beside the page itself, fails the test.
type window struct {
	t   testing.TB
	ctx context.Context
}

// watchdog complains of a name that ran, too.
const watchdog = chromium.Watchdog + `
window.alert = (x) => console.error('a name ran', x)`

// look opens a file, in a window of that width.
func look(t testing.TB, file string, width int64) *window {
	t.Helper()
	ctx, closeWindow := chromedp.NewContext(chromium.Need(t))
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
			if what := chromium.Complaint(m); what != "" {
				mistakes = append(mistakes, what)
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
	w.do(chromium.Call(network.Enable, network.EnableParams{}), chromium.Call(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchdog}),
		chromedp.EmulateViewport(width, 900), chromedp.Navigate(at))
	return w
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, chromium.Patience)
	defer cancel()
	ok(w.t, chromedp.Do(ctx, steps...))
}

// eval is the value of an expression in the page.
func eval[T any](w *window, format string, args ...any) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, chromium.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	ok(w.t, err)
	return value
}

// prefer makes the browser one whose user likes dark or light, or that prints.
func (w *window) prefer(scheme, medium string) {
	w.t.Helper()
	w.do(chromium.Call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium,
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// shot keeps a picture of a part of the page, which go test -artifacts leaves for people to see.
func (w *window) shot(name string, part chromedp.CSS) {
	w.t.Helper()
	picture, err := chromedp.Run(w.ctx, chromedp.Screenshot(part))
	ok(w.t, err)
	ok(w.t, os.WriteFile(filepath.Join(w.t.ArtifactDir(), name+".png"), picture, 0o600))
}
