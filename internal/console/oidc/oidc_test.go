package oidc_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/idp"
	"github.com/breakwater-k8s/breakwater/internal/console/access"
	"github.com/breakwater-k8s/breakwater/internal/console/oidc"
)

// browser signs in at a provider.
type browser struct {
	*testing.T
	idp      *idp.Provider
	provider *oidc.Provider
	options  oidc.Options
	elapsed  time.Duration
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{T: t, idp: idp.Start(t), options: oidc.Default()}
	b.options.Issuer, b.options.CAFile, b.options.ClientID, b.options.ClientSecretFile = b.idp.URL, b.idp.CAFile, idp.ClientID, b.idp.SecretFile
	b.options.RedirectURL, b.options.GroupsClaim = "https://console.example"+oidc.CallbackPath, "groups"
	b.start()
	return b
}

// start starts the console again.
func (b *browser) start() {
	b.Helper()
	err := b.options.Validate()
	if err == nil {
		b.provider, err = oidc.New(b.options, func() time.Time { return time.Now().Add(b.elapsed) })
	}
	if err != nil {
		b.Fatal(err)
	}
}

// begin begins a sign-in, and returns the request with which the provider sends the browser back.
func (b *browser) begin() *http.Request {
	b.Helper()
	to, cookie, err := b.provider.Begin("/protectors/shop/web")
	if err != nil {
		b.Fatal(err)
	}
	client := b.idp.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	response, err := client.Get(to)
	if err != nil {
		b.Fatal(err)
	}
	response.Body.Close()
	r := httptest.NewRequest(http.MethodGet, response.Header.Get("Location"), nil)
	r.AddCookie(cookie)
	return r
}

func TestSignIn(t *testing.T) {
	for claim, c := range map[string]struct {
		claims  map[string]any
		options func(*oidc.Options)
		name    string
		groups  []string
	}{
		"the subject, as kube-apiserver names it": {nil, nil, "ISSUER#1234", nil},
		"an email address and groups": {
			map[string]any{"email": "ann@example.com", "email_verified": true, "groups": []string{"ops", "dev"}},
			func(o *oidc.Options) { o.UsernameClaim, o.GroupsPrefix = "email", "sso:" }, "ann@example.com", []string{"sso:ops", "sso:dev"},
		},
		"a prefix, and one group": {
			map[string]any{"name": "ann", "groups": "ops"}, func(o *oidc.Options) { o.UsernameClaim, o.UsernamePrefix = "name", "sso:" }, "sso:ann", []string{"ops"},
		},
		"no prefix": {map[string]any{"name": "ann"}, func(o *oidc.Options) { o.UsernameClaim, o.UsernamePrefix = "name", "-" }, "ann", nil},
		"no group that Kubernetes reserves": {
			map[string]any{"groups": []any{"system:masters", "ops", 7, ""}}, nil, "ISSUER#1234", []string{"ops"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			b := newBrowser(t)
			if c.options != nil {
				c.options(&b.options)
				b.start()
			}
			b.idp.Claims = c.claims
			who, next, err := b.provider.Finish(b.begin())
			if err != nil {
				t.Fatal(err)
			}
			name := strings.ReplaceAll(c.name, "ISSUER", b.idp.URL)
			want := access.NewIdentity(name, append([]string{"system:authenticated"}, c.groups...))
			if !who.Equal(want) || who.Name != name || next != "/protectors/shop/web" {
				t.Errorf("Finish() = %+v, to %s, want %+v", who, next, want)
			}
		})
	}
}

func TestRejectedSignIns(t *testing.T) {
	b := newBrowser(t)
	claims := func(name string, value any) func(*http.Request) {
		return func(*http.Request) { b.idp.Claims[name] = value }
	}
	query := func(name, value string) func(*http.Request) {
		return func(r *http.Request) {
			values := r.URL.Query()
			values.Set(name, value)
			r.URL.RawQuery = values.Encode()
		}
	}
	cookie := func(value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Cookie", oidc.Cookie+"="+value) }
	}
	for claim, c := range map[string]struct {
		change func(*http.Request)
		want   string
	}{
		"an expired token":                     {claims("exp", time.Now().Add(-time.Minute).Unix()), "token is expired"},
		"a token for another client":           {claims("aud", "another"), "expected audience"},
		"a token of another party":             {claims("azp", "another"), "issued to another client"},
		"a token of another issuer":            {claims("iss", "https://evil.example"), "issued by a different provider"},
		"another nonce":                        {claims("nonce", "another"), "another nonce"},
		"a forged signature":                   {func(*http.Request) { b.idp.Forge = true }, "failed to verify signature"},
		"a name that Kubernetes reserves":      {claims("sub", "system:admin"), "begin with system:"},
		"no name":                              {claims("sub", 7), ""},
		"another state":                        {query("state", "another"), "belongs to another sign-in"},
		"no state":                             {query("state", ""), "belongs to another sign-in"},
		"an unknown code":                      {query("code", "another"), "invalid_grant"},
		"a code of another sign-in":            {func(r *http.Request) { query("code", b.begin().URL.Query().Get("code"))(r) }, "invalid_grant"},
		"a code that was used":                 {func(r *http.Request) { _, _, _ = b.provider.Finish(r) }, "invalid_grant"},
		"an error of the provider":             {query("error", "access_denied"), "access_denied"},
		"no cookie":                            {func(r *http.Request) { r.Header.Del("Cookie") }, "has not begun"},
		"the cookie of another sign-in":        {func(r *http.Request) { r.Header.Set("Cookie", b.begin().Header.Get("Cookie")) }, "another sign-in"},
		"a cookie in clear text":               {cookie("e30"), "not one of this console"},
		"a cookie that is no base64":           {cookie("{}"), "damaged"},
		"a changed cookie":                     {changeCookie, "not one of this console"},
		"a cookie from before a restart":       {func(*http.Request) { b.start() }, "the console has restarted"},
		"a sign-in that took too long":         {func(*http.Request) { b.elapsed = 10 * time.Minute }, "too long"},
		"a sign-in with a wrong client secret": {func(*http.Request) { b.writeSecret("wrong") }, "invalid_client"},
	} {
		t.Run(claim, func(t *testing.T) {
			b.idp.Claims, b.idp.Forge, b.elapsed = map[string]any{}, false, 0
			b.options.UsernamePrefix = "-"
			b.writeSecret(idp.ClientSecret)
			b.start()
			r := b.begin()
			c.change(r)
			if who, _, err := b.provider.Finish(r); !errors.Is(err, oidc.ErrRejected) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Finish() = %+v, %v, want an error that contains %q", who, err, c.want)
			}
		})
	}
}

func (b *browser) writeSecret(secret string) {
	b.Helper()
	if err := os.WriteFile(b.idp.SecretFile, []byte(secret), 0o600); err != nil {
		b.Fatal(err)
	}
}

// changeCookie replaces a character in the middle of the cookie by another one of base64.
func changeCookie(r *http.Request) {
	value := []byte(r.Header.Get("Cookie"))
	at := len(oidc.Cookie) + 40
	if value[at] == 'A' {
		value[at] = 'B'
	} else {
		value[at] = 'A'
	}
	r.Header.Set("Cookie", string(value))
}

func TestCookieIsEncrypted(t *testing.T) {
	b := newBrowser(t)
	to, cookie, err := b.provider.Begin("/secret-path")
	if err != nil {
		t.Fatal(err)
	}
	sent, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{sent.Query().Get("state"), sent.Query().Get("nonce"), "secret-path", "Verifier"} {
		if text == "" || strings.Contains(cookie.Value, text) {
			t.Errorf("the cookie %s contains %q", cookie.Value, text)
		}
	}
	header := cookie.String()
	for _, word := range []string{"__Host-", "HttpOnly", "Secure", "SameSite=Lax", "Path=/", "Max-Age=600"} {
		if !strings.Contains(header, word) {
			t.Errorf("cookie has no %s: %s", word, header)
		}
	}
}

func TestProviderMayStartLater(t *testing.T) {
	b := newBrowser(t)
	b.idp.Close()
	if _, _, err := b.provider.Begin("/"); !errors.Is(err, oidc.ErrUnavailable) {
		t.Errorf("Begin() while the provider is unreachable: %v, want %v", err, oidc.ErrUnavailable)
	}
}

func TestOptionsNameTheFlag(t *testing.T) {
	good := oidc.Default()
	good.Issuer, good.ClientID, good.RedirectURL = "https://idp.example", "console", "https://console.example"+oidc.CallbackPath
	for flag, change := range map[string]func(*oidc.Options){
		"":                      func(*oidc.Options) {},
		"--oidc-issuer-url":     func(o *oidc.Options) { o.Issuer = "http://idp.example" },
		"--oidc-client-id":      func(o *oidc.Options) { o.ClientID = "" },
		"--oidc-redirect-url":   func(o *oidc.Options) { o.RedirectURL = "https://console.example/" },
		"--oidc-scopes":         func(o *oidc.Options) { o.Scopes = []string{"email"} },
		"--oidc-username-claim": func(o *oidc.Options) { o.UsernameClaim = "" },
	} {
		o := good
		change(&o)
		if err := o.Validate(); (err == nil) != (flag == "") || err != nil && !strings.HasPrefix(err.Error(), flag) {
			t.Errorf("Validate() = %v, want an error that begins with %q", err, flag)
		}
	}
}
