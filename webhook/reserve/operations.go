package reserve

import (
	"slices"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// opKind is what an operation does to the history of a protector:
//
//	kind       changes the history                        claim
//	opReserve  reserves removal, if the protector admits  the batch writes it
//	opGiveBack gives back the reservation of removal      what an earlier batch wrote
//	opFlush    not itself, but the batch writes the       nil
//	           pending charges of the protector first
type opKind int

const (
	opReserve opKind = iota
	opGiveBack
	opFlush
)

// historyOp is one operation on the history of a protector.
type historyOp struct {
	kind    opKind
	removal quota.Removal
	// claim records what this request may give back. Only batches of one protector access it, and those run one at a
	// time. So it is correct even for a request whose caller did not wait for its batch.
	claim *quota.Claim
	// isPending reports that removal was admitted while the core was unreachable, and comes before all others.
	isPending bool
	// byPeer reports that another replica made the reservation to give back, so that this replica may not have seen
	// it.
	byPeer bool
	// spans holds the spans of the operation; nil when they are not recorded.
	spans *opSpans
}

// resultKind is what became of an operation:
//
//	kind            operation            meaning                             the request
//	resultNone      opGiveBack, opFlush  no claim was released               -
//	resultDecided   opReserve, opFlush   this replica has decided verdict    gives back in the newest state that it has seen
//	resultByPeer    opReserve            another replica has decided         gives back in the state of the core, because this
//	                                     verdict                             replica may not have seen the reservation (rule 7)
//	resultGaveBack  opGiveBack           the claim was released (rule 7)     counts it
//	resultReleased  all                  the protector was released, and     continues without the protector
//	                                     refuses nothing
type resultKind int

const (
	resultNone resultKind = iota
	resultDecided
	resultByPeer
	resultGaveBack
	resultReleased
)

// opResult is the result of an operation. verdict is zero unless kind is resultDecided or resultByPeer.
type opResult struct {
	kind    resultKind
	verdict quota.Verdict
}

// applyOps applies operations to the history of p, and reports whether the history changed. It processes them in the order
// in which they were requested, after pending charges: callers that waited for one batch arrive at the next protector all at once, in any
// order.
func applyOps(p *v1alpha1.PodProtector, ops []historyOp) (results []opResult, changed bool) {
	results = make([]opResult, len(ops))
	for order := requestOrder(ops); len(order) > 0; {
		first := ops[order[0]]
		switch first.kind {
		case opFlush:
			order = order[1:]
		case opGiveBack:
			if quota.ReleaseClaim(p, first.removal.Cell, first.removal.PodUID, *first.claim) { // rule 7
				results[order[0]].kind, changed = resultGaveBack, true
			}
			order = order[1:]
		case opReserve:
			var removals []quota.Removal // of all reservations up to the next operation of another kind
			for len(removals) < len(order) && ops[order[len(removals)]].kind == opReserve {
				removals = append(removals, ops[order[len(removals)]].removal)
			}
			wanted := p.Status.Wanted
			for i, verdict := range quota.Decide(p, removals) { // rule 2: Decide renews the reservation of a repeated request
				*ops[order[i]].claim = verdict.Claim
				results[order[i]] = opResult{resultDecided, verdict}
				changed = changed || verdict.Outcome.Written() || p.Status.Wanted != wanted
			}
			order = order[len(removals):]
		}
	}
	return results, changed
}

// requestOrder returns the indexes of operations in the order in which they were requested, those of pending charges first: the clock may have
// been set back since.
func requestOrder(ops []historyOp) []int {
	order := make([]int, len(ops))
	for i := range order {
		order[i] = i
	}
	isPending := func(i int) bool { return ops[i].isPending }
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case isPending(i) && !isPending(j):
			return -1
		case isPending(j) && !isPending(i):
			return 1
		default:
			return ops[i].removal.At.Compare(ops[j].removal.At)
		}
	})
	return order
}

// eachClaim applies change to the claims of the operations that reserve.
func eachClaim(ops []historyOp, change func(*quota.Claim)) {
	for _, op := range ops {
		if op.kind == opReserve {
			change(op.claim)
		}
	}
}

// dropSharedClaims makes operations not repeat that gave one of several claims to a reservation back in p, the state that was not accepted: a proxy may have
// sent the write twice, and only the second one met a conflict. Then the other claim would be given back. Without a repetition the reservation may
// stay until it is settled.
func dropSharedClaims(p *v1alpha1.PodProtector, ops []historyOp, results []opResult) {
	for i := range ops {
		cell := quota.CellOf(p, ops[i].removal.Cell)
		if results[i].kind == resultGaveBack && cell != nil && quota.HasReservation(&cell.AdmissionHistory, ops[i].removal.PodUID) {
			*ops[i].claim = quota.Claim{}
		}
	}
}
