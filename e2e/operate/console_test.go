package operate_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	keys "github.com/chromedp/chromedp/kb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/browser"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// consoleBrowser is a browser that shows the console of a federation.
type consoleBrowser struct {
	*fixture
	*browser.Browser
}

// startConsole runs a console for the core, and returns its address.
func startConsole(l *fixture) string {
	l.Helper()
	certFile, keyFile, _ := testplane.Certificate(l)
	address := testplane.FreeAddress(l)
	processes := install.NewProcesses(l.Dir(), 0)
	l.Cleanup(processes.End)
	l.Must(processes.Start(l.Context(), "console", l.Program(), "console", "--kubeconfig="+l.Federation().Cores()[0].Kubeconfig(),
		"--listen="+address, "--tls-cert="+certFile, "--tls-key="+keyFile, "--core-name="+l.Core.Name, "--reviews-for=2s"))
	return "https://" + address
}

// createViewerToken creates a ServiceAccount that may list all objects that the console shows, and returns a token of it.
func createViewerToken(l *fixture) string {
	l.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "viewer"}}
	l.Must(l.Core.Create(l.Context(), account))
	name := metav1.ObjectMeta{Name: l.Namespace + "-viewer"}
	list := []string{"list"}
	l.Must(l.Core.Create(l.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors", "cells"}, Verbs: list},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: list},
	}}))
	l.Must(l.Core.Create(l.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: l.Namespace, Name: account.Name}},
	}))
	request := &authenticationv1.TokenRequest{}
	l.Must(l.Core.SubResource("token").Create(l.Context(), account, request))
	return request.Status.Token
}

// removeContinuously deletes random pods in all cells until stop is called. It ignores denials, and pauses after each request.
func removeContinuously(l *fixture, pause time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(l.Context())
	var raging sync.WaitGroup
	for _, cell := range l.Cells {
		pods := cell.Client.CoreV1().Pods(l.Namespace)
		raging.Go(func() {
			for ctx.Err() == nil {
				list, err := pods.List(ctx, metav1.ListOptions{})
				if err == nil && len(list.Items) > 0 {
					_ = pods.Delete(ctx, list.Items[rand.N(len(list.Items))].Name, metav1.DeleteOptions{})
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	return func() {
		cancel()
		raging.Wait()
	}
}

func TestConsoleShowsStorm(t *testing.T) {
	claim(t, "a signed-in user sees the budget fall and denials appear, by keyboard, in light and dark mode", func(l *fixture) {
		b := &consoleBrowser{l, browser.New(l)}
		console := startConsole(l)
		l.CreateProtector(30)
		half, unknown := intstr.FromString("50%"), &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "batch"}}
		unknown.Spec.MinAvailable, unknown.Spec.Selector = &half, &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "batch"}}
		l.Must(l.Core.Create(l.Context(), unknown))
		l.CreateBarePods(l.Application(40))

		token := createViewerToken(l)
		b.Run(chromedp.Navigate(console + "/protectors/" + l.Namespace + "/web"))
		b.WaitForText("Sign in", "kubectl create token")
		b.expectAccessible("sign-in")
		b.ScreenshotPage("sign-in")
		b.Run(chromedp.SendKeys("#token", "not a token"), chromedp.Submit("#token"))
		b.WaitForText("rejected this token")
		b.Run(chromedp.SetValue("#token", token), chromedp.Submit("#token"))
		b.WaitForText(l.Namespace+"/web", "10 allowed now", "minAvailable 30", "live") // the page that the browser requested before it signed in
		b.Run(chromedp.Evaluate[chromedp.Void](`window.untouched = true`))

		pause := 20 * time.Millisecond
		if os.Getenv(browser.Screenshots) != "" {
			pause = 700 * time.Millisecond // so that screenshots show a longer history
		}
		stop := removeContinuously(l, pause)
		b.WaitForText("0 allowed now", "at floor", "recently refused", "NoBudget", "would have fewer pods available than its floor")
		if !browser.Evaluate[bool](b.Browser, `window.untouched === true`) {
			t.Error("the page was reloaded")
		}
		b.waitForLiveRegion()
		b.prolongStorm(l)
		for _, look := range browser.Viewports() {
			b.Emulate(look)
			b.expectAccessible("protector " + look.String())
			b.ScreenshotPage("protector-" + look.String())
		}
		b.Emulate(browser.Viewport{Width: 1000, Height: 700, IsDark: false})
		b.ScreenshotViewport("console-protector")
		stop()
		b.navigateByKeyboard(l)
		for _, page := range []string{"", "cells"} {
			b.Run(chromedp.Navigate(console + "/" + page))
			for _, look := range browser.Viewports() {
				b.Emulate(look)
				b.WaitForText("live", l.Cells[0].Name)
				b.expectAccessible(page + " " + look.String())
				b.ScreenshotPage("page-" + page + "-" + look.String())
			}
			b.Emulate(browser.Viewport{Width: 1000, Height: 480, IsDark: true})
			b.ScreenshotViewport("console-" + cmp.Or(page, "fleet"))
		}
		b.Emulate(browser.Viewports()[0])
		b.expectSignedOut(console)
		for _, complaint := range b.Errors() {
			if !strings.Contains(complaint, "401") { // the wrong token causes it
				t.Errorf("the browser reports an error: %s", complaint)
			}
		}
	})
}

// prolongStorm makes the storm longer for screenshots: it creates pods again, and waits until they are removed.
func (b *consoleBrowser) prolongStorm(l *fixture) {
	b.Helper()
	if os.Getenv(browser.Screenshots) == "" {
		return
	}
	for i := range 3 {
		again := l.Application(9)
		again.Instance = fmt.Sprint("again-", i)
		l.Must(again.DeployBare(l.Context(), l.Cells))
		b.Eventually(func() string {
			if got := l.GetProtector().Status.Summary.Available; got < 34 {
				return fmt.Sprintf("%d pods are available", got)
			}
			return ""
		})
		b.Eventually(func() string {
			if got := l.GetProtector().Status.Summary.Available; got > 30 {
				return fmt.Sprintf("%d pods are available", got)
			}
			return ""
		})
	}
}

// waitForLiveRegion waits until screen readers are notified that the protector is at its floor.
func (b *consoleBrowser) waitForLiveRegion() {
	b.Helper()
	b.Eventually(func() string {
		if output := browser.Evaluate[string](b.Browser, `document.getElementById("status").textContent`); !strings.Contains(output, "at floor") {
			return fmt.Sprintf("screen readers announce %q", output)
		}
		return ""
	})
}

// navigateByKeyboard navigates from a protector to the fleet and back with the keyboard only, and checks that the focus is visible.
func (b *consoleBrowser) navigateByKeyboard(l *fixture) {
	b.Helper()
	b.Emulate(browser.Viewports()[0])
	press := func(where string) {
		b.Helper()
		for range 40 {
			b.Run(chromedp.KeyEvent(keys.Tab))
			focus := browser.Evaluate[string](b.Browser, `document.activeElement.getAttribute("href") + (document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle)`)
			if !strings.HasSuffix(focus, "solid") {
				b.Errorf("the focus is not visible: %s", focus)
			}
			if strings.TrimSuffix(focus, "solid") == where {
				b.Run(chromedp.KeyEvent(keys.Enter))
				return
			}
		}
		b.Fatalf("the keyboard cannot reach %s", where)
	}
	b.Run(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	press("/")
	b.WaitForText("Fleet", "batch", "web")
	press("/protectors/" + l.Namespace + "/web")
	b.WaitForText("Where the floor comes from")
}

// expectSignedOut checks the cookie, signs out, and checks that the browser cannot open the console again without a token.
func (b *consoleBrowser) expectSignedOut(console string) {
	b.Helper()
	cookies := browser.Call(b.Browser, network.GetCookies, network.GetCookiesParams{}).Cookies
	if len(cookies) != 1 || !cookies[0].HTTPOnly || !cookies[0].Secure || cookies[0].SameSite != network.CookieSameSiteStrict {
		b.Errorf("cookies %+v", cookies)
	}
	b.Run(chromedp.Click(`form[action="/sign-out"] button`))
	b.WaitForText("Sign in")
	b.Run(chromedp.Navigate(console + "/"))
	b.WaitForText("Sign in")
}
