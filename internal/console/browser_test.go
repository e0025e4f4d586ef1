package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/browser"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// createCell creates a Cell that has been heard of, with a condition.
func (s *testConsole) createCell(name, condition string, is metav1.ConditionStatus) *v1alpha1.Cell {
	s.Helper()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.must(s.Create(s.Context(), cell))
	s.Cleanup(func() { _ = s.Delete(s.Context(), cell) })
	s.setCondition(cell, condition, is)
	return cell
}

func (s *testConsole) setCondition(cell *v1alpha1.Cell, condition string, is metav1.ConditionStatus) {
	s.Helper()
	now := metav1.NowMicro()
	cell.Status.Aggregator.LastHeartbeat = &now
	cell.Status.Conditions = []metav1.Condition{{Type: condition, Status: is, Reason: "Test", LastTransitionTime: metav1.Now()}}
	s.must(s.Status().Update(s.Context(), cell))
}

// alarmsScript returns the alarms of the page about cells of a test and about a core, in order: what they are about, their badge, its color if that is the
// color of what is well, and the runbook.
const alarmsScript = `[...document.querySelectorAll(".alarms li")].map((alarm) => {
  const badge = alarm.querySelector(".badge");
  const well = document.createElement("span");
  well.className = "badge good";
  alarm.append(well);
  const isGreen = getComputedStyle(badge).color === getComputedStyle(well).color || getComputedStyle(badge).display === "none";
  well.remove();
  return [alarm.querySelector("a, b").textContent, badge.textContent, isGreen ? "green" : "not green", alarm.querySelector("a:last-child").href.split("/").pop()].join(" ");
})`

// In a browser, the first page shows each state in which removals are not checked, are denied, or are decided by old counts, worst first and in another
// color than what is well, and stops showing it without a reload.
func TestBrowserShowsAlarms(t *testing.T) {
	w := newWest(t, "night")
	s := newTestConsole(t, func(o *Options) {
		o.Core, o.Others, o.ProbeInterval = "east", map[string]*rest.Config{"west": w.config}, 50*time.Millisecond
	})
	b := browser.New(t)
	name := func(cell string) string { return s.namespace + "-" + cell }
	open := s.createCell(name("open"), v1alpha1.ConditionGuarded, metav1.ConditionFalse)
	s.createCell(name("silent"), v1alpha1.ConditionReady, metav1.ConditionFalse)
	s.createCell(name("unread"), v1alpha1.ConditionConnected, metav1.ConditionFalse)
	s.createCell(name("well"), v1alpha1.ConditionGuarded, metav1.ConditionTrue)
	fresh := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name("new")}}
	s.must(s.Create(s.Context(), fresh))
	t.Cleanup(func() { _ = s.Delete(s.Context(), fresh) })
	w.wire.setCut(true)

	b.Run(chromedp.Navigate(s.base+"/"), chromedp.SetValue("#token", s.token("all", []string{""}, allRules()...)), chromedp.Submit("#token"))
	of := func(cell string) string { return "east/" + name(cell) }
	expect := func(want ...string) {
		t.Helper()
		testplane.Eventually(t, func() string {
			var got []string
			for _, alarm := range browser.Evaluate[[]string](b, alarmsScript) {
				if strings.Contains(alarm, s.namespace) || strings.HasPrefix(alarm, "west ") { // other tests have cells, too
					got = append(got, alarm)
				}
			}
			return cmp.Diff(want, got)
		})
	}
	away := "west core unreachable not green core-down.md"
	silent := []string{of("new") + " never reported not green cell-silent.md", of("silent") + " stale not green cell-silent.md"}
	unread := of("unread") + " guard unknown not green cell-guard-unknown.md"
	expect(of("open")+" not guarded not green cell-unguarded.md", away, silent[0], silent[1], unread)
	b.WaitForText("Removals in "+name("open")+" are not checked", "All removals of protected pods in "+name("new")+" are denied", "Nothing is known of core west now")
	b.ScreenshotPage("console-alarms")

	b.Run(chromedp.Evaluate[chromedp.Void](`window.untouched = true`))
	s.setCondition(open, v1alpha1.ConditionGuarded, metav1.ConditionTrue)
	w.wire.setCut(false)
	expect(silent[0], silent[1], unread)
	if !browser.Evaluate[bool](b, `window.untouched === true`) {
		t.Error("the page was reloaded")
	}
	if complaints := b.Errors(); len(complaints) > 0 {
		t.Error(fmt.Sprint("the browser reports errors: ", complaints))
	}
}

// A proxy in front of the console sends the token of the user with each request. The page stays live when the proxy renews it, without a session.
func TestBrowserBehindProxyStaysLive(t *testing.T) {
	s := newTestConsole(t)
	b := browser.New(t)
	web := s.createProtector(s.namespace, "web", 12, 10)
	first, second := s.token("first", []string{""}, allRules()...), s.token("second", []string{""}, allRules()...)
	var token atomic.Value
	token.Store(first)
	console, err := url.Parse(s.base)
	s.must(err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Transport: httpClient().Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(console)
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token.Load().(string))
		},
		ModifyResponse: func(r *http.Response) error {
			if cookies := r.Cookies(); len(cookies) > 0 {
				t.Errorf("%s sets cookies %v, want none", r.Request.URL.Path, cookies)
			}
			return nil
		},
	})
	t.Cleanup(proxy.Close)
	b.Run(chromedp.Navigate(proxy.URL + "/protectors/" + s.namespace + "/web"))
	b.WaitForText("2 allowed now", "system:serviceaccount:"+s.namespace+":first", "live")
	b.Run(chromedp.Evaluate[chromedp.Void](`window.untouched = true`))

	revoke := func(name string) {
		s.must(s.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}))
	}
	token.Store(second)
	revoke("first")
	testplane.Eventually(t, func() string {
		if code, _, _ := s.get("/", first); code != http.StatusUnauthorized {
			return fmt.Sprintf("the first token: code %d, want 401", code)
		}
		return ""
	})
	s.setAvailable(web, 11)
	b.WaitForText("1 allowed now", "live")
	revoke("second")
	b.WaitForText("not live", "Reload the page to sign in")
	if !browser.Evaluate[bool](b, `window.untouched === true`) {
		t.Error("the page was reloaded")
	}
}
