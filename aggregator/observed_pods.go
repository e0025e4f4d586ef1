package aggregator

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// observation is a count, and the state of each open reservation at that count.
type observation struct {
	snapshot.Count
	// liveStates is the result of live reads for reservations that the snapshot alone does not settle.
	liveStates map[quota.UIDHash]quota.Observation
	// updated are the pods that a live read showed updated and available.
	updated map[quota.UIDHash]bool
	// retry requests another look after the aggregation rate, because a live read was inconclusive.
	retry bool
	// wait requests another look after that time, when pods that must be seen alive before they count may be read again.
	wait time.Duration
}

// stateOf returns the state of a reservation's pod, as the mode Exact settles by it.
func (o *observation) stateOf(r quota.Reservation) quota.Observation {
	state := o.PodStates[r.Hash]
	liveState, known := o.liveStates[r.Hash]
	switch {
	case state == quota.Absent:
		return state
	case known:
		return liveState
	case state == quota.Updated && !o.updated[r.Hash]:
		return quota.Alive
	default:
		return state
	}
}

// podObserver counts for protectors from the snapshot and, where that cannot decide, by live reads.
type podObserver struct {
	snapshot  *snapshot.Snapshot
	deadlines *reservationDeadlines
	initial   *initialCounts
	reads     *snapshot.AliveReads
	// ReadPod asks the cell's API server for one pod; nil if there is none of that name.
	readPod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// clock judges how long pods have been ready. Deadlines use monotonic, which cannot be set.
	clock     *steadyClock
	monotonic func() time.Time
	log       logr.Logger
}

// observe counts for a protector and determines for each reservation whether that count settles it. Usually the snapshot alone decides.
// Three kinds of reservation need a live read:
//
//   - The stream has never shown the pod, or has shown its end long before the reservation. Either the stream lags behind the pod's
//     creation, or the pod ended before this leadership began, or the cell was restored. A pod that a live read does not list has ended and is
//     never counted again.
//   - The admission deadline has passed. A pod that still lives then will not be removed by that reservation's request.
//   - The pod seems to be updated and available again; see isUpdated.
//
// If isForced is set, the count is of a state of the cell not earlier than this call.
func (po *podObserver) observe(
	ctx context.Context, p *v1alpha1.PodProtector, target *v1alpha1.Target, history *v1alpha1.AdmissionHistory, earlier []snapshot.Rule, isForced bool,
) (observation, bool, error) {
	key := client.ObjectKeyFromObject(p)
	deadlines := po.deadlines.observe(key, history, po.monotonic())
	reservations := quota.Reservations(history)

	initial, err := po.initial.readFor(ctx, p, target, len(earlier) > 0, isForced)
	if err != nil {
		return observation{}, false, err
	}
	counted := func() (snapshot.Count, bool) {
		c, ok := po.snapshot.Count(key, &p.Spec, reservations, initial, earlier)
		c.MarkUnseen(reservations, deadlines.FirstSeen)
		return c, ok
	}
	first, ok := counted()
	if !ok {
		return observation{}, false, nil
	}
	o := observation{Count: first, liveStates: map[quota.UIDHash]quota.Observation{}, updated: map[quota.UIDHash]bool{}}
	if o.Unseen > 0 {
		if o.wait, err = po.reads.ReadLimited(ctx, p, target); err != nil {
			po.log.Error(err, "Failed to read pods that became available; retrying", "protector", key)
			o.retry = true
		}
		if o.Count, ok = counted(); !ok {
			return observation{}, false, nil
		}
		if o.Unseen > 0 { // the stream does not show their end yet, or they became available meanwhile
			o.wait = max(o.wait, snapshot.AliveReadMinInterval)
		}
	}
	deadline, now := po.deadlines.admissionDeadline(), po.monotonic()
	passed := func(r quota.Reservation) bool { return deadlines.HasPassed(r, deadline, now) }
	doubtful := po.needingLiveRead(ctx, p, &o, o.Cutoff.Exact(reservations), passed)
	if len(doubtful) == 0 {
		return o, true, nil
	}
	live, err := po.reads.Read(ctx, key.Namespace, "")
	if err != nil {
		// Reservations that were not settled stay and keep reducing the budget; the counts are still valid.
		po.log.Error(err, "Failed to read pods for settlement; keeping reservations", "protector", key)
		o.retry = true
		return o, true, nil
	}
	unlisted := o.evaluateLiveRead(doubtful, &live, deadlines, passed, p.Spec.AdmissionHistory.UpdateTimeoutOrDefault())
	if len(unlisted) > 0 {
		po.snapshot.RecordUnlisted(unlisted, live.Version)
		if o.Count, ok = counted(); !ok {
			return observation{}, false, nil
		}
	}
	return o, true, nil
}

// evaluateLiveRead evaluates a live read of the namespace for doubtful reservations, and returns the unseen pods that it does not list.
func (o *observation) evaluateLiveRead(
	doubtful []quota.Reservation, live *snapshot.LiveRead, deadlines *quota.Deadlines, passed func(quota.Reservation) bool, timeout time.Duration,
) (unlisted []quota.UIDHash) {
	for _, r := range doubtful {
		switch pod, listed := live.Pods[r.Hash]; {
		case !listed && o.PodStates[r.Hash] == quota.Unobserved:
			unlisted = append(unlisted, r.Hash)
		case listed && pod.Terminating && o.PodStates[r.Hash] == quota.Unobserved && !o.Ended[r.Hash].IsZero():
			o.liveStates[r.Hash] = quota.Absent // the counts leave it out, and no later snapshot will count it
		case listed && !pod.Terminating && passed(r) && o.includes(pod):
			o.recordPassedDeadline(r, pod, deadlines, timeout)
		default:
			o.retry = true
		}
	}
	return unlisted
}

// includes reports whether the counts include the state in which a live read has found a pod. An older snapshot can count a pod that was
// relabeled since. The reservation of that pod must stay until a newer snapshot does not count it (rule 14).
func (o *observation) includes(pod snapshot.LivePod) bool {
	return pod.IsIn(o.Version)
}

// needingLiveRead returns the reservations that a live read of the namespace could settle, and determines which updates are done.
func (po *podObserver) needingLiveRead(
	ctx context.Context, p *v1alpha1.PodProtector, o *observation, reservations iter.Seq[quota.Reservation], passed func(quota.Reservation) bool,
) []quota.Reservation {
	var doubtful []quota.Reservation
	for r := range reservations {
		state := o.PodStates[r.Hash]
		if state == quota.Updated {
			updated, err := po.isUpdated(ctx, p, r)
			if err != nil {
				po.log.Error(err, "Failed to read an updated pod", "protector", client.ObjectKeyFromObject(p))
				o.retry = true
			}
			if updated {
				o.updated[r.Hash] = true
				continue
			}
		}
		switch {
		case state == quota.Absent, state == quota.Relabeled:
		case state == quota.RemovalExpired:
			o.retry = true // the next round checks the update
		case state == quota.Unobserved, passed(r):
			doubtful = append(doubtful, r)
		}
	}
	return doubtful
}

// recordPassedDeadline records the state of a reservation whose deadline has passed and whose pod lives.
func (o *observation) recordPassedDeadline(r quota.Reservation, pod snapshot.LivePod, deadlines *quota.Deadlines, timeout time.Duration) {
	switch u := &r.Update; {
	case u.IsEmpty(), !u.Removal && pod.Generation > 0 && pod.Generation < u.Generation:
		o.liveStates[r.Hash] = quota.Expired
	case u.Removal:
		o.liveStates[r.Hash], o.retry = quota.RemovalExpired, true
	case deadlines.RecordEffect(r, timeout):
		o.liveStates[r.Hash] = quota.Overdue
	default:
		o.retry = true // the other deadline applies now
	}
}

func isUpdate(o v1alpha1.Operation) bool {
	return o == v1alpha1.OperationUpdate || o == v1alpha1.OperationResize
}

// isUpdated asks the cell's API server whether the pod of a reservation has been updated and is available again. The snapshot
// keeps no containers, and a kubelet reports a generation as observed before it restarts them. The read may be later than the
// snapshot: the pod is available in both, and the update that was to make it unavailable happened before the read.
func (po *podObserver) isUpdated(ctx context.Context, p *v1alpha1.PodProtector, r quota.Reservation) (bool, error) {
	if r.Update.Removal {
		return false, nil
	}
	pod, err := po.readPod(ctx, p.Namespace, r.PodName)
	if err != nil {
		return false, fmt.Errorf("read pod %s: %w", r.PodName, err)
	}
	if pod == nil || quota.HashUID(pod.UID) != r.Hash || pod.Status.ObservedGeneration < max(pod.Generation, r.Update.Generation) {
		return false, nil
	}
	restarts := map[string]int32{}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			restarts[statuses[i].Name] = statuses[i].RestartCount
		}
	}
	for _, c := range r.Update.Containers {
		if restarts[c.Name] < c.Restarts {
			return false, nil
		}
	}
	return podhealth.Of(pod, p.Spec.MinReadySeconds, po.clock.now()).Counted(p.Spec.Criterion), nil
}
