package certificates

import (
	"bytes"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// CallerKeys is the content of the Secret of caller keys.
type CallerKeys struct {
	// Current and Previous are keys of callerKeyBytes random bytes. The webhook accepts tokens of both.
	Current, Previous []byte
	// Required makes the webhook deny requests of callers without a token.
	Required bool
	// Rotated is the value of AnnotationRotateCallerKey for which the controller last created a key.
	Rotated string
}

// callerKeyBytes is the length of the output of SHA-256, which RFC 2104 recommends for keys of its HMAC.
const callerKeyBytes = 32

// CallerObservations is what the controller observed outside of the Secret.
type CallerObservations struct {
	// Spread is true when every replica has had time to read the current key. Overlap is true when every configuration has had a token of
	// the current key for as long as the webhook must accept tokens of the previous key.
	Spread, Overlap bool
	// Require is true when tokens are to be required. Authenticated is true when every configuration of this cluster has a valid token.
	Require, Authenticated bool
	// Rotate is the value of AnnotationRotateCallerKey.
	Rotate string
}

// NextCallerKeys returns the next state of the keys. It never makes the webhook deny a configuration that has a token. Every replica has a
// key before a configuration gets a token of it, and tokens are not required before every configuration has one. newKey creates a key.
func NextCallerKeys(k CallerKeys, observed CallerObservations, newKey func() []byte) CallerKeys {
	next := k
	switch {
	case len(k.Current) != callerKeyBytes:
		// No configuration can have a token of such a key. Replicas must read the new key before tokens can be required.
		next.Current, next.Required = newKey(), false
		if next.Rotated == "" {
			next.Rotated = observed.Rotate
		}
		return next
	case observed.Rotate != "" && observed.Rotate != k.Rotated && observed.Spread:
		// Wait until replicas have read the current key: they continue to accept tokens of it as the previous key.
		next.Current, next.Previous, next.Rotated = newKey(), k.Current, observed.Rotate
		return next
	}
	if observed.Overlap {
		next.Previous = nil
	}
	// Once required, tokens stay required: a new configuration gets its token at once, and no other client may remove it.
	next.Required = observed.Require && (k.Required || observed.Spread && observed.Authenticated)
	return next
}

// Token returns the token that a configuration should have for a scope, given its present token; empty means none.
func (k *CallerKeys) Token(scope, existing string, spread bool) string {
	hasPrevious := len(k.Previous) > 0
	switch {
	case len(k.Current) == 0 || webhookconfig.IsCallerToken(existing, scope, k.Current):
		return existing
	case hasPrevious && !spread:
		return webhookconfig.CallerToken(k.Previous, scope)
	}
	return webhookconfig.CallerToken(k.Current, scope)
}

func (k *CallerKeys) equal(other *CallerKeys) bool {
	return bytes.Equal(k.Current, other.Current) && bytes.Equal(k.Previous, other.Previous) && k.Required == other.Required && k.Rotated == other.Rotated
}

// valid returns the keys whose tokens the webhook accepts.
func (k *CallerKeys) valid() [][]byte { return [][]byte{k.Current, k.Previous} }
