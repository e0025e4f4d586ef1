// Package scheduling adds what PodSchedulingPolicies require to pods and to pod templates, in the same write by which
// an API server stores them. It answers the reviews that the MutatingWebhookConfiguration of a cell sends to
// /cells/{cell}/schedule.
//
// It allows objects unchanged when it cannot determine the answer: a policy must never block users, unless its
// conflictPolicy says so. The failurePolicy Ignore of the API server is not enough for that. It covers missing answers,
// but not refusals, into which webhook frameworks turn errors and panics.
package scheduling
