package operate_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
)

const (
	// requireChromium makes tests that need a browser fail if Chromium is not installed.
	requireChromium = "REQUIRE_CHROMIUM"
	// screenshots is the environment variable with the folder for screenshots of pages.
	screenshots = "BREAKWATER_SCREENSHOTS"
)

// browser is a headless Chromium with one page.
type browser struct {
	*fixture
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// newBrowser starts a browser, or skips the test if Chromium is not installed.
func newBrowser(l *fixture) *browser {
	l.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	switch {
	case program == "" && os.Getenv(requireChromium) != "":
		l.Fatalf("no Chromium is installed, and %s is set", requireChromium)
	case program == "":
		l.Skip("no Chromium is installed, skipping the console (apt-get install chromium)")
	}
	binaries.LogVersionOnFailure(l, program)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1600, 1000),
		chromedp.UserDataDir(filepath.Join(l.TempDir(), "profile")), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.IgnoreCertErrors,
	)
	allocated, cancel := chromedp.NewExecAllocator(l.Context(), options...)
	l.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	l.Cleanup(cancel)
	b := &browser{fixture: l, ctx: ctx}
	l.Must(chromedp.Listen(ctx, b.recordError)) // it starts the browser
	_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	l.Must(err)
	return b
}

// recordError records errors of a page: exceptions in scripts, and log entries such as violations of its content security policy.
func (b *browser) recordError(event any) {
	text := ""
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError && !strings.Contains(e.Entry.Text, "net::ERR_") {
			text = e.Entry.Text
		}
	case *runtime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += ": " + e.ExceptionDetails.Exception.Description
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.errors = append(b.errors, text)
	}
}

// recordedErrors returns the errors of all pages so far.
func (b *browser) recordedErrors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}

// runActions runs actions with a timeout of one minute.
func (b *browser) runActions(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	evaluateAction(b, chromedp.Steps(actions...))
}

// evaluateAction runs an action with a timeout of one minute, and returns its result.
func evaluateAction[T any](b *browser, action chromedp.Action[T]) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatalf("%v; the page shows:\n%s", err, b.textOrError())
	}
	return got
}

// callCDP calls a command of the Chrome DevTools Protocol, and returns its result.
func callCDP[P, R any](b *browser, command cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	got, err := chromedp.Call(ctx, command, params)
	b.Must(err)
	return got
}

func (b *browser) textOrError() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// waitForText waits until the page shows all fragments.
func (b *browser) waitForText(fragments ...string) {
	b.Helper()
	b.Eventually(func() string {
		text := b.textOrError()
		for _, fragment := range fragments {
			if !strings.Contains(text, fragment) {
				return fmt.Sprintf("the page does not show %q:\n%s", fragment, text)
			}
		}
		return ""
	})
}

// evaluate returns the value of a JavaScript expression in the page.
func evaluate[T any](b *browser, expression string) T {
	b.Helper()
	return evaluateAction(b, chromedp.Evaluate[T](expression))
}

// viewport is a screen size and a color scheme.
type viewport struct {
	width, height int64
	isDark        bool
}

func (l viewport) String() string {
	scheme := "light"
	if l.isDark {
		scheme = "dark"
	}
	return fmt.Sprintf("%s-%d", scheme, l.width)
}

func viewports() []viewport {
	return []viewport{{1600, 900, false}, {1600, 900, true}, {360, 800, false}, {360, 800, true}}
}

// emulate sets the screen size and the color scheme of the page.
func (b *browser) emulate(l viewport) {
	b.Helper()
	scheme := "light"
	if l.isDark {
		scheme = "dark"
	}
	callCDP(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: l.height, DeviceScaleFactor: 1, Mobile: l.width < 500,
	})
	callCDP(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// screenshotPage writes a screenshot of the whole page, if the folder of screenshots is set.
func (b *browser) screenshotPage(name string) {
	b.Helper()
	b.writeScreenshot(name, chromedp.FullScreenshot(100))
}

// screenshotViewport writes a screenshot of the part of the page that is visible without scrolling.
func (b *browser) screenshotViewport(name string) {
	b.Helper()
	b.writeScreenshot(name, chromedp.CaptureScreenshot())
}

func (b *browser) writeScreenshot(name string, take chromedp.Action[[]byte]) {
	b.Helper()
	folder := os.Getenv(screenshots)
	if folder == "" {
		return
	}
	png := evaluateAction(b, take)
	b.Must(os.MkdirAll(folder, 0o750))
	b.Must(os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
}
