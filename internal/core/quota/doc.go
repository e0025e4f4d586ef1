// Package quota decides on removals. It maps the state of a protector and the requested removals to verdicts. It also maintains the
// history of admitted removals: it makes reservations (Decide), gives them back (ReleaseClaim), merges them if there are many (Compact),
// and settles them when a snapshot accounts for them (Settle).
//
// This package is pure. The caller reads the newest PodProtector, lets these functions change its copy of the status, and writes that
// status by compare-and-swap. On a conflict it discards the result and decides again from the newest object. So an admitted removal
// is always recorded in the object that its verdict was derived from.
//
// For a protector with floor F, and for each cell c the available pods A_c of the newest snapshot and the open reservations H_c, the
// budget is
//
//	B = Σ A_c − Σ |H_c| − F
//
// and a removal is admitted while B > 0. The safety argument: a pod whose removal was admitted is in H_c from before the answer until
// the snapshot that A_c was counted from shows it absent or terminating. So Σ A_c − Σ |H_c| never exceeds the number of pods that
// will be available when all admitted removals are done.
//
// With spec.spread.tolerateDomainLoss, the same must hold for the pods outside of each domain except the pod's own: see
// domainloss.go.
package quota
