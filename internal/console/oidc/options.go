package oidc

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	gooidc "github.com/coreos/go-oidc/v3/oidc"

	"github.com/breakwater-k8s/breakwater/internal/console/access"
)

// CallbackPath is the path of the redirect URL.
const CallbackPath = "/oidc/callback"

// Options configure the provider, and how its claims become users and groups of the cores: like the flags of kube-apiserver.
type Options struct {
	Issuer, ClientID, RedirectURL string
	// ClientSecretFile is read for each sign-in; empty for a public client. CAFile is empty for the CAs of the system.
	ClientSecretFile, CAFile string
	Scopes                   []string

	UsernameClaim, GroupsClaim string
	// UsernamePrefix is "-" for none. Empty means the issuer and #, or none if the claim is email.
	UsernamePrefix, GroupsPrefix string
}

// Default returns the default options.
func Default() Options {
	return Options{Scopes: []string{gooidc.ScopeOpenID}, UsernameClaim: "sub"}
}

// Validate returns an error that names the flags with invalid values.
func (o *Options) Validate() error {
	var all []error
	if issuer, err := url.Parse(o.Issuer); err != nil || issuer.Scheme != "https" || issuer.Host == "" {
		all = append(all, fmt.Errorf("--oidc-issuer-url %q: want https://HOST", o.Issuer))
	}
	if o.ClientID == "" {
		all = append(all, errors.New("--oidc-client-id is required with --oidc-issuer-url"))
	}
	if to, err := url.Parse(o.RedirectURL); err != nil || to.Scheme != "https" || to.Host == "" || to.Path != CallbackPath || to.RawQuery != "" {
		all = append(all, fmt.Errorf("--oidc-redirect-url %q: want https://HOST%s", o.RedirectURL, CallbackPath))
	}
	if !slices.Contains(o.Scopes, gooidc.ScopeOpenID) {
		all = append(all, fmt.Errorf("--oidc-scopes %s: want %s among them", strings.Join(o.Scopes, ","), gooidc.ScopeOpenID))
	}
	if o.UsernameClaim == "" {
		all = append(all, errors.New("--oidc-username-claim must not be empty"))
	}
	return errors.Join(all...)
}

// identity returns the user and the groups of a verified token. Names that Kubernetes reserves are never taken from a token.
func (o *Options) identity(token *gooidc.IDToken) (who access.Identity, err error) {
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return who, fmt.Errorf("read its claims: %w", err)
	}
	if party, ok := claims["azp"]; ok && party != o.ClientID {
		return who, errors.New("the ID token was issued to another client")
	}
	name, _ := claims[o.UsernameClaim].(string)
	if name == "" {
		return who, fmt.Errorf("the ID token has no claim %s", o.UsernameClaim)
	}
	if verified, ok := claims["email_verified"]; ok && o.UsernameClaim == "email" && verified != true {
		return who, errors.New("the email address is not verified")
	}
	if name = o.prefix() + name; isReserved(name) {
		return who, errors.New("names that begin with system: are reserved")
	}
	groups := []string{"system:authenticated"} // as the API server adds it
	for _, group := range textsOf(claims[o.GroupsClaim]) {
		if group = o.GroupsPrefix + group; !isReserved(group) {
			groups = append(groups, group)
		}
	}
	return access.NewIdentity(name, groups), nil
}

func (o *Options) prefix() string {
	switch {
	case o.UsernamePrefix == "-", o.UsernamePrefix == "" && o.UsernameClaim == "email":
		return ""
	case o.UsernamePrefix == "":
		return o.Issuer + "#"
	default:
		return o.UsernamePrefix
	}
}

// isReserved reports whether Kubernetes gives a user or group of this name a meaning.
func isReserved(name string) bool { return strings.HasPrefix(name, "system:") }

// textsOf returns the texts of a claim that is one text or a list.
func textsOf(claim any) (texts []string) {
	switch c := claim.(type) {
	case string:
		return []string{c}
	case []any:
		for _, one := range c {
			if text, ok := one.(string); ok && text != "" {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
