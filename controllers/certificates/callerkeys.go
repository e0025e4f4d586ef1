package certificates

import (
	"bytes"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// CallerKeys is what the Secret of caller keys keeps.
type CallerKeys struct {
	// Current and Previous are keys of callerKeyBytes random bytes. The webhook accepts tokens of both.
	Current, Previous []byte
	// Required makes the webhook refuse callers without a token.
	Required bool
	// Rotated is the value of AnnotationRotateCallerKey that has been answered by a new key.
	Rotated string
}

// callerKeyBytes is the length of the output of SHA-256, which RFC 2104 advises for keys of its HMAC.
const callerKeyBytes = 32

// CallersSeen is what is known of the world outside of the Secret.
type CallersSeen struct {
	// Spread is that every replica has had time to read the current key, and Overlap, that every configuration has had a token of it for as
	// long as tokens of the previous one are to be accepted.
	Spread, Overlap bool
	// Require is that tokens are to be required, and Authenticated, that every configuration of this cluster has a valid one.
	Require, Authenticated bool
	// Rotate is the value of AnnotationRotateCallerKey.
	Rotate string
}

// NextCallerKeys returns the next state of the keys. It refuses no configuration that has a token: a key is known to every replica before a configuration
// gets a token of it, and tokens are not required before every configuration has one. newKey makes a key.
func NextCallerKeys(k CallerKeys, seen CallersSeen, newKey func() []byte) CallerKeys {
	next := k
	switch {
	case len(k.Current) != callerKeyBytes:
		// No configuration can have a token of such a key. Replicas must read the new key before tokens can be required.
		next.Current, next.Required = newKey(), false
		if next.Rotated == "" {
			next.Rotated = seen.Rotate
		}
		return next
	case seen.Rotate != "" && seen.Rotate != k.Rotated && seen.Spread:
		// Not before replicas have read the current key: they continue to accept tokens of it as the previous one.
		next.Current, next.Previous, next.Rotated = newKey(), k.Current, seen.Rotate
		return next
	}
	if seen.Overlap {
		next.Previous = nil
	}
	// Once required it stays so: a configuration that is new gets its token at once, and no other may take it away.
	next.Required = seen.Require && (k.Required || seen.Spread && seen.Authenticated)
	return next
}

// Token is what a configuration is to have for a scope that has a token now; empty is none.
func (k *CallerKeys) Token(scope, has string, spread bool) string {
	previous := len(k.Previous) > 0
	switch {
	case len(k.Current) == 0 || webhookconfig.IsCallerToken(has, scope, k.Current):
		return has
	case previous && !spread:
		return webhookconfig.CallerToken(k.Previous, scope)
	}
	return webhookconfig.CallerToken(k.Current, scope)
}

func (k *CallerKeys) equal(other *CallerKeys) bool {
	return bytes.Equal(k.Current, other.Current) && bytes.Equal(k.Previous, other.Previous) && k.Required == other.Required && k.Rotated == other.Rotated
}

// valid are the keys whose tokens the webhook accepts.
func (k *CallerKeys) valid() [][]byte { return [][]byte{k.Current, k.Previous} }
