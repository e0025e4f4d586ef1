package judge

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// shareJudge judges scenarios with shares by the history of the stores. The lock of the judge guards it.
//
//   - When a removal takes effect, as many pods are available in all cells as the floor requires, less those that have died by themselves.
//   - An open share is not below what the protector records (rule S2), and the protector records it (rule S6).
//   - A recorded share falls only in a write after which all shares and the pods of the other cells add up to the floor (rule S3).
//
// A floor that has risen counts as soon as all shares keep it (rule S4): a cell that is cut off cannot know it earlier. After a restore of the core,
// records count when their cells have confirmed them. After a restore of a cell's cluster, its share is open when it has entered again
// (rule S5).
//
//   - A break-glass removal that overrode a denial counts as a pod that has died. breakglass.go judges its charge.
//   - A protector that tolerates the loss of a domain never has a share (rule 12).
type shareJudge struct {
	history    *clusterHistory
	report     *report
	protectors map[protectorKey]*sharedProtector
	// shares are the shares that exist, by cell, and by their protector.
	shares map[string]map[protectorKey]*v1alpha1.PodProtector
	// restored are the versions at which clusters continued after their last restore.
	restored map[string]uint64
	// cutUntil is until when a cell is cut off a core.
	cutUntil map[string]time.Time
	// breakGlass are the break-glass removals.
	breakGlass *breakGlassRemovals
}

// sharedProtector is a protector of a scenario with shares.
type sharedProtector struct {
	*watchedProtector
	// died is how many pods became unavailable without a removal, and how many were missing when the entry of a deleted Cell was dropped.
	died int
	// dropped are the cells whose entries were dropped since their Cells were deleted. Their pods are no concern of the protector. lastDrop is when the
	// last entry was dropped.
	dropped  map[string]bool
	lastDrop time.Time
	// forgotten are the cells whose entries a restore of the core has undone. The protector relies on nothing in them until they enter again.
	forgotten map[string]bool
}

func newShareJudge(history *clusterHistory, r *report) *shareJudge {
	return &shareJudge{
		history: history, report: r, protectors: map[protectorKey]*sharedProtector{}, shares: map[string]map[protectorKey]*v1alpha1.PodProtector{},
		restored: map[string]uint64{}, cutUntil: map[string]time.Time{}, breakGlass: newBreakGlassRemovals(),
	}
}

// RecordCut records that a cell is cut off a core for a while.
func (j *Judge) RecordCut(cell string, length time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.shares.cutUntil[cell] = time.Now().Add(length)
}

// available returns how many pods of all cells are available for a protector.
func (j *shareJudge) available(p *sharedProtector) (pods int) {
	for name, cell := range j.history.cells {
		if !p.dropped[name] {
			pods += cell.available(p.watchedProtector, time.Now())
		}
	}
	return pods
}

// recordDropped records which entries a write of a protector has dropped or created. No removal is judged for the pods that the cells which stay lack then.
func (j *shareJudge) recordDropped(p *sharedProtector, old, stored *v1alpha1.PodProtector) {
	for cell := range j.history.cells {
		before := quota.CellOf(old, cell)
		switch {
		case quota.CellOf(stored, cell) != nil:
			delete(p.dropped, cell)
			delete(p.forgotten, cell)
		case before != nil && before.Discount == v1alpha1.DiscountDraining && old.UID == stored.UID:
			p.dropped[cell], p.lastDrop = true, time.Now()
			p.died += max(p.floors.lowestSince(time.Now())-j.available(p)-p.died, 0)
		}
	}
}

// judgePodChange judges a change of a pod of a cell, which change records. r is the removal that takes effect; nil for none. A nil shareJudge judges
// nothing.
func (j *shareJudge) judgePodChange(cell string, r *Removal, change func()) {
	if j == nil {
		change()
		return
	}
	before, removals := map[*sharedProtector]int{}, j.report.counts.Effective
	for _, p := range j.protectors {
		before[p] = j.available(p)
	}
	change()
	isRemoval := j.report.counts.Effective > removals
	if isRemoval && time.Now().Before(j.cutUntil[cell]) {
		j.report.counts.Alone++
	}
	isForced := isRemoval && j.breakGlass.isOverridden(r)
	if isForced {
		j.report.counts.Forced++
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.protectors), protectorKey.compare) {
		p := j.protectors[key]
		after := j.available(p)
		switch floor := p.floors.lowestSince(time.Now().Add(-scenario.RequestLimit - time.Second)); {
		case after >= before[p]:
		case !isRemoval || isForced || r != nil && r.Bypass != nil || j.isByReadinessRace(cell, p, r) || p.wasReviewedBeforeDrop(r):
			p.died += before[p] - after
		case after+p.died < floor:
			j.report.fail("after a removal in %s, %d pods are available for protector %s and %d have died, floor %d", cell, after, p.name(), p.died, floor)
		}
	}
}

// wasReviewedBeforeDrop reports whether a removal that takes effect was admitted while the pods of a cell counted that has left since. The cells that
// stay may lack its pod, like one that had died before: no share admits another removal then (rule S3).
func (p *sharedProtector) wasReviewedBeforeDrop(r *Removal) bool {
	return r != nil && r.latestReview != nil && r.latestReview.at.Before(p.lastDrop)
}

// isByReadinessRace reports whether the pod of a removal that took effect was not available when the removal was reviewed: then nothing is reserved.
func (j *shareJudge) isByReadinessRace(cell string, p *sharedProtector, r *Removal) bool {
	if r == nil || r.Reviewed == nil {
		return false
	}
	line := j.history.cells[cell].pods[r.Reviewed.UID]
	return line != nil && !j.history.wasCharged(p.watchedProtector, r, line.states[:len(line.states)-1])
}

// recordShare records a change of a share in the cluster of a cell. A nil shareJudge records nothing.
func (j *shareJudge) recordShare(cell string, share *v1alpha1.PodProtector, e *apiserver.Event) {
	if j == nil || share.Spec.ShareOf == nil {
		return
	}
	key := sharedProtectorOf(share)
	if j.shares[cell] == nil {
		j.shares[cell] = map[protectorKey]*v1alpha1.PodProtector{}
	}
	j.report.trace.Add("%s: share %s by %s: closed %v, %s", cell, share.Name, writerOrSimulator(e.By), share.Spec.ShareOf.Closed, describeStatus(share))
	if e.Type == watch.Deleted {
		delete(j.shares[cell], key)
		return
	}
	j.shares[cell][key] = share
	if p := j.protectors[key]; p != nil && p.toleratesDomainLoss() {
		j.report.fail("rule 12: %s has a share of protector %s, which tolerates the loss of a domain", cell, p.name())
	}
	j.judgeShares(key)
}

// sharedProtectorOf returns the protector of a share. The UID of a core's namespace kube-system is the name of the core.
func sharedProtectorOf(share *v1alpha1.PodProtector) protectorKey {
	return protectorKey{share.Spec.ShareOf.Core, types.NamespacedName{Namespace: share.Namespace, Name: share.Spec.ShareOf.Name}}
}

// recordProtector records a change of a protector in a core.
func (j *shareJudge) recordProtector(core string, p *v1alpha1.PodProtector, e *apiserver.Event) {
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	if e.Type == watch.Deleted {
		if e.By != "" || !isHeld(p) { // otherwise it was lost, and stays in force
			delete(j.protectors, key)
		}
		return
	}
	known := j.protectors[key]
	if known == nil {
		known = &sharedProtector{watchedProtector: newWatched(core), dropped: map[string]bool{}, forgotten: map[string]bool{}}
		j.protectors[key] = known
	}
	known.stored = p
	j.report.trace.Add("%s: protector %s by %s: %s, shares %v", core, p.Name, writerOrSimulator(e.By), describeStatus(p), j.recordedShares(known))
	if known.toleratesDomainLoss() && slices.ContainsFunc(p.Status.Cells, func(cell v1alpha1.PodProtectorCell) bool { return cell.Share != nil }) {
		j.report.fail("rule 12: protector %s tolerates the loss of a domain, and records a share", known.name())
	}
	floor := floorOf(p)
	if old, ok := e.Old.(*v1alpha1.PodProtector); ok {
		j.judgeFalls(known, old, floor)
		j.recordDropped(known, old, p)
	}
	j.recordFloor(known, floor)
	j.judgeShares(key)
}

// recordFloor records the floor that the shares keep from now on.
func (j *shareJudge) recordFloor(p *sharedProtector, floor int) {
	if last, isKnown := p.floors.last(); isKnown && !j.isKept(p, floor) {
		floor = min(floor, last)
	}
	p.floors.record(floor)
}

// isKept reports whether the shares keep a floor. If there are fewer pods, each share also covers the pods that are missing.
func (j *shareJudge) isKept(p *sharedProtector, floor int) bool {
	missing := max(floor-j.available(p), 0)
	for cell, share := range j.recordedShares(p) {
		pods := j.history.cells[cell].available(p.watchedProtector, time.Now())
		if share < pods+missing && missing > 0 {
			return false
		}
		floor -= min(share, pods)
	}
	for cell, truth := range j.history.cells {
		entry := quota.CellOf(p.stored, cell)
		switch {
		case p.dropped[cell]:
		case entry == nil: // the protector has just been recreated, and its shares are not known
			return false
		case entry.Share == nil && j.isVoid(p.core, entry.Aggregation.TermVersion), entry.Share != nil && j.isVoid(p.core, entry.Share.TermVersion):
			return false // after a restore, the cell has not confirmed its share
		case entry.Share == nil:
			floor -= truth.available(p.watchedProtector, time.Now())
		}
	}
	return floor <= missing
}

// RecordRestoredShares records which shares a restored cluster of a cell has.
func (j *Judge) RecordRestoredShares(c *Cluster) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.shares == nil {
		return
	}
	j.shares.restored[c.Name], j.shares.shares[c.Name] = c.RestoredVersion, map[protectorKey]*v1alpha1.PodProtector{}
	j.shares.breakGlass.forgetCharges()
	for _, share := range c.Protectors() {
		if share.Spec.ShareOf != nil {
			j.shares.shares[c.Name][sharedProtectorOf(share)] = share
		}
	}
}

// RecordRestoredProtectors records which protectors a restored core has. It was restored to a version.
func (j *Judge) RecordRestoredProtectors(c *Cluster, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.decreases.recordCoreRestore(c, version, c.RestoredVersion)
	if j.shares == nil {
		return
	}
	j.shares.restored[c.Name] = c.RestoredVersion
	j.shares.breakGlass.forgetCharges()
	for _, p := range c.Protectors() {
		if known := j.shares.protectors[protectorKey{c.Name, client.ObjectKeyFromObject(p)}]; known != nil {
			known.recordForgotten(p)
			known.stored = p
			j.shares.recordFloor(known, floorOf(p))
		}
	}
}

// recordForgotten records which entries a restore has undone.
func (p *sharedProtector) recordForgotten(restored *v1alpha1.PodProtector) {
	for i := range p.stored.Status.Cells {
		if cell := p.stored.Status.Cells[i].CellID; quota.CellOf(restored, cell) == nil {
			p.forgotten[cell] = true
		}
	}
}

// judgeFalls judges whether the shares that a write lowers, or records for the first time, may be that low. old is the protector before it.
func (j *shareJudge) judgeFalls(w *sharedProtector, old *v1alpha1.PodProtector, floor int) {
	p, before := w.stored, j.sharesIn(w.core, old)
	for cell, share := range j.recordedShares(w) {
		was, known := before[cell]
		if entry := quota.CellOf(old, cell); !known && entry != nil && (entry.Share != nil || j.isVoid(w.core, entry.Aggregation.TermVersion)) {
			continue // the cell confirms its share after a restore
		}
		isUndone := isRecreated(p) || w.forgotten[cell]
		if share := j.shares[cell][w.key()]; !known && isUndone && share != nil && j.isOpen(cell, share) {
			continue // the cell confirms the share that it had before the protector was lost, or its entry was undone
		}
		if was != share {
			j.report.counts.ShareSteps++
		}
		if promised := j.promisedPods(w, cell); (!known || share < was) && promised < floor {
			j.report.fail("rule S3: the share of %s is now %d, before %d, and protector %s is promised %d pods of %d", cell, share, was, w.name(), promised, floor)
		}
	}
}

// judgeShares judges the shares of a protector against its record.
func (j *shareJudge) judgeShares(key protectorKey) {
	p := j.protectors[key]
	if p == nil {
		return
	}
	recorded := j.recordedShares(p)
	for cell, shares := range j.shares {
		share := shares[key]
		if share == nil || share.Spec.ShareOf.UID != string(p.stored.UID) || !j.isOpen(cell, share) {
			continue
		}
		entry := quota.CellOf(p.stored, cell)
		switch floor, known := recorded[cell]; {
		case entry == nil && (isRecreated(p.stored) || p.forgotten[cell]): // it admits nothing before it is counted
		case !known && entry != nil && (entry.Share != nil || entry.Aggregation.Void || j.isVoid(p.core, entry.Aggregation.TermVersion)):
		case !known:
			j.report.fail("rule S6: protector %s does not record the open share of %s", p.name(), cell)
		case share.Spec.MinAvailable.IntValue() < floor:
			j.report.fail("rule S2: the share of %s is %d, protector %s records %d", cell, share.Spec.MinAvailable.IntValue(), p.name(), floor)
		}
	}
}

// isOpen reports whether a share admits removals.
func (j *shareJudge) isOpen(cell string, share *v1alpha1.PodProtector) bool {
	own := quota.CellOf(share, cell)
	if share.Spec.ShareOf.Closed || own == nil {
		return false
	}
	term := own.Aggregation.TermVersion
	return parseVersion(term) >= j.restored[cell] && (!own.Aggregation.Void || share.Spec.ShareOf.ConfirmedTerm == term)
}

// isVoid reports whether a leadership that began at a version of a core wrote before a restore of the core.
func (j *shareJudge) isVoid(core, term string) bool {
	return term == "" || parseVersion(term) < j.restored[core]
}

// key returns the core and the name of the protector.
func (p *sharedProtector) key() protectorKey {
	return protectorKey{p.core, client.ObjectKeyFromObject(p.stored)}
}

// recordedShares returns the shares that a protector records and that are confirmed, by cell.
func (j *shareJudge) recordedShares(p *sharedProtector) map[string]int {
	return j.sharesIn(p.core, p.stored)
}

// sharesIn returns those of a version of a protector of a core.
func (j *shareJudge) sharesIn(core string, p *v1alpha1.PodProtector) map[string]int {
	shares := map[string]int{}
	for i := range p.Status.Cells {
		if cell := &p.Status.Cells[i]; cell.Share != nil && !j.isVoid(core, cell.Share.TermVersion) {
			shares[cell.CellID] = int(cell.Share.Floor)
		}
	}
	return shares
}

// promisedPods returns what a cell relies on beside its own share: the sum of the confirmed shares of a protector, and of the pods that are left in the
// cells without a share. Other cells that are discounted count for nothing.
func (j *shareJudge) promisedPods(p *sharedProtector, to string) (pods int) {
	for i := range p.stored.Status.Cells {
		cell := &p.stored.Status.Cells[i]
		switch {
		case cell.CellID != to && isDiscounted(cell):
		case cell.Share != nil && j.isVoid(p.core, cell.Share.TermVersion):
		case cell.Share != nil:
			pods += int(cell.Share.Floor)
		case cell.Aggregation.CountedSpec == quota.CountedSpec(&p.stored.Spec):
			pods += int(cell.Aggregation.CountedReplicas) - countOpenReservations(&cell.AdmissionHistory)
		}
	}
	return pods
}
