// Package idp is an OpenID Connect provider for tests: the authorization code flow of RFC 6749 with PKCE (RFC 7636), discovery, and signed ID
// tokens. It signs every user in at once, and rejects what a provider must reject.
package idp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// ClientID and ClientSecret are those of the only client.
const (
	ClientID     = "console"
	ClientSecret = "client secret"
)

// Provider is a running provider.
type Provider struct {
	*httptest.Server
	// CAFile is the file of the CA that signed its certificate, and SecretFile one with the client secret.
	CAFile, SecretFile string
	// Claims are added to each ID token, and replace its own. Forge signs with a key that the provider does not publish.
	Claims map[string]any
	Forge  bool

	t     testing.TB
	key   *ecdsa.PrivateKey
	mu    sync.Mutex
	codes map[string]url.Values
}

// Start starts a provider, which stops at the end of the test.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, key: newKey(t), codes: map[string]url.Values{}, Claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.write(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	p.CAFile = write("ca.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw}))
	p.SecretFile = write("secret", []byte(ClientSecret+"\n"))
	return p
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (p *Provider) write(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(content); err != nil {
		p.t.Error(err)
	}
}

func (p *Provider) discovery(w http.ResponseWriter, _ *http.Request) {
	p.write(w, http.StatusOK, map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		"code_challenge_methods_supported": []string{"S256"},
	})
}

// authorize signs the user in, and sends the browser back with a code.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	for name, want := range map[string]string{"response_type": "code", "client_id": ClientID, "code_challenge_method": "S256"} {
		if got := query.Get(name); got != want {
			p.t.Errorf("authorization request: %s=%q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"state", "nonce", "code_challenge", "redirect_uri", "scope"} {
		if query.Get(name) == "" {
			p.t.Errorf("authorization request without %s: %s", name, r.URL)
		}
	}
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = query
	p.mu.Unlock()
	http.Redirect(w, r, query.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {query.Get("state")}}.Encode(), http.StatusFound)
}

// token exchanges a code, once, for an ID token.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, _ := r.BasicAuth()
	secret, err := url.QueryUnescape(secret) // RFC 6749, section 2.3.1
	if id == "" {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if err != nil || id != ClientID || secret != ClientSecret {
		p.write(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	p.mu.Lock()
	asked, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != asked.Get("code_challenge") {
		p.write(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	p.write(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": p.sign(asked.Get("nonce"))})
}

func (p *Provider) sign(nonce string) string {
	key := p.key
	if p.Forge {
		key = newKey(p.t)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		p.t.Fatal(err)
	}
	now := time.Now()
	text, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": p.URL, "sub": "1234", "aud": ClientID, "nonce": nonce, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}).Claims(p.Claims).Serialize()
	if err != nil {
		p.t.Fatal(err)
	}
	return text
}
