// Package sharding assigns objects of rings to shards in the very write by which the apiserver stores them: it answers the reviews
// that the MutatingWebhookConfiguration of a ring sends to /rings/{ring}.
//
// It allows everything. A ring must never keep anybody from working: what cannot be assigned now is stored as it is, and the sharder
// finds it when it looks at all objects again. An apiserver helps with that only in part: failurePolicy Ignore covers answers that do
// not come, come too late or are none, but neither a refusal nor a patch that does not fit the object, both of which refuse the
// request. So this package answers by itself what others leave to a framework, which makes refusals of errors and panics.
package sharding
