package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

// deleteRoleBinding deletes a user's role binding in the namespace.
func (s *testConsole) deleteRoleBinding(name string) {
	s.Helper()
	s.must(s.Delete(s.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}))
}

// signIn signs in with a token, and returns the cookie and the redirect location.
func (s *testConsole) signIn(token, next string, change ...func(*http.Request)) (code int, cookie, to string) {
	s.Helper()
	code, _, header := s.send(http.MethodPost, "/sign-in", url.Values{"token": {token}, "next": {next}}, change...)
	cookie, _, _ = strings.Cut(header.Get("Set-Cookie"), ";")
	return code, cookie, header.Get("Location")
}

func cookie(value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Cookie", value) }
}

func TestSessionLastsUntilSignOut(t *testing.T) {
	s := newTestConsole(t)
	s.createProtector(s.namespace, "web", 12, 10)
	token := s.token("all", []string{""}, allRules()...)
	s.awaitPage("/", token, ">web<")
	path := "/protectors/" + s.namespace + "/web?window=1h"
	if code, _, header := s.get(path, ""); code != http.StatusSeeOther || header.Get("Location") != "/sign-in?next="+url.QueryEscape(path) {
		t.Errorf("code %d, to %s", code, header.Get("Location"))
	}
	if code, id, _ := s.signIn("wrong", "/"); code != http.StatusUnauthorized || id != "" {
		t.Errorf("sign-in with a wrong token: code %d and cookie %q", code, id)
	}
	code, id, to := s.signIn(" "+token+"\n", path)
	if code != http.StatusSeeOther || to != path {
		t.Fatalf("code %d, to %s", code, to)
	}
	if code, body, _ := s.get(path, "", cookie(id)); code != http.StatusOK || !strings.Contains(body, "Sign out") || strings.Contains(body, token) {
		t.Errorf("code %d: %s", code, body)
	}
	stream, _ := s.open(path, cookie(id))
	if _, data, err := stream.next("page"); err != nil || !strings.Contains(data, ">12<") {
		t.Fatalf("%v: %s", err, data)
	}
	if code, _, header := s.send(http.MethodPost, "/sign-out", nil, cookie(id)); code != http.StatusSeeOther || !strings.Contains(header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("code %d, %s", code, header)
	}
	if event, _, err := stream.next("end"); err != nil {
		t.Errorf("stream continues after the session ended: %s, %v", event, err)
	}
	if code, _, _ := s.get(path, "", cookie(id)); code != http.StatusSeeOther {
		t.Errorf("session still exists: code %d", code)
	}
}

func TestRevokedTokenEndsStreams(t *testing.T) {
	s := newTestConsole(t)
	s.createProtector(s.namespace, "web", 12, 10)
	token := s.token("all", []string{""}, allRules()...)
	s.awaitPage("/", token, ">web<")
	_, id, _ := s.signIn(token, "/")
	byCookie, _ := s.open("/", cookie(id))
	byHeader, _ := s.open("/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) })
	for _, stream := range []*stream{byCookie, byHeader} {
		if _, _, err := stream.next("page"); err != nil {
			t.Fatal(err)
		}
	}
	s.must(s.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "all"}}))
	for _, stream := range []*stream{byCookie, byHeader} {
		if event, _, err := stream.next("end"); err != nil {
			t.Errorf("the last event is %s: %v", event, err)
		}
	}
	if code, _, _ := s.get("/", "", cookie(id)); code != http.StatusSeeOther {
		t.Errorf("session still exists: code %d", code)
	}
}

func TestStreamSendsOnlyChanges(t *testing.T) {
	s := newTestConsole(t, func(o *Options) { o.StreamsEach = 2 })
	p := s.createProtector(s.namespace, "web", 12, 10)
	token := s.token("some", []string{s.namespace}, allRules()...)
	path := "/protectors/" + s.namespace + "/web"
	s.awaitPage(path, token, ">12<")
	auth := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	stream, _ := s.open(path, auth)
	if _, data, err := stream.next("page"); err != nil || !strings.Contains(data, "<b>2</b> allowed now") || strings.Contains(data, "<html") {
		t.Fatalf("%v: %s", err, data)
	}
	s.must(s.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	s.setAvailable(p, 10)
	if _, data, err := stream.next("page"); err != nil || !strings.Contains(data, "<b>0</b> allowed now") {
		t.Errorf("%v: %s", err, data)
	}
	_, _ = s.open(path, auth)
	if _, code := s.open(path, auth); code != http.StatusServiceUnavailable {
		t.Errorf("third stream of one visitor: code %d", code)
	}
	stream.body.Close()
	testplane.Eventually(t, func() string {
		if _, code := s.open(path, auth); code != http.StatusOK {
			return "no new stream is accepted after one ended"
		}
		return ""
	})
}

func TestCrossSiteRequestsAreRejected(t *testing.T) {
	s := newTestConsole(t)
	token := s.token("all", []string{""}, allRules()...)
	_, id, _ := s.signIn(token, "/")
	for claim, change := range map[string]func(*http.Request){
		"one that says so":       func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"one of the same domain": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an old browser's":       func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
	} {
		if code, _, _ := s.send(http.MethodPost, "/sign-out", nil, cookie(id), change); code != http.StatusForbidden {
			t.Errorf("%s: sign-out: code %d", claim, code)
		}
		if code, brought, _ := s.signIn(token, "/", change); code != http.StatusForbidden || brought != "" {
			t.Errorf("%s: sign-in: code %d and cookie %q", claim, code, brought)
		}
	}
	if code, _, _ := s.get("/", "", cookie(id)); code != http.StatusOK {
		t.Errorf("the session has ended: %d", code)
	}
	for _, next := range []string{"https://evil.example/", "//evil.example", "///evil.example", `/\evil.example`, "javascript:alert(1)", "", "/\tx"} {
		if _, _, to := s.signIn(token, next); to != "/" {
			t.Errorf("next=%q redirects to %q", next, to)
		}
	}
}

func TestResponsesHaveSecurityHeaders(t *testing.T) {
	s := newTestConsole(t)
	token := s.token("all", []string{""}, allRules()...)
	for _, path := range []string{"/", "/sign-in", "/cells", "/api/fleet", "/nothing", "/static/x/y.css"} {
		_, body, header := s.get(path, token)
		policy := header.Get("Content-Security-Policy")
		for _, word := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, word) {
				t.Errorf("%s: no %s in %q", path, word, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" || header.Get("X-Frame-Options") != "DENY" ||
			header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: %v", path, header)
		}
		if strings.Contains(body, "style=\"") || strings.Contains(body, "<style") || strings.Contains(body, "onclick=") {
			t.Errorf("%s violates its own Content-Security-Policy:\n%s", path, body)
		}
	}
}

func TestRequestLimits(t *testing.T) {
	s := newTestConsole(t)
	if code, _, _ := s.send(http.MethodPost, "/sign-in", url.Values{"token": {strings.Repeat("a", 200<<10)}}); code != http.StatusBadRequest {
		t.Errorf("form of 200 KiB: code %d", code)
	}
	if code, _, _ := s.get("/", strings.Repeat("a", 20<<10)); code != http.StatusUnauthorized {
		t.Errorf("token of 20 KiB: code %d", code)
	}
	codes := map[int]int{}
	for range 15 {
		code, _, _ := s.signIn("wrong "+time.Now().String(), "/")
		codes[code]++
	}
	if codes[http.StatusTooManyRequests] < 4 || codes[http.StatusUnauthorized] < 5 {
		t.Errorf("many wrong tokens: codes %v", codes)
	}
	if code, _, _ := s.get("/", "", cookie(access.Cookie+"="+strings.Repeat("x", 1000))); code != http.StatusSeeOther {
		t.Errorf("wrong cookie: code %d", code)
	}
}

func TestPagesWorkWithoutScripts(t *testing.T) {
	s := newTestConsole(t)
	s.createProtector(s.namespace, "web", 12, 10)
	token := s.token("all", []string{""}, allRules()...)
	body := s.awaitPage("/", token, ">web<")
	if !strings.Contains(body, `<noscript><p><a href="/?refresh=10">`) || strings.Contains(body, `http-equiv="refresh"`) {
		t.Error("page has no link that enables reloading")
	}
	if _, body, _ := s.get("/?refresh=10", token); !strings.Contains(body, `<meta http-equiv="refresh" content="10">`) {
		t.Error("page has no refresh")
	}
}
