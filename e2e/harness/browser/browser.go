// Package browser drives a headless Chromium in tests.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/breakwater-k8s/breakwater/e2e/harness/binaries"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

const (
	// requireChromium makes tests that need a browser fail if Chromium is not installed.
	requireChromium = "REQUIRE_CHROMIUM"
	// Screenshots is the environment variable with the folder for screenshots of pages.
	Screenshots = "BREAKWATER_SCREENSHOTS"
)

// Browser is a headless Chromium with one page. Its methods end the test if they fail.
type Browser struct {
	t   testing.TB
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// New starts a browser that ends with the test, or skips the test if Chromium is not installed.
func New(t testing.TB) *Browser {
	t.Helper()
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
			break
		}
	}
	switch {
	case program == "" && os.Getenv(requireChromium) != "":
		t.Fatalf("no Chromium is installed, and %s is set", requireChromium)
	case program == "":
		t.Skip("no Chromium is installed, skipping the console (apt-get install chromium)")
	}
	binaries.LogVersionOnFailure(t, program)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1600, 1000),
		chromedp.UserDataDir(filepath.Join(t.TempDir(), "profile")), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.IgnoreCertErrors,
	)
	allocated, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(cancel)
	b := &Browser{t: t, ctx: ctx}
	b.must(chromedp.Listen(ctx, b.recordError)) // it starts the browser
	_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	b.must(err)
	return b
}

func (b *Browser) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// recordError records errors of a page: exceptions in scripts, and log entries such as violations of its content security policy.
func (b *Browser) recordError(event any) {
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

// Errors returns the errors of all pages so far.
func (b *Browser) Errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.errors
}

// Run runs actions with a timeout of one minute.
func (b *Browser) Run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	EvaluateAction(b, chromedp.Steps(actions...))
}

// EvaluateAction runs an action with a timeout of one minute, and returns its result.
func EvaluateAction[T any](b *Browser, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	got, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%v; the page shows:\n%s", err, b.textOrError())
	}
	return got
}

// Call calls a command of the Chrome DevTools Protocol, and returns its result.
func Call[P, R any](b *Browser, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	got, err := chromedp.Call(ctx, command, params)
	b.must(err)
	return got
}

func (b *Browser) textOrError() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`))
	if err != nil {
		return err.Error()
	}
	return text
}

// WaitForText waits up to a minute until the page shows all fragments.
func (b *Browser) WaitForText(fragments ...string) {
	b.t.Helper()
	testplane.Eventually(b.t, func() string {
		text := b.textOrError()
		for _, fragment := range fragments {
			if !strings.Contains(text, fragment) {
				return fmt.Sprintf("the page does not show %q:\n%s", fragment, text)
			}
		}
		return ""
	})
}

// Evaluate returns the value of a JavaScript expression in the page.
func Evaluate[T any](b *Browser, expression string) T {
	b.t.Helper()
	return EvaluateAction(b, chromedp.Evaluate[T](expression))
}

// Viewport is a screen size and a color scheme.
type Viewport struct {
	Width, Height int64
	IsDark        bool
}

func (l Viewport) String() string {
	scheme := "light"
	if l.IsDark {
		scheme = "dark"
	}
	return fmt.Sprintf("%s-%d", scheme, l.Width)
}

// Viewports returns a large and a small screen, in both color schemes.
func Viewports() []Viewport {
	return []Viewport{{1600, 900, false}, {1600, 900, true}, {360, 800, false}, {360, 800, true}}
}

// Emulate sets the screen size and the color scheme of the page.
func (b *Browser) Emulate(l Viewport) {
	b.t.Helper()
	scheme := "light"
	if l.IsDark {
		scheme = "dark"
	}
	Call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.Width, Height: l.Height, DeviceScaleFactor: 1, Mobile: l.Width < 500,
	})
	Call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// ScreenshotPage writes a screenshot of the whole page, if the folder of screenshots is set.
func (b *Browser) ScreenshotPage(name string) {
	b.t.Helper()
	b.writeScreenshot(name, chromedp.FullScreenshot(100))
}

// ScreenshotViewport writes a screenshot of the part of the page that is visible without scrolling.
func (b *Browser) ScreenshotViewport(name string) {
	b.t.Helper()
	b.writeScreenshot(name, chromedp.CaptureScreenshot())
}

func (b *Browser) writeScreenshot(name string, take chromedp.Action[[]byte]) {
	b.t.Helper()
	folder := os.Getenv(Screenshots)
	if folder == "" {
		return
	}
	png := EvaluateAction(b, take)
	b.must(os.MkdirAll(folder, 0o750))
	b.must(os.WriteFile(filepath.Join(folder, name+".png"), png, 0o600))
}
