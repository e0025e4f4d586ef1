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
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// startConsole runs a console of the core, and returns its address.
func startConsole(l *lab) string {
	l.Helper()
	certFile, keyFile, _ := testplane.Certificate(l)
	address := testplane.FreeAddress(l)
	processes := install.NewProcesses(l.Dir(), 0)
	l.Cleanup(processes.End)
	l.Must(processes.Start(l.Context(), "console", l.Program(), "console", "--kubeconfig="+l.Federation().Cores()[0].Kubeconfig(),
		"--listen="+address, "--tls-cert="+certFile, "--tls-key="+keyFile, "--core-name="+l.Core.Name, "--reviews-for=2s"))
	return "https://" + address
}

// viewer makes a user who may see everything, and returns a token of theirs.
func viewer(l *lab) string {
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

// rage removes pods until stop, whatever the answer, with a pause after each.
func rage(l *lab, pause time.Duration) (stop func()) {
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

func TestTheConsoleShowsAStorm(t *testing.T) {
	claim(t, "who signs in sees the budget fall and refusals appear, by keyboard, in the light and in the dark", func(l *lab) {
		b := newBrowser(l)
		console := startConsole(l)
		l.Protect(30)
		half, unknown := intstr.FromString("50%"), &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "batch"}}
		unknown.Spec.MinAvailable, unknown.Spec.Selector = &half, &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "batch"}}
		l.Must(l.Core.Create(l.Context(), unknown))
		l.DeployBare(l.App(40))

		token := viewer(l)
		b.do(chromedp.Navigate(console + "/protectors/" + l.Namespace + "/web"))
		b.await("Sign in", "kubectl create token")
		b.wantAccessible("sign-in")
		b.picture("sign-in")
		b.do(chromedp.SendKeys("#token", "not a token"), chromedp.Submit("#token"))
		b.await("does not accept this token")
		b.do(chromedp.SetValue("#token", token), chromedp.Submit("#token"))
		b.await(l.Namespace+"/web", "10 may go now", "spec.minAvailable is 30", "live") // the page that was asked for
		b.do(chromedp.Evaluate[chromedp.Void](`window.untouched = true`))

		pause := 20 * time.Millisecond
		if os.Getenv(screenshots) != "" {
			pause = 700 * time.Millisecond // so that a timeline has something to show
		}
		stop := rage(l, pause)
		b.await("0 may go now", "at floor", "refused lately", "NoBudget", "would have fewer pods available than its floor")
		if !eval[bool](b, `window.untouched === true`) {
			t.Error("the page was loaded anew")
		}
		b.wantScreenReadersAreTold()
		b.prolong(l)
		for _, look := range looks() {
			b.as(look)
			b.wantAccessible("protector " + look.String())
			b.picture("protector-" + look.String())
		}
		b.as(look{1000, 700, false})
		b.pictureOfScreen("console-protector")
		stop()
		b.walk(l)
		for _, page := range []string{"", "cells"} {
			b.do(chromedp.Navigate(console + "/" + page))
			for _, look := range looks() {
				b.as(look)
				b.await("live", l.Cells[0].Name)
				b.wantAccessible(page + " " + look.String())
				b.picture("page-" + page + "-" + look.String())
			}
			b.as(look{1000, 480, true})
			b.pictureOfScreen("console-" + cmp.Or(page, "fleet"))
		}
		b.as(looks()[0])
		b.wantSignedOut(console)
		for _, complaint := range b.complained() {
			if !strings.Contains(complaint, "401") { // of the wrong token
				t.Errorf("the page complains: %s", complaint)
			}
		}
	})
}

// prolong makes a longer storm of it, for pictures: pods come back, and are removed again.
func (b *browser) prolong(l *lab) {
	b.Helper()
	if os.Getenv(screenshots) == "" {
		return
	}
	for i := range 3 {
		again := l.App(9)
		again.Instance = fmt.Sprint("again-", i)
		l.Must(again.DeployBare(l.Context(), l.Cells))
		b.Eventually(func() string {
			if got := l.Protector().Status.Summary.Available; got < 34 {
				return fmt.Sprintf("%d pods are available", got)
			}
			return ""
		})
		b.Eventually(func() string {
			if got := l.Protector().Status.Summary.Available; got > 30 {
				return fmt.Sprintf("%d pods are available", got)
			}
			return ""
		})
	}
}

// wantScreenReadersAreTold waits for what is said to those who do not see the page.
func (b *browser) wantScreenReadersAreTold() {
	b.Helper()
	b.Eventually(func() string {
		if said := eval[string](b, `document.getElementById("status").textContent`); !strings.Contains(said, "at floor") {
			return fmt.Sprintf("they are told %q", said)
		}
		return ""
	})
}

// walk goes from a protector to the fleet and back by the keyboard alone, and sees where it is.
func (b *browser) walk(l *lab) {
	b.Helper()
	b.as(looks()[0])
	press := func(where string) {
		b.Helper()
		for range 40 {
			b.do(chromedp.KeyEvent(keys.Tab))
			focus := eval[string](b, `document.activeElement.getAttribute("href") + (document.activeElement.matches(":focus-visible") && getComputedStyle(document.activeElement).outlineStyle)`)
			if !strings.HasSuffix(focus, "solid") {
				b.Errorf("nobody sees where the focus is: %s", focus)
			}
			if strings.TrimSuffix(focus, "solid") == where {
				b.do(chromedp.KeyEvent(keys.Enter))
				return
			}
		}
		b.Fatalf("the keyboard does not lead to %s", where)
	}
	b.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	press("/")
	b.await("Fleet", "batch", "web")
	press("/protectors/" + l.Namespace + "/web")
	b.await("Where the floor comes from")
}

// wantSignedOut signs out, and comes in no more with what the browser has kept.
func (b *browser) wantSignedOut(console string) {
	b.Helper()
	cookies := call(b, network.GetCookies, network.GetCookiesParams{}).Cookies
	if len(cookies) != 1 || !cookies[0].HTTPOnly || !cookies[0].Secure || cookies[0].SameSite != network.CookieSameSiteStrict {
		b.Errorf("cookies %+v", cookies)
	}
	b.do(chromedp.Click(`form[action="/sign-out"] button`))
	b.await("Sign in")
	b.do(chromedp.Navigate(console + "/"))
	b.await("Sign in")
}
