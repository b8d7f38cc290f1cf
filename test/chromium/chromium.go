// Package chromium has a browser for tests of pages: one for all tests of a package, each with windows of its own in it.
package chromium

import (
	"context"
	"fmt"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// Patience is how long a test waits for something that has to happen. It is long, because it only passes when a test fails: 100,000 tasks are read in more than a minute where the race
// detector is on and all cores are busy.
const Patience = 5 * time.Minute

// Watchdog is a script that complains of what the policy of a page has stopped. It has to run before anything else does.
const Watchdog = `addEventListener('securitypolicyviolation', (e) => console.error('violation of the policy:', e.violatedDirective, e.blockedURI, e.sample))`

var one struct {
	once  sync.Once
	ctx   context.Context
	close func()
	err   error
}

// Need skips a test where there is no Chromium. With what it returns chromedp.NewContext makes a window.
func Need(t testing.TB) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes a minute")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium: test/setup installs it")
	}
	one.once.Do(func() { one.ctx, one.close, one.err = start(program) })
	if one.err != nil {
		t.Fatal(one.err)
	}
	return one.ctx
}

// Close ends the browser, when all tests have ended.
func Close() {
	if one.close != nil {
		one.close()
	}
}

func start(program string) (context.Context, func(), error) {
	flags := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("force-prefers-reduced-motion", true))
	all, closeAll := chromedp.NewExecAllocator(context.Background(), flags...) // it has a fresh user data directory
	ctx, closeFirst := chromedp.NewContext(all)
	stop := func() { closeFirst(); closeAll() }
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, err
	}
	return ctx, stop, nil
}

// Call is a step that calls a method of the browser.
func Call[P, R any](method cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, method, params)
		return err
	})
}

// Complaint is what a message of the console says is wrong; "" is nothing.
func Complaint(m chromedp.ConsoleMessage) string {
	if m.IsException() || m.Type == chromedp.ConsoleError || m.Type == chromedp.ConsoleWarning || m.Type == "assert" {
		return fmt.Sprintf("%s (%s:%d)", m, m.URL, m.Line+1)
	}
	return ""
}
