package quota

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/floorshare"
)

// A cell with a share decides on it alone, so that the protector can rely on no more pods there than the share: it counts for
// min(L_c, A_c − |H_c|). See package floorshare, which has the rules.

// available returns A_c of a cell, for a spec. For a cell with a share it returns no more than what the share keeps, in addition to the
// pods that are reserved.
func available(cell *v1alpha1.PodProtectorCell, countedSpec string) int {
	pods := 0
	if cell.Aggregation.CountedSpec == countedSpec {
		pods = int(cell.Aggregation.CountedReplicas)
	}
	if cell.Share != nil {
		return min(pods, int(cell.Share.Floor)+reserved(cell))
	}
	return pods
}

// reserved returns |H_c| of a cell: the reservations that the protector has, and those of the share.
func reserved(cell *v1alpha1.PodProtectorCell) int {
	open := Open(&cell.AdmissionHistory)
	if cell.Share != nil {
		open += int(cell.Share.Reserved)
	}
	return open
}

// HasShare reports whether a cell decides on its share.
func HasShare(p *v1alpha1.PodProtector, cellID string) bool {
	cell := CellOf(p, cellID)
	return cell != nil && cell.Share != nil
}

// WantsShares reports whether the cells of a protector should decide on shares. What is left in each cell after the loss of a domain does not add up to the
// floor, so a protector that tolerates such a loss gets no shares (rule 12).
func WantsShares(p *v1alpha1.PodProtector) bool {
	return p.Spec.CoreOutage == v1alpha1.CoreOutageLocalShare && !toleratesDomainLoss(&p.Spec)
}

func toleratesDomainLoss(spec *v1alpha1.PodProtectorSpec) bool {
	return spec.Spread != nil && spec.Spread.TolerateDomainLoss
}

// IsShareOf reports whether a share belongs to a protector, to a lost one that it replaces, or to one that replaced it until a restore of the
// core.
func IsShareOf(share *v1alpha1.ShareOf, p *v1alpha1.PodProtector) bool {
	return share.Name == p.Name &&
		(share.UID == string(p.UID) || share.UID == p.Annotations[v1alpha1.AnnotationRestored] || share.FormerUID == string(p.UID))
}

// SharesOf returns what a protector records of its shares. restored is a version soon after the last restore of the core; 0 if there was none.
func SharesOf(p *v1alpha1.PodProtector, restored uint64) *floorshare.Protector {
	floor, known := Floor(p)
	shares, counted := &floorshare.Protector{Floor: floor, FloorUnknown: !known}, CountedSpec(&p.Spec)
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		one := floorshare.Cell{
			Name: cell.CellID, Reserved: reserved(cell), Unmoved: Open(&cell.AdmissionHistory), Discounted: cell.Discount != "",
		}
		one.Void = cell.Aggregation.Void || restored > 0 && isOfLostHistory(cell.Aggregation.TermVersion, restored)
		if one.Uncounted = one.Void || cell.Aggregation.CountedSpec != counted; !one.Uncounted {
			one.Available = int(cell.Aggregation.CountedReplicas)
		}
		if cell.Share != nil {
			one.Shared, one.Floor, one.Wanted = true, int(cell.Share.Floor), int(cell.Share.Wanted)
			one.Void = isOfLostHistory(cell.Share.TermVersion, restored)
		}
		shares.Cells = append(shares.Cells, one)
	}
	return shares
}

// MayDropCell reports whether the entry of a cell may be dropped from a protector: the shares of the other cells keep the floor without it (rule S3).
// A cell that is discounted makes them rise to that. restored is as for SharesOf.
func MayDropCell(p *v1alpha1.PodProtector, cellID string, restored uint64) bool {
	without := p.DeepCopy()
	DropCell(without, cellID)
	return SharesOf(without, restored).KeepsFloor()
}

// AwaitsConfirmation reports whether a share has not been opened since its cluster was restored.
func AwaitsConfirmation(of *v1alpha1.ShareOf, counts *v1alpha1.Aggregation) bool {
	return counts.Void && of.ConfirmedTerm != counts.TermVersion
}

// allowedByShares returns the number of removals that the cells with shares would admit now.
func allowedByShares(p *v1alpha1.PodProtector) (removals int) {
	for _, cell := range SharesOf(p, 0).Cells {
		removals += cell.Slack()
	}
	return removals
}

// MergeReservations adds the reservations of another history to a history. Moving a cell between a protector and its share is repeated after a
// failure, so a pod may have one in both. It then keeps one, with the later time, for both purposes, and no request may give it back.
func MergeReservations(h *v1alpha1.AdmissionHistory, others *v1alpha1.AdmissionHistory) {
	for i := range others.Buckets {
		bucket := others.Buckets[i].DeepCopy()
		if isMerged(bucket) {
			keepMerged(bucket, func(_ int, r Reservation) bool {
				at, known := findHash(h, r.Hash)
				if known {
					joinMerged(h, at, bucket, r.Stamp)
				}
				return !known
			})
		} else if at, known := findReservation(h, bucket.PodUID); known {
			join(h, at, bucket)
			continue
		}
		if bucket.Counter > 0 {
			h.Buckets = append(h.Buckets, *bucket)
		}
	}
}

// join replaces a reservation by one that is also that of another bucket, which is single.
func join(h *v1alpha1.AdmissionHistory, at position, other *v1alpha1.Bucket) {
	own, stamp := h.Buckets[at.bucket], metav1.NewMicroTime(stampAt(h, at))
	renewed, old := other, &own
	if !isMerged(&own) && !other.StartTime.After(stamp.Time) {
		renewed, old = &own, other
	}
	removeReservation(h, at)
	if renewed.StartTime.Before(&stamp) {
		renewed.StartTime = stamp
	}
	carryOver(renewed, old)
	if renewed.Token != old.Token {
		makePermanent(renewed)
	}
	h.Buckets = append(h.Buckets, *renewed)
}

// joinMerged makes a reservation also that of another bucket, which is merged and has it with a time. If both are merged, all others of the bucket
// get that time and purpose too, which is stricter.
func joinMerged(h *v1alpha1.AdmissionHistory, at position, other *v1alpha1.Bucket, stamp time.Time) {
	own := &h.Buckets[at.bucket]
	isLater := stamp.After(stampAt(h, at))
	switch {
	case !isMerged(own):
		if isLater {
			own.StartTime = metav1.NewMicroTime(stamp)
		}
		carryOver(own, other)
		makePermanent(own)
		return
	case isRelabel(own) && isRelabel(other):
		own.PodVersion = max(relabelVersion(own), relabelVersion(other))
	case isRelabel(own):
		own.Operation, own.PodVersion = "", 0
	}
	if runs := runsOf(own); isLater {
		if latest := runs[len(runs)-1].stamp; latest.After(stamp) {
			stamp = latest
		}
		own.StartTime, own.EndTime = metav1.NewMicroTime(stamp), nil
		setTimes(own, []run{{stamp, hashCount(own)}})
	}
}

// makePermanent makes a single reservation one that no request may give back.
func makePermanent(bucket *v1alpha1.Bucket) {
	bucket.Token, bucket.Holders, bucket.RevocableUntil = "", 0, nil
}

// countWanted records in a share how many removals it has denied for lack of budget. One record is enough until the share has budget again.
func countWanted(p *v1alpha1.PodProtector, verdicts []Verdict) {
	if !RecordsWanted(p) {
		return
	}
	for _, v := range verdicts {
		if v.Outcome == DeniedNoBudget {
			p.Status.Wanted++
		}
	}
}

// RecordsWanted reports whether a denial for lack of budget changes a status: that of a share that has not recorded one yet.
func RecordsWanted(p *v1alpha1.PodProtector) bool {
	return p.Spec.ShareOf != nil && p.Status.Wanted == 0
}

// CountMore returns how many reservations of a history another one lacks.
func CountMore(h, than *v1alpha1.AdmissionHistory) (more int) {
	known := map[UIDHash]bool{}
	for r := range Reservations(than) {
		known[r.Hash] = true
	}
	for r := range Reservations(h) {
		if !known[r.Hash] {
			more++
		}
	}
	return more
}
