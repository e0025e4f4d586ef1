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
	// AnnotationCallerPath is, on a webhook configuration, the path that the webhook is asked at behind a caller token. The component that has
	// the keys puts both into the configuration.
	AnnotationCallerPath = "breakwater.dev/caller-path"
	// CurrentCallerKey is a key of the Secret of caller keys, and so a file of the folder where it is mounted: what new tokens are made of.
	CurrentCallerKey = "current"
	// PreviousCallerKey is likewise the key whose tokens the webhook accepts as well.
	PreviousCallerKey = "previous"
	// CallersRequired is likewise "true" if the webhook requires a token.
	CallersRequired = "required"
	// callersPrefix is before a caller token in the path of a webhook.
	callersPrefix = "/callers/"
	// callerTokenBytes are 160 bits, in hex since API servers accept no other than lower-case letters, digits, dots and dashes in a path.
	callerTokenBytes = 20
)

var callerInText = regexp.MustCompile(callersPrefix + `[^/?\s"'\\]+`)

// CallerScope is what a caller token is for: cells/NAME, cores/NAME, or what RootsPath says of a cluster. A cluster of one cell has one token.
func CallerScope(path string) string {
	if scope, is := strings.CutPrefix(path, rootsPrefix); is {
		return scope
	}
	scope := strings.TrimPrefix(path, "/")
	for _, verb := range []string{"/validate", "/schedule"} {
		scope = strings.TrimSuffix(scope, verb)
	}
	return scope
}

// CallerToken is the secret segment in the path by which an API server asks about a scope. Who has it cannot compute that of another scope.
func CallerToken(key []byte, scope string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("breakwater caller token\x00" + scope))
	return hex.EncodeToString(mac.Sum(nil)[:callerTokenBytes])
}

// IsCallerToken reports whether one of the keys makes the token for a scope. It takes the same time for every token.
func IsCallerToken(token, scope string, keys ...[]byte) bool {
	is := false
	for _, key := range keys {
		is = len(key) > 0 && hmac.Equal([]byte(CallerToken(key, scope)), []byte(token)) || is
	}
	return is
}

// CallerPath is where a webhook is asked with a token.
func CallerPath(token, path string) string { return callersPrefix + token + path }

// CutCaller returns the caller token of a path, empty if it has none, and the path without it.
func CutCaller(path string) (token, rest string) {
	after, is := strings.CutPrefix(path, callersPrefix)
	token, rest, isPath := strings.Cut(after, "/")
	if !is || !isPath || token == "" {
		return "", path
	}
	return token, "/" + rest
}

// CallerOf returns the caller token by which an API server asks, empty if it has none, and the path behind it.
func CallerOf(config *admissionregistrationv1.WebhookClientConfig) (token, path string) {
	path = pathOf(config)
	if config.URL != nil {
		_, address, _ := strings.Cut(path, "://")
		_, path, _ = strings.Cut(address, "/")
		path = "/" + path
		// A proxy may want something before it.
		for _, prefix := range []string{callersPrefix, "/cells/", "/cores/", rootsPrefix} {
			if at := strings.Index(path, prefix); at >= 0 {
				return CutCaller(path[at:])
			}
		}
	}
	return CutCaller(path)
}

// Anonymous reports whether an API server asks about a cell without a caller token, by each webhook that leads to the cell.
func Anonymous(cell string, configurations []admissionregistrationv1.ValidatingWebhookConfiguration) bool {
	hooks := Validating(configurations, func(path string) bool { return strings.HasSuffix(path, Path(cell)) })
	return !slices.ContainsFunc(hooks, func(w Webhook) bool {
		token, _ := CallerOf(&w.Client)
		return token != ""
	})
}

// RedactCallers removes caller tokens from a text. API servers write the whole address of a webhook into their errors.
func RedactCallers(text string) string {
	if !strings.Contains(text, callersPrefix) {
		return text
	}
	return callerInText.ReplaceAllString(text, callersPrefix+"REDACTED")
}
