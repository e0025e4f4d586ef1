package aggregator

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// look is a count, and the state of each open reservation at that count.
type look struct {
	count
	// better is the result of live reads for reservations that the snapshot alone does not settle.
	better map[quota.UIDHash]quota.Sighting
	// updated are the pods that a live read showed updated and available.
	updated map[quota.UIDHash]bool
	again   bool
	// wait requests another look after that time, when pods that must be seen alive before they count may be read again.
	wait time.Duration
}

func (l *look) see(r quota.Reservation) quota.Sighting {
	sighting := l.sightings[r.Hash]
	better, known := l.better[r.Hash]
	switch {
	case sighting == quota.Gone:
		return sighting
	case l.endsByTime(r):
		if r.Stamp.After(l.until) {
			return quota.Alive
		}
		return quota.Superseded
	case known:
		return better
	case sighting == quota.Updated && !l.updated[r.Hash]:
		return quota.Alive
	default:
		return sighting
	}
}

// endsByTime reports whether a reservation ends only by a later event. Reservations of updates never do: no event reports that an update
// is done. Those of relabels end by the version of their pods, which is more precise.
func (l *look) endsByTime(r quota.Reservation) bool {
	return !l.until.IsZero() && r.Update.None() && r.Relabel == 0
}

// look counts for a protector and determines for each reservation whether that count settles it. Usually the snapshot alone decides.
// Three kinds of reservation need a live read:
//
//   - The stream has never shown the pod, or has shown its end long before the reservation. Either the stream lags behind the pod's
//     creation, or the pod ended before this term began, or the cell was restored. A pod that a live read does not list has ended and is
//     never counted again.
//   - The admission deadline has passed. A pod that still lives then will not be removed by that reservation's request.
//   - The pod seems to be updated and available again; see isUpdated.
func (t *term) look(
	ctx context.Context, p *v1alpha1.PodProtector, target *v1alpha1.Target, history *v1alpha1.AdmissionHistory, earlier []standard,
) (look, bool, error) {
	key := keyOf(p)
	deadlines := t.deadlinesOf(key)
	deadlines.Observe(history, t.monotonic())
	reservations := quota.Reservations(history)

	first, err := t.firstOf(ctx, p, target, len(earlier) > 0)
	if err != nil {
		return look{}, false, err
	}
	counted := func() (count, bool) {
		c, ok := t.snapshot.Count(key, &p.Spec, reservations, first, earlier)
		c.doubt(reservations, deadlines.FirstSeen)
		return c, ok
	}
	count, ok := counted()
	if !ok {
		return look{}, false, nil
	}
	l := look{count: count, better: map[quota.UIDHash]quota.Sighting{}, updated: map[quota.UIDHash]bool{}}
	if count.unseen > 0 {
		if l.wait, err = t.readAlive(ctx, p, target); err != nil {
			t.log.Error(err, "Pods that became available are not counted until a live read has shown them", "protector", key)
			l.again = true
		}
		if l.count, ok = counted(); !ok {
			return look{}, false, nil
		}
		if l.unseen > 0 { // the stream does not show their end yet, or they became available meanwhile
			l.wait = max(l.wait, aliveReadEvery)
		}
	}
	deadline, now := time.Duration(t.admissionDeadline.Load()), t.monotonic()
	passed := func(r quota.Reservation) bool { return deadlines.Passed(r, deadline, now) }
	doubtful := t.doubt(ctx, p, &l, reservations, passed)
	if len(doubtful) == 0 {
		return l, true, nil
	}
	live, err := t.seeAlive(ctx, key.Namespace, "")
	if err != nil {
		// Reservations that were not settled stay and keep reducing the budget; the counts are still valid.
		t.log.Error(err, "Reservations are kept that a live read could have settled", "protector", key)
		l.again = true
		return l, true, nil
	}
	unlisted := l.compare(doubtful, &live, deadlines, passed, updateTimeout(p))
	if len(unlisted) > 0 {
		t.snapshot.BuryUnlisted(unlisted, live.version)
		if l.count, ok = counted(); !ok {
			return look{}, false, nil
		}
	}
	return l, true, nil
}

// compare evaluates a live read of the namespace for doubtful reservations, and returns the unseen pods that it does not list.
func (l *look) compare(
	doubtful []quota.Reservation, live *liveRead, deadlines *quota.Deadlines, passed func(quota.Reservation) bool, timeout time.Duration,
) (unlisted []quota.UIDHash) {
	for _, r := range doubtful {
		switch pod, listed := live.pods[r.Hash]; {
		case !listed && l.sightings[r.Hash] == quota.Unseen:
			unlisted = append(unlisted, r.Hash)
		case listed && pod.terminating && !l.ended[r.Hash].IsZero():
			l.better[r.Hash] = quota.Gone // the counts leave it out, and no later snapshot will count it
		case listed && !pod.terminating && passed(r) && l.shows(pod):
			l.passed(r, pod, deadlines, timeout)
		default:
			l.again = true
		}
	}
	return unlisted
}

// shows reports whether the counts include the state in which a live read has found a pod. An older snapshot can count a pod that was
// relabeled since. The reservation of that pod must stay until a newer snapshot does not count it (rule 14).
func (l *look) shows(pod livePod) bool { return pod.version > 0 && uint64(pod.version) <= l.version }

// relabeled returns the state of a reservation once the relabel for which it was made can no longer take effect. A pod that stays covered
// may still be under update.
func relabeled(r quota.Reservation, covered bool) quota.Sighting {
	if covered && !r.Update.None() {
		return quota.Unremoved
	}
	return quota.Relabeled
}

// doubt returns the reservations that a live read of the namespace could settle, and determines which updates are done.
func (t *term) doubt(
	ctx context.Context, p *v1alpha1.PodProtector, l *look, reservations iter.Seq[quota.Reservation], passed func(quota.Reservation) bool,
) []quota.Reservation {
	var doubtful []quota.Reservation
	for r := range reservations {
		if l.endsByTime(r) {
			continue
		}
		sighting := l.sightings[r.Hash]
		if sighting == quota.Updated {
			updated, err := t.isUpdated(ctx, p, r)
			if err != nil {
				t.log.Error(err, "Whether a pod is updated is not known", "protector", keyOf(p))
				l.again = true
			}
			if updated {
				l.updated[r.Hash] = true
				continue
			}
		}
		switch {
		case sighting == quota.Gone, sighting == quota.Relabeled:
		case sighting == quota.Unremoved:
			l.again = true // the next round checks the update
		case sighting == quota.Unseen, passed(r):
			doubtful = append(doubtful, r)
		}
	}
	return doubtful
}

// passed records the state of a reservation whose deadline has passed and whose pod lives.
func (l *look) passed(r quota.Reservation, pod livePod, deadlines *quota.Deadlines, timeout time.Duration) {
	switch u := &r.Update; {
	case u.None(), !u.Removal && pod.generation > 0 && pod.generation < u.Generation:
		l.better[r.Hash] = quota.Expired
	case u.Removal:
		l.better[r.Hash], l.again = quota.Unremoved, true
	case deadlines.TookEffect(r, timeout):
		l.better[r.Hash] = quota.Overdue
	default:
		l.again = true // the other deadline applies now
	}
}

// liveRead is the pods of a namespace as the API server has them at a version.
type liveRead struct {
	version uint64
	pods    map[quota.UIDHash]livePod
}

// livePod is the part of a pod that a live read returns; generation is 0 if the API server does not set it for pods.
type livePod struct {
	terminating bool
	generation  int64
	version     int64
}

// lists reports whether a pod existed.
func (l *liveRead) lists(hash quota.UIDHash) bool {
	_, listed := l.pods[hash]
	return listed
}

// alive reports whether a pod existed and was not terminating.
func (l *liveRead) alive(hash quota.UIDHash) bool {
	pod, listed := l.pods[hash]
	return listed && !pod.terminating
}

// readLive lists the metadata of the pods of a namespace that a selector matches, not from an old cache.
func (a *Aggregator) readLive(ctx context.Context, namespace, selector string) (liveRead, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	a.metrics.liveReads.Inc()
	pods := a.podNames.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	read := liveRead{pods: map[quota.UIDHash]livePod{}}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := pods.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			item := &page.Items[i]
			read.pods[quota.HashUID(item.UID)] = livePod{item.DeletionTimestamp != nil, item.Generation, podVersion(item.ResourceVersion)}
		}
		if read.version, err = listVersion(page); err != nil {
			return nil, err
		}
		page.Items = nil
		return page, nil
	}
	if _, _, err := pager.New(list).List(ctx, metav1.ListOptions{LabelSelector: selector}); err != nil {
		return liveRead{}, fmt.Errorf("list the pods of namespace %s: %w", namespace, err)
	}
	return read, nil
}

// liveVersion returns the current version of the cell's API server, not from an old cache.
func (a *Aggregator) liveVersion(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	page, err := a.podNames.Resource(corev1.SchemeGroupVersion.WithResource("pods")).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("read the version of the cell's pods: %w", err)
	}
	return listVersion(page)
}

func listVersion(page *metav1.PartialObjectMetadataList) (uint64, error) {
	version, err := strconv.ParseUint(page.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resourceVersion %q of a list is not a number", page.ResourceVersion)
	}
	return version, nil
}
