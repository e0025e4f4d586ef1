// Package quota decides. It turns the state of a protector and the removals that are asked into verdicts, and
// keeps the books of what was admitted: reservations are made (Decide), given back (GiveBack), merged when they
// are many (Compact), and settled when a snapshot accounts for them (Settle).
//
// Everything here is pure: the caller reads the newest PodProtector, lets these functions change its copy of
// the status, and writes that status by compare-and-swap. On a conflict the result is thrown away and decided
// again from the newest object, so an admitted removal always stands in the object that its verdict came from.
//
// For a protector with floor F, and for each cell c the available pods A_c of the newest snapshot and the open
// reservations H_c, the budget is
//
//	B = Σ A_c − Σ |H_c| − F
//
// and a removal is admitted while B > 0. What must stay true, and why it is safe: a pod whose removal was
// admitted is in H_c from before the answer until the snapshot that A_c was counted from shows it gone, so
// Σ A_c − Σ |H_c| never exceeds the number of pods that will be available when all admitted removals are done.
//
// With spec.spread.tolerateDomainLoss as much must hold of what is left without each domain but the pod's own: see domainloss.go.
package quota
