// Package sharding assigns objects of rings to shards in the same write by which the API server stores them. It answers
// the reviews that the MutatingWebhookConfiguration of a ring sends to /rings/{ring}.
//
// It allows every request, because a ring must never block users. An object that cannot be assigned now is stored
// unchanged, and the sharder finds it at the next resync. The failurePolicy Ignore of the API server is not enough for
// that. It covers answers that are missing, late or malformed, but neither a refusal nor a patch that does not fit the
// object: both refuse the request. So this package implements itself what other webhooks leave to a framework, because
// frameworks turn errors and panics into refusals.
package sharding
