// Package removal answers removals. It parses the review of an API server (Parse), chooses the protectors whose budget the removal
// consumes (Charged), checks their budgets (Preview), and composes the answer (Answer).
//
// This package is pure. Between these steps, the webhook does the work that needs a cluster: it finds the protectors, and reserves
// removals that Preview does not deny. Judge runs all steps except the reservation: it returns the webhook's answer to a dry run.
package removal
