// Package removal answers removals: it reads what an apiserver asks (Parse), chooses the protectors that it costs budget (Charged),
// looks at their budgets (Preview), and words the answer (Answer).
//
// Everything here is pure. The webhook does between these steps what takes a cluster: it finds the protectors, and reserves with them
// what Preview has nothing against. Judge is all steps but that last one: what the webhook would answer to a dry run.
package removal
