package reserve

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// escrows are the reservations that this process has made in advance with the protectors of a core, without pods. In a storm a removal that finds one is
// admitted at once, instead of waiting for a write, and the next write names its pod (rules E1 to E5). It is safe for concurrent use.
type escrows struct {
	// holder identifies this process, and ends with @ and the address at which other replicas reach it, if there are any.
	holder string
	// sinceBoot is a clock that also counts while the machine is suspended.
	sinceBoot func() time.Duration
	// flush writes a batch of a protector, and returns when that has ended.
	flush func(protector types.NamespacedName) error
	isFar func() bool
	// isOwner reports whether other replicas forward removals of a protector to this one. No other replica makes escrows: their writes would conflict.
	isOwner func(protector types.NamespacedName) bool

	mu      sync.Mutex
	held    map[escrowKey]*escrow
	stamp   int64 // of the last write
	closing bool
	naming  sync.WaitGroup
}

// escrowKey identifies an escrow.
type escrowKey struct {
	protector types.NamespacedName
	cell      string
}

// escrow is what this process has of one escrow. In each stored version its count is at least unused and the number of admitted ones together.
type escrow struct {
	// unused are reservations for removals to come.
	unused int
	// admitted are the removals that were admitted since the last write, whose pods the next write names.
	admitted []quota.Removal
	// written is when the last write of it began, and incarnation that of the core. took is how long that write took.
	written     time.Duration
	incarnation clusters.Mark
	took        time.Duration
	// demand is the most that one of the recent writes carried. It shrinks with each write.
	demand int
	// used is when a removal was last admitted by it, or reserved beside it.
	used time.Duration
	// isNaming reports that a goroutine names what is admitted, and isAllowed that the last write found that there may be an escrow.
	isNaming, isAllowed bool
	// draft is what the last write does to it, until an answer or a state of the protector shows that it was stored.
	draft *escrowCellDraft
}

const (
	// escrowDemand is how many of the removals that one write carried an escrow is made for.
	escrowDemand = 3
	// farEscrow is the least size of an escrow far from the core, where a write takes long.
	farEscrow = 48
	// maxFarEscrows is the number of protectors for which a lone removal makes one far from the core: giving it back is one more write.
	maxFarEscrows = 8
	// nameInterval is the shortest interval between writes that only name pods. After five times as long as a write takes, the core has little to do.
	nameInterval = 250 * time.Millisecond
	namePerWrite = 5
	// nameWithin is the longest interval, so that an escrow in use does not end.
	nameWithin = quota.EscrowLifetime / 2
	// giveBackFor is how long writes that give an escrow back are repeated. After that the aggregator ends it.
	giveBackFor = 30 * time.Second
)

func newEscrows(isFar func() bool) *escrows {
	return &escrows{
		holder: NewToken(), sinceBoot: sinceBoot, isFar: isFar, isOwner: func(types.NamespacedName) bool { return true }, held: map[escrowKey]*escrow{},
	}
}

// isFor reports whether an escrow may admit an operation: a single removal of a pod that nothing else decides about.
func (s *escrows) isFor(op *historyOp) bool {
	r := &op.removal
	return op.kind == opReserve && !op.isPending && !r.Force && r.Generation == 0 && r.PodVersion == 0 && r.RevocableUntil.IsZero() && r.PodUID != ""
}

// mayAdmit reports whether there is an escrow that may admit an operation, if the state of the protector allows it.
func (s *escrows) mayAdmit(key types.NamespacedName, op *historyOp) bool {
	if !s.isFor(op) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[escrowKey{key, op.removal.Cell}].isUsable(s.sinceBoot())
}

// observe applies the last write, if the stamp in a state of the protector shows that it was stored. The watch may be faster than the answer, or the answer
// was lost.
func (e *escrow) observe(stamp int64, now time.Duration) {
	if e != nil && e.draft != nil && e.draft.stamp == stamp {
		e.apply(now)
	}
}

// apply records that the last write was stored.
func (e *escrow) apply(now time.Duration) {
	d := e.draft
	e.admitted = slices.Clone(e.admitted[len(d.named):])
	e.unused += d.granted
	e.written, e.incarnation, e.took, e.draft = d.began, d.incarnation, now-d.began, nil
}

// clear forgets an escrow that no object has any more.
func (e *escrow) clear() { e.unused, e.admitted, e.draft = 0, nil, nil }

func (e *escrow) isUsable(now time.Duration) bool {
	return e != nil && e.unused > 0 && now-e.written <= quota.EscrowLifetime
}

// admit admits a removal by an escrow, if there is one that may. p is the newest known state of the protector. It must have the whole escrow, leave the
// floor, and have no reservation of the pod, whose renewal needs a write. The caller has checked mayAdmit.
func (s *escrows) admit(p *v1alpha1.PodProtector, key types.NamespacedName, op historyOp, isSame func(clusters.Mark) bool) (opResult, bool) {
	at, r := escrowKey{key, op.removal.Cell}, op.removal
	cell := quota.CellOf(p, r.Cell)
	if cell == nil || !quota.MayUseEscrow(p, r.Cell) || quota.HasReservation(&cell.AdmissionHistory, r.PodUID) {
		return opResult{}, false
	}
	stored, verdict := quota.EscrowOf(&cell.AdmissionHistory, s.holder), quota.Verdict{Outcome: quota.Renewed, Budget: quota.BudgetOf(p)}
	s.mu.Lock()
	defer s.mu.Unlock()
	e, now := s.held[at], s.sinceBoot()
	e.observe(stored.Stamp, now)
	if s.closing || !e.isUsable(now) || !isSame(e.incarnation) || int(stored.Count) < e.unused+len(e.admitted) {
		return opResult{}, false
	}
	switch before := slices.IndexFunc(e.admitted, func(other quota.Removal) bool { return other.PodUID == r.PodUID }); {
	case before < 0:
		e.unused--
		r.Token = "" // a later request for the pod relies on it too (rule 2), so that this one may not give it back
		e.admitted = append(e.admitted, r)
		verdict.Outcome = quota.Reserved
	case e.draft != nil && before < len(e.draft.named):
		return opResult{}, false // its name may be stored, and the aggregator time it since then: only a write renews it (rule 4)
	}
	e.used = now
	s.startNaming(at, e)
	return opResult{resultDecided, verdict}, true
}

// startNaming starts to name what an escrow admits, until it is not used any more and was given back. mu is held.
func (s *escrows) startNaming(at escrowKey, e *escrow) {
	if e.isNaming || s.closing {
		return
	}
	e.isNaming = true
	s.naming.Go(func() {
		for {
			s.awaitNaming(e)
			s.mu.Lock()
			isOver := e.draft == nil || s.sinceBoot()-e.used > giveBackFor
			if len(e.admitted) == 0 && e.unused == 0 && isOver {
				e.isNaming = false
				delete(s.held, at)
				s.mu.Unlock()
				return
			}
			isLast := s.closing
			s.mu.Unlock()
			if err := s.flush(at.protector); err != nil && isLast {
				return // the aggregator will end the escrow
			}
		}
	})
}

// mayHold reports whether this process may have escrows of a protector for which it has just reserved removals.
func (s *escrows) mayHold(protector types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, e := range s.held {
		if at.protector == protector && e.isAllowed {
			return true
		}
	}
	return false
}

// otherHolders returns the addresses of the replicas that may have reserved removals of a cell in advance, by a state of the protector.
func (s *escrows) otherHolders(p *v1alpha1.PodProtector, cellID string) (addresses []string) {
	cell := quota.CellOf(p, cellID)
	if cell == nil {
		return nil
	}
	for _, e := range cell.AdmissionHistory.Escrows {
		if _, address, hasAddress := strings.Cut(e.Holder, "@"); hasAddress && e.Holder != s.holder {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// drop forgets the escrows of a protector that was released.
func (s *escrows) drop(protector types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, e := range s.held {
		if at.protector == protector {
			e.clear()
		}
	}
}

// awaitNaming waits until the next write of an escrow should begin: soon if little of it is left.
func (s *escrows) awaitNaming(e *escrow) {
	s.mu.Lock()
	wait := min(max(nameInterval, namePerWrite*e.took), nameWithin)
	s.mu.Unlock()
	const steps = 10
	for range steps {
		<-time.After(wait / steps)
		s.mu.Lock()
		isLow := s.closing || e.unused < len(e.admitted)/2
		s.mu.Unlock()
		if isLow {
			return
		}
	}
}

// escrowDraft is what a write does to the escrows of a protector. incarnation is that of the core that it is decided on.
type escrowDraft struct {
	key         types.NamespacedName
	incarnation clusters.Mark
	cells       []escrowCellDraft
}

type escrowCellDraft struct {
	cell        string
	began       time.Duration
	incarnation clusters.Mark
	// stamp is the one that only this write stores; 0 if it stores no escrow.
	stamp  int64
	demand int
	// named are the admitted removals that the write names. unused and granted are the rest of the escrow in it.
	named           []quota.Removal
	unused, granted int
	// isIdle reports that no removal has used it for a while, so that it gets no more.
	isIdle, changed bool
}

// name names the admitted removals of a protector in p (rule E1). It comes before all decisions of the write: these removals were admitted first.
func (s *escrows) name(d *escrowDraft, p *v1alpha1.PodProtector, ops []historyOp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, now := client.ObjectKeyFromObject(p), s.sinceBoot()
	isOwner := s.isOwner(key)
	d.key = key
	for at, e := range s.held {
		if at.protector == key && quota.CellOf(p, at.cell) == nil && !quota.IsRestorePending(p) {
			e.clear() // the cell was taken out of service, or will be counted for the first time
		}
	}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		reserving := countReserving(ops, cell.CellID)
		e := s.held[escrowKey{key, cell.CellID}]
		if e == nil && reserving == 0 {
			continue
		}
		if e == nil {
			s.forgetIdle(now)
			e = &escrow{}
			s.held[escrowKey{key, cell.CellID}] = e
		}
		stored := quota.EscrowOf(&cell.AdmissionHistory, s.holder)
		e.observe(stored.Stamp, now)
		e.isAllowed = isOwner && quota.MayEscrow(p, cell.CellID)
		isIdle := s.closing || !isOwner || now-e.used > nameWithin && reserving == 0
		if reserving > 0 {
			e.used = now
		}
		isScarce := quota.BudgetOf(p).Left() < len(ops) // those that wait come first (rule E3)
		if isIdle || isScarce || int(stored.Count) < e.unused+len(e.admitted) {
			e.unused = 0 // it is given back, or has ended (rule E4)
		}
		e.demand = max(reserving+len(e.admitted), e.demand*7/8)
		if isIdle {
			e.demand = 0
		}
		one := escrowCellDraft{
			cell: cell.CellID, began: now, incarnation: d.incarnation, demand: e.demand, named: slices.Clone(e.admitted), unused: e.unused, isIdle: isIdle,
		}
		if one.changed = len(one.named) > 0 || int(stored.Count) != e.unused; one.changed {
			one.stamp = s.nextStamp()
			quota.NameEscrowed(p, cell.CellID, s.holder, one.named, e.unused, one.stamp)
		} else {
			e.draft = nil // the state has what it stored, or shows that it was not stored
		}
		d.cells = append(d.cells, one)
	}
}

// forgetIdle limits memory: the demand for a protector may never matter again. Go iterates maps in random order, so checking a few entries for each new one
// is enough. mu is held.
func (s *escrows) forgetIdle(now time.Duration) {
	checked := 0
	for at, e := range s.held {
		if !e.isNaming && e.unused == 0 && len(e.admitted) == 0 && now-e.used > quota.EscrowLifetime {
			delete(s.held, at)
		}
		if checked++; checked == 4 {
			return
		}
	}
}

// grant adds reservations to the escrows of a draft, after the write has decided on all operations (rule E3).
func (s *escrows) grant(d *escrowDraft, p *v1alpha1.PodProtector) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range d.cells {
		one := &d.cells[i]
		wanted := 0
		switch {
		case one.isIdle:
		case s.isFar() && (one.demand > 1 || len(s.held) <= maxFarEscrows):
			wanted = max(one.demand*escrowDemand, farEscrow)
		case one.demand > 1:
			wanted = one.demand * escrowDemand
		}
		one.granted = quota.GrantEscrow(p, one.cell, wanted-one.unused)
		if cell := quota.CellOf(p, one.cell); one.granted > 0 && cell != nil {
			one.stamp = s.nextStamp()
			quota.SetEscrow(&cell.AdmissionHistory, s.holder, one.unused+one.granted, one.stamp)
			one.changed = true
		}
		if e := s.held[escrowKey{d.key, one.cell}]; e != nil && one.changed {
			e.draft = one
		}
		changed = changed || one.changed
	}
	return changed
}

// nextStamp returns a stamp that no write had before. mu is held.
func (s *escrows) nextStamp() int64 {
	s.stamp++
	return s.stamp
}

// stored records that the write of a draft has succeeded.
func (s *escrows) stored(d *escrowDraft) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sinceBoot()
	for i := range d.cells {
		one := &d.cells[i]
		if !one.changed {
			continue
		}
		at := escrowKey{d.key, one.cell}
		e := s.held[at]
		if e == nil { // it was empty for a moment
			e = &escrow{demand: one.demand, used: one.began, draft: one}
			s.held[at] = e
		}
		if e.draft == one {
			e.apply(now)
		}
		if e.unused > 0 {
			s.startNaming(at, e)
		}
	}
}

// close names all pods and gives all escrows back. Nothing is admitted by an escrow any more.
func (s *escrows) close() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.naming.Wait()
	for _, protector := range s.ungiven() {
		_ = s.flush(protector) // if it fails, the aggregator ends the escrow
	}
}

// ungiven returns the protectors with an escrow that nothing gives back: the write that made it was under way when closing began.
func (s *escrows) ungiven() (protectors []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, e := range s.held {
		if e.unused > 0 && !e.isNaming && !slices.Contains(protectors, at.protector) {
			protectors = append(protectors, at.protector)
		}
	}
	return protectors
}

// countReserving returns for how many pods operations reserve in a cell. A request that is repeated asks for nothing more.
func countReserving(ops []historyOp, cell string) int {
	pods := map[types.UID]bool{}
	for i := range ops {
		if ops[i].kind == opReserve && ops[i].removal.Cell == cell {
			pods[ops[i].removal.PodUID] = true
		}
	}
	return len(pods)
}
