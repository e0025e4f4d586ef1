package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/e2e/harness/idp"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/console/oidc"
)

// signInOIDC signs in with the provider, and returns the last response, and the session cookie if there is one. change is applied to the
// request with which the provider sends the browser back.
func (s *testConsole) signInOIDC(provider *idp.Provider, path string, change ...func(*http.Request)) (code int, body, session string) {
	s.Helper()
	code, _, header := s.get("/sign-in/oidc?next="+url.QueryEscape(path), "")
	if code != http.StatusSeeOther {
		s.Fatalf("code %d, want a redirect to the provider", code)
	}
	attempt, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	client := provider.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Get(header.Get("Location"))
	s.must(err)
	response.Body.Close()
	back, err := url.Parse(response.Header.Get("Location"))
	s.must(err)
	code, body, header = s.get(back.RequestURI(), "", append([]func(*http.Request){cookie(attempt)}, change...)...)
	for _, set := range header.Values("Set-Cookie") {
		if strings.HasPrefix(set, access.Cookie+"=") {
			session, _, _ = strings.Cut(set, ";")
		} else if !strings.HasPrefix(set, oidc.Cookie+"=;") {
			s.Errorf("cookie %s, want that of the attempt to be deleted", set)
		}
	}
	return code, body, session
}

func TestSignInWithOIDC(t *testing.T) {
	provider := idp.Start(t)
	s := newTestConsole(t, func(o *Options) {
		p := oidc.Default()
		p.Issuer, p.CAFile, p.ClientID, p.ClientSecretFile = provider.URL, provider.CAFile, idp.ClientID, provider.SecretFile
		p.RedirectURL, p.UsernameClaim, p.UsernamePrefix, p.GroupsClaim, p.GroupsPrefix = "https://console.example"+oidc.CallbackPath, "name", "sso:", "groups", "sso:"
		o.OIDC = &p
	})
	s.createProtector(s.namespace, "web", 12, 10)
	path := "/protectors/" + s.namespace + "/web"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.namespace + "-sso"}, Rules: allRules()}
	s.must(s.Create(t.Context(), role))
	s.must(s.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "sso"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "sso:ops"}},
	}))
	s.awaitPage(path, s.token("all", []string{""}, allRules()...), ">12<")

	// Nothing is shown without authentication.
	for _, page := range []string{"/", path, "/cells", "/api/fleet", "/api" + path} {
		if code, body, _ := s.get(page, ""); code != http.StatusSeeOther && code != http.StatusUnauthorized || strings.Contains(body, ">12<") {
			t.Errorf("%s without authentication: code %d: %s", page, code, body)
		}
	}
	if _, body, _ := s.get("/sign-in?next="+url.QueryEscape(path), ""); !strings.Contains(body, `href="/sign-in/oidc?next=%2Fprotectors%2F`) {
		t.Errorf("the sign-in page has no link to the provider:\n%s", body)
	}

	// The RBAC of the core decides by the groups of the token.
	provider.Claims = map[string]any{"name": "ann", "groups": []string{"ops"}}
	code, body, session := s.signInOIDC(provider, path)
	if code != http.StatusOK || session == "" || !strings.Contains(body, `content="0; url=`+path) {
		t.Fatalf("code %d, session %q: %s", code, session, body)
	}
	if code, body, _ := s.get(path, "", cookie(session)); code != http.StatusOK || !strings.Contains(body, ">12<") || !strings.Contains(body, "sso:ann") {
		t.Errorf("code %d: %s", code, body)
	}
	if code, _, _ := s.get("/cells", "", cookie(session)); code != http.StatusForbidden {
		t.Errorf("cells without permission: code %d", code)
	}
	provider.Claims = map[string]any{"name": "eve", "groups": []string{"dev", "system:masters"}}
	if _, _, other := s.signInOIDC(provider, "/"); other == "" {
		t.Error("a user without permissions cannot sign in")
	} else if code, body, _ := s.get(path, "", cookie(other)); code != http.StatusForbidden || strings.Contains(body, ">12<") {
		t.Errorf("a user without permissions: code %d: %s", code, body)
	}

	// Rejected answers open no session.
	for claim, change := range map[string]func(*http.Request){
		"another state": func(r *http.Request) { r.URL.RawQuery = "code=x&state=x" },
		"no cookie":     func(r *http.Request) { r.Header.Del("Cookie") },
	} {
		if code, body, session := s.signInOIDC(provider, "/", change); code != http.StatusUnauthorized || session != "" || !strings.Contains(body, "did not sign you in") {
			t.Errorf("%s: code %d, session %q: %s", claim, code, session, body)
		}
	}
	provider.Claims = map[string]any{"name": "ann", "groups": []string{"ops"}, "exp": time.Now().Add(-time.Minute).Unix()}
	codes := map[int]int{}
	for range 12 {
		code, _, session := s.signInOIDC(provider, "/")
		if codes[code]++; session != "" {
			t.Error("an expired token opened a session")
		}
	}
	if codes[http.StatusUnauthorized] < 5 || codes[http.StatusTooManyRequests] < 2 {
		t.Errorf("many rejected sign-ins: codes %v, want 401 and then 429", codes)
	}

	// The session ends when the user signs out, also on open pages.
	stream, _ := s.open(path, cookie(session))
	if _, data, err := stream.next("page"); err != nil || !strings.Contains(data, ">12<") {
		t.Fatalf("%v: %s", err, data)
	}
	if code, _, _ := s.send(http.MethodPost, "/sign-out", nil, cookie(session)); code != http.StatusSeeOther {
		t.Errorf("sign-out: code %d", code)
	}
	if event, _, err := stream.next("end"); err != nil {
		t.Errorf("stream continues after the user signed out: %s, %v", event, err)
	}
	if code, _, _ := s.get(path, "", cookie(session)); code != http.StatusSeeOther {
		t.Errorf("session still exists: code %d", code)
	}
}
