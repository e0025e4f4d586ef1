package webhookconfig

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

const (
	// AnnotationCallerPath is an annotation on a webhook configuration: the path of the webhook after the caller token. The component
	// that has the keys sets both in the configuration.
	AnnotationCallerPath = "breakwater.dev/caller-path"
	// CurrentCallerKey is a key of the Secret of caller keys, and so a file name in its mount. The webhook derives new tokens from its
	// value.
	CurrentCallerKey = "current"
	// PreviousCallerKey is the key whose tokens the webhook also accepts.
	PreviousCallerKey = "previous"
	// CallersRequired is the key whose value is "true" if the webhook requires a token.
	CallersRequired = "required"
	// callersPrefix precedes a caller token in the path of a webhook.
	callersPrefix = "/callers/"
	// callerTokenBytes is 160 bits. Tokens are hexadecimal because API servers accept only lower-case letters, digits, dots and dashes
	// in a path.
	callerTokenBytes = 20
)

var callerTokenPattern = regexp.MustCompile(callersPrefix + `[^/?\s"'\\]+`)

// CallerScope returns the scope of a caller token: cells/NAME, cores/NAME, or the cluster description of RootGuardPath. A cluster of one
// cell has one token.
func CallerScope(path string) string {
	if scope, is := strings.CutPrefix(path, rootGuardPrefix); is {
		return scope
	}
	scope := strings.TrimPrefix(path, "/")
	for _, verb := range []string{"/validate", "/schedule"} {
		scope = strings.TrimSuffix(scope, verb)
	}
	return scope
}

// CallerToken returns the secret path segment by which an API server authenticates for a scope. A client that has the token cannot
// compute that of another scope.
func CallerToken(key []byte, scope string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("breakwater caller token\x00" + scope))
	return hex.EncodeToString(mac.Sum(nil)[:callerTokenBytes])
}

// IsCallerToken reports whether a token belongs to a scope under one of the keys. It takes the same time for every token.
func IsCallerToken(token, scope string, keys ...[]byte) bool {
	is := false
	for _, key := range keys {
		is = len(key) > 0 && hmac.Equal([]byte(CallerToken(key, scope)), []byte(token)) || is
	}
	return is
}

// CallerPath returns the path of a webhook with a token.
func CallerPath(token, path string) string { return callersPrefix + token + path }

// SplitCallerToken splits the caller token off a path. The token is empty if the path has none.
func SplitCallerToken(path string) (token, rest string) {
	after, is := strings.CutPrefix(path, callersPrefix)
	token, rest, isPath := strings.Cut(after, "/")
	if !is || !isPath || token == "" {
		return "", path
	}
	return token, "/" + rest
}

// CallerTokenOf returns the caller token in the address that an API server uses, and the path after it. The token is empty if there is
// none.
func CallerTokenOf(config *admissionregistrationv1.WebhookClientConfig) (token, path string) {
	path = webhookPath(config)
	if config.URL != nil {
		_, address, _ := strings.Cut(path, "://")
		_, path, _ = strings.Cut(address, "/")
		path = "/" + path
		// A proxy may require a prefix.
		for _, prefix := range []string{callersPrefix, "/cells/", "/cores/", rootGuardPrefix} {
			if at := strings.Index(path, prefix); at >= 0 {
				return SplitCallerToken(path[at:])
			}
		}
	}
	return SplitCallerToken(path)
}

// Anonymous reports whether all webhooks for the cell have an address without a caller token.
func Anonymous(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	hooks := ValidatingWebhooks(configurations, func(path string) bool { return strings.HasSuffix(path, RemovalPath(cell)) })
	return !slices.ContainsFunc(hooks, func(w Webhook) bool {
		token, _ := CallerTokenOf(&w.Client)
		return token != ""
	})
}

// RedactCallerTokens removes caller tokens from a text. API servers write the whole address of a webhook into their errors.
func RedactCallerTokens(text string) string {
	if !strings.Contains(text, callersPrefix) {
		return text
	}
	return callerTokenPattern.ReplaceAllString(text, callersPrefix+"REDACTED")
}
