// Package scheduling adds what PodSchedulingPolicies ask for to pods and to templates of pods, in the very write by which an apiserver stores
// them: it answers the reviews that the MutatingWebhookConfiguration of a cell sends to /cells/{cell}/schedule.
//
// What it cannot answer it allows as it is: a policy must never keep anybody from working, unless its conflictPolicy says so. An apiserver
// helps with that only in part: failurePolicy Ignore covers answers that do not come, but not refusals of errors and panics, which is what
// frameworks make of them.
package scheduling
