package aggregator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/aggregator/conditions"
	"github.com/breakwater-k8s/breakwater/aggregator/ownership"
	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

const (
	simulatedCellName = "c0"
	simulatedDeadline = 65 * time.Second
	// simulatedInFlight is how long removals may take effect of which no reservation is known.
	simulatedInFlight = simulatedDeadline + quota.EscrowLifetime
	// simulatedUpdateTimeout never passes while the test acts: after it, the effects of an update are not reserved.
	simulatedUpdateTimeout = 24 * time.Hour
)

// simulatedCell is one cell and its core as the aggregator's loop sees them: pods, a lagging watch, a stored protector that
// changes by compare-and-swap only, removals in flight, and an aggregator that may be one of several that believe
// they lead. Pods only end by removals that were admitted.
type simulatedCell struct {
	clock   time.Time
	version uint64
	pods    map[types.UID]*corev1.Pod
	// ended are pods that were removed; clients may still request their removal.
	ended []*corev1.Pod
	// toRestart are the updated pods whose kubelet has yet to restart their container; restarts counts the restarts.
	toRestart map[types.UID]bool
	restarts  int
	// relabels counts the relabels that took effect.
	relabels int
	events   []event
	inFlight []inFlight

	stored        *v1alpha1.PodProtector
	storedVersion int
	// history are all states that were ever stored.
	history []*v1alpha1.PodProtector

	// leaders all believe they lead. Each has received its own number of events.
	leaders []*leader
	// pending are aggregations that any leader has computed and not written yet.
	pending []pendingWrite
	// scope selects the pods of the cell. A change of its labels makes a pod leave or enter.
	scope    scope.Scope
	epoch    int64
	podCount int
	// lostVersion is the version of the core up to which its history was lost; 0 if none was.
	lostVersion int
}

type leader struct {
	*leadership
	delivered int
}

type event struct {
	created, deleted bool
	pod              *corev1.Pod
}

type inFlight struct {
	uid      types.UID
	deadline time.Time
	// generation is that of the pod after the update; 0 for a removal or relabel.
	generation int64
	// version is that of the pod for which a relabel was reviewed; empty for all other requests.
	version string
}

type pendingWrite struct {
	at  int
	new *v1alpha1.PodProtector
}

func newSimulatedCell(floor int, compact int32) *simulatedCell {
	w := &simulatedCell{clock: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), version: 1, pods: map[types.UID]*corev1.Pod{}, toRestart: map[types.UID]bool{}}
	w.stored = &v1alpha1.PodProtector{}
	w.stored.Namespace, w.stored.Name, w.stored.Generation = "default", "web", 1
	w.stored.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	w.stored.Spec.MinAvailable = v1alpha1.Pods(int32(floor))
	w.stored.Spec.AdmissionHistory.CompactThreshold = &compact
	w.history = []*v1alpha1.PodProtector{w.stored}
	timeout := int32(simulatedUpdateTimeout.Seconds())
	w.stored.Spec.AdmissionHistory.UpdateTimeoutSeconds = &timeout
	return w
}

// useSelector makes a selector define the cell.
func (w *simulatedCell) useSelector() {
	var err error
	w.scope, err = scope.Of(&v1alpha1.CellSpec{PodSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": simulatedCellName}}})
	if err != nil {
		panic(err)
	}
}

func (w *simulatedCell) key() types.NamespacedName { return client.ObjectKeyFromObject(w.stored) }

func (w *simulatedCell) recordEvent(pod *corev1.Pod, deleted bool) {
	w.version++
	pod.ResourceVersion = strconv.FormatUint(w.version, 10)
	w.events = append(w.events, event{deleted: deleted, pod: pod.DeepCopy()})
}

func (w *simulatedCell) create(ready bool) {
	w.podCount++
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: fmt.Sprint("web-", w.podCount), UID: types.UID(fmt.Sprint("uid-", w.podCount)),
		Labels: map[string]string{"app": "web"},
	}}
	p.Spec.NodeName = "node-1"
	p.Generation, p.Status.ObservedGeneration = 1, 1
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web"}}
	setReady(p, ready)
	w.setInCell(p, true)
	w.pods[p.UID] = p
	w.recordEvent(p, false)
	w.events[len(w.events)-1].created = true
}

// setInCell sets the label of a pod by which it is in the cell or not, if a selector defines the cell.
func (w *simulatedCell) setInCell(p *corev1.Pod, in bool) {
	if w.scope.DependsOnLabels() {
		p.Labels["cell"] = map[bool]string{true: simulatedCellName, false: "another"}[in]
	}
}

// has reports whether a pod is in the cell.
func (w *simulatedCell) has(p *corev1.Pod) bool { return w.scope.Has(p.Namespace, p.Labels) }

// listOf returns the list of these pods as a reflector passes it on.
func listOf(s *snapshot.Snapshot, pods ...*corev1.Pod) (list []any) {
	strip := s.Transformer()
	for _, p := range pods {
		stripped, err := strip(p)
		if err != nil {
			panic(err)
		}
		list = append(list, stripped)
	}
	return list
}

func samplePod(name, uid, version string, labels map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), Labels: labels, ResourceVersion: version,
	}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	setReady(p, true)
	return p
}

func setReady(p *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

func (w *simulatedCell) available(p *corev1.Pod) bool {
	return isCovered(p) && podhealth.Of(p, 0, w.clock).Available
}

func (w *simulatedCell) availableNow() int {
	n := 0
	for _, p := range w.pods {
		if w.available(p) {
			n++
		}
	}
	return n
}

// lead starts a leadership as a new leader does: a consistent list, no timers, a higher epoch.
func (w *simulatedCell) lead() {
	w.epoch++
	now := func() time.Time { return w.clock }
	a := &Aggregator{
		options: Options{Cell: simulatedCellName, Identity: fmt.Sprint("leader-", len(w.leaders))},
		metrics: newMetrics(prometheus.NewRegistry()), clocks: clocks{now: now, monotonic: now, steady: &steadyClock{wall: now, monotonic: now}},
	}
	w.storedVersion++ // raising the epoch writes the Cell
	state := startState{
		cell:    &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: simulatedCellName, UID: "cell-1"}},
		version: uint64(w.storedVersion), restored: uint64(w.lostVersion), beganAt: w.clock,
	}
	stop := func(error) {}
	owned := ownership.OfLeader(a.options.Identity, w.epoch, w.clock, stop)
	pods := snapshot.New(func(types.NamespacedName, time.Duration) {}, func(err error) { panic(err) }, a.clocks.steady.now, now)
	pods.Configure(w.scope, func(types.NamespacedName) bool { return false })
	l := a.assemble(state, owned, pods, &enqueuer{ownership: owned, clock: a.clocks.steady, log: logr.Discard()}, logr.Discard(), stop)
	l.reconciler.pods.deadlines.admission.Store(int64(simulatedDeadline))
	l.reconciler.pods.reads.ReadLive = func(_ context.Context, _, selector string) (snapshot.LiveRead, error) {
		return w.readLive(selector), nil
	}
	l.reconciler.entries.readCell = func(context.Context) (*v1alpha1.Cell, uint64, error) { return state.cell, state.version, nil }
	l.reconciler.pods.readPod = func(_ context.Context, _, name string) (*corev1.Pod, error) { return w.podNamed(name), nil }
	if !isCounted(w.stored, simulatedCellName, nil) { // as initialCounts.expect does
		l.reconciler.pods.initial.counts.Set(w.key(), &initialCount{uid: w.stored.UID, spec: quota.CountedSpec(&w.stored.Spec)})
	}
	w.leaders = append(w.leaders, &leader{leadership: l})
	w.relist(w.newest())
}

func (w *simulatedCell) newest() *leader { return w.leaders[len(w.leaders)-1] }

func (w *simulatedCell) relist(l *leader) {
	var list []*corev1.Pod
	for _, p := range w.pods {
		if w.has(p) {
			list = append(list, p.DeepCopy())
		}
	}
	if err := l.snapshot.Replace(listOf(l.snapshot, list...), strconv.FormatUint(w.version, 10)); err != nil {
		panic(err)
	}
	l.delivered = len(w.events)
}

func (w *simulatedCell) readLive(selector string) snapshot.LiveRead {
	chosen, err := labels.Parse(selector)
	if err != nil {
		panic(err)
	}
	read := snapshot.LiveRead{Version: w.version, Pods: map[quota.UIDHash]snapshot.LivePod{}}
	for uid, p := range w.pods {
		if !chosen.Matches(labels.Set(p.Labels)) {
			continue
		}
		read.Pods[quota.HashUID(uid)] = snapshot.LivePod{
			Terminating: p.DeletionTimestamp != nil, Generation: p.Generation, Version: snapshot.PodVersion(p.ResourceVersion),
		}
	}
	return read
}

func (w *simulatedCell) podNamed(name string) *corev1.Pod {
	for _, p := range w.pods {
		if p.Name == name {
			return p.DeepCopy()
		}
	}
	return nil
}

func (l *leader) deliver(events []event, n int) {
	for ; n > 0 && l.delivered < len(events); n-- {
		e := events[l.delivered]
		l.delivered++
		take := l.snapshot.Update
		switch {
		case e.deleted:
			take = l.snapshot.Delete
		case e.created:
			take = l.snapshot.Add
		}
		if err := take(e.pod.DeepCopy()); err != nil {
			panic(err)
		}
	}
}

// beginAggregation computes an aggregation without writing it.
func (w *simulatedCell) beginAggregation(l *leader) error {
	p := w.stored.DeepCopy()
	if _, err := l.reconciler.aggregate(context.Background(), w.key(), p); err != nil {
		return err
	}
	conditions.Summarize(p, l.reconciler.enqueuer.clock.now())
	w.pending = append(w.pending, pendingWrite{at: w.storedVersion, new: p})
	return nil
}

// finishAggregation writes an aggregation, if the object has not changed since it was computed.
func (w *simulatedCell) finishAggregation(i int) {
	p := w.pending[i]
	w.pending = slices.Delete(w.pending, i, i+1)
	if p.at == w.storedVersion {
		w.store(p.new)
	}
}

func (w *simulatedCell) store(p *v1alpha1.PodProtector) {
	w.storedVersion++
	if w.stored.UID != p.UID {
		for _, l := range w.leaders { // their watches report the deletion
			l.reconciler.entries.endedProtectors.recordEnd(w.stored, simulatedCellName, false, w.clock)
		}
	}
	w.stored = p
	w.history = append(w.history, p)
}

// restore recreates the protector as the keeper does, which may have last seen an older state of it.
func (w *simulatedCell) restore(i int) {
	p := w.stored.DeepCopy()
	p.UID = types.UID(fmt.Sprint("protector-", w.storedVersion))
	p.Annotations = map[string]string{v1alpha1.AnnotationRestored: string(w.stored.UID)}
	p.Status = v1alpha1.PodProtectorStatus{Cells: quota.RestoredCells(&w.history[i].Status), Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionRestored, Status: metav1.ConditionTrue},
	}}
	w.store(p)
}

// restoreCore resets the protector to an earlier state. Webhooks detect that, and so do leaders that begin from now
// on.
func (w *simulatedCell) restoreCore(i int) {
	w.lostVersion = w.storedVersion
	w.store(w.history[i].DeepCopy())
}

// review acts as the webhook: it decides on the newest object and responds after the write.
func (w *simulatedCell) review(p *corev1.Pod, operation v1alpha1.Operation) {
	if !podhealth.Of(p, 0, w.clock).Charged(w.stored.Spec.Criterion) || !w.has(p) || !isCovered(p) {
		return
	}
	copied := w.stored.DeepCopy()
	quota.VoidCountsUntil(copied, uint64(w.lostVersion))
	removal := quota.Removal{Cell: simulatedCellName, PodUID: p.UID, PodName: p.Name, Operation: operation, At: w.clock}
	if operation == v1alpha1.OperationUpdate {
		removal.Generation = p.Generation + 1
		removal.Containers = []v1alpha1.ContainerRestarts{{Name: "web", Restarts: p.Status.ContainerStatuses[0].RestartCount + 1}}
	}
	version := ""
	if operation == v1alpha1.OperationRelabel {
		version, removal.PodVersion = p.ResourceVersion, snapshot.PodVersion(p.ResourceVersion)
	}
	verdict := quota.Decide(copied, []quota.Removal{removal})[0]
	if verdict.Outcome.Written() {
		quota.Compact(copied, simulatedCellName, w.clock)
		quota.Summarize(copied)
		for i := range copied.Status.Cells { // a webhook writes no counts
			copied.Status.Cells[i].Aggregation = w.stored.Status.Cells[i].Aggregation
		}
		w.store(copied)
	}
	if verdict.Outcome.Admitted() {
		w.inFlight = append(w.inFlight, inFlight{uid: p.UID, deadline: w.clock.Add(simulatedDeadline), generation: removal.Generation, version: version})
	}
}

// takeEffect lets one request in flight take effect.
func (w *simulatedCell) takeEffect(i int, graceful bool) {
	uid, generation, version := w.inFlight[i].uid, w.inFlight[i].generation, w.inFlight[i].version
	w.inFlight = slices.Delete(w.inFlight, i, i+1)
	p := w.pods[uid]
	switch {
	case p == nil:
	case version != "":
		if p.ResourceVersion == version { // otherwise it meets a conflict, and is reviewed again
			w.relabel(p, "")
			w.relabels++
		}
	case generation > 0:
		if p.DeletionTimestamp == nil && p.Generation+1 == generation { // otherwise it meets a conflict
			p.Generation, w.toRestart[uid] = generation, true
			w.recordEvent(p, false)
		}
	case graceful && p.DeletionTimestamp == nil:
		p.DeletionTimestamp = &metav1.Time{Time: w.clock}
		w.recordEvent(p, false)
	default:
		delete(w.pods, uid)
		w.ended = append(w.ended, p.DeepCopy())
		w.recordEvent(p, true)
	}
}

// clearEntry acts as a user who clears the cell's entry, including the reservations of requests in flight.
func (w *simulatedCell) clearEntry() {
	copied := w.stored.DeepCopy()
	cell := quota.CellOf(copied, simulatedCellName)
	if cell == nil || cell.Discount == v1alpha1.DiscountCleared {
		return
	}
	was := cell.Aggregation
	*cell = v1alpha1.PodProtectorCell{CellID: simulatedCellName, Discount: v1alpha1.DiscountCleared, Aggregation: v1alpha1.Aggregation{
		SnapshotVersion: was.SnapshotVersion, SettledVersion: was.SettledVersion, LastEventTime: was.LastEventTime, Epoch: was.Epoch, Holder: was.Holder,
	}}
	w.store(copied)
}

// isCovered reports whether the protector selects a pod by its labels.
func isCovered(p *corev1.Pod) bool { return p.Labels["app"] == "web" }

// relabel moves a pod out of the protector's coverage, or into it.
func (w *simulatedCell) relabel(p *corev1.Pod, app string) {
	p.Labels["app"] = app
	w.recordEvent(p, false)
}

// observeGeneration lets a kubelet report the newest generation of a pod as observed, while the old container still runs.
func (w *simulatedCell) observeGeneration(p *corev1.Pod) {
	if p.Status.ObservedGeneration != p.Generation {
		p.Status.ObservedGeneration = p.Generation
		w.recordEvent(p, false)
	}
}

// restart lets the kubelet restart the container, once for all updates until then.
func (w *simulatedCell) restart(p *corev1.Pod) {
	if w.toRestart[p.UID] && p.Status.ObservedGeneration == p.Generation {
		delete(w.toRestart, p.UID)
		p.Status.ContainerStatuses[0].RestartCount++
		w.restarts++
		setReady(p, false)
		w.recordEvent(p, false)
	}
}

func (w *simulatedCell) passTime(d time.Duration) {
	w.clock = w.clock.Add(d)
	w.inFlight = slices.DeleteFunc(w.inFlight, func(r inFlight) bool { return !w.clock.Before(r.deadline) })
}

// check is called at every step: the available pods that the object promises exist even after everything in flight
// has taken effect.
func (w *simulatedCell) check() error {
	trusted := w.stored.DeepCopy()
	quota.VoidCountsUntil(trusted, uint64(w.lostVersion))
	budget := quota.BudgetOf(trusted)
	truth := 0
	for uid, p := range w.pods {
		flying := slices.ContainsFunc(w.inFlight, func(r inFlight) bool {
			return r.uid == uid && (r.version == "" || r.version == p.ResourceVersion)
		})
		if w.available(p) && !flying && !w.toRestart[uid] {
			truth++
		}
	}
	if promised := budget.Available - budget.Reserved; promised > truth {
		return fmt.Errorf("status promises %d pods (%+v), but %d remain when all requests in flight have taken effect\nstatus %+v\nin flight %+v",
			promised, budget, truth, w.stored.Status.Cells, w.inFlight)
	}
	if now := w.availableNow(); len(w.ended)+w.restarts+w.relabels > 0 && now < budget.Floor {
		return fmt.Errorf("%d pods are available, want at least the floor %d", now, budget.Floor)
	}
	return nil
}

func drawPod(t *rapid.T, pods map[types.UID]*corev1.Pod, label string) *corev1.Pod {
	var uids []types.UID
	for uid := range pods {
		uids = append(uids, uid)
	}
	if len(uids) == 0 {
		t.Skip("no pods")
	}
	slices.Sort(uids)
	return pods[rapid.SampledFrom(uids).Draw(t, label)]
}

// Settlement never drops the reservation of a request in flight: through lagging watches, relists, several leaders,
// merged reservations, and repeated, late and failed removals.
func TestSettlementKeepsReservationsInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSimulatedCell(rapid.IntRange(1, 4).Draw(t, "floor"), rapid.Int32Range(0, 3).Draw(t, "compactThreshold"))
		if rapid.Bool().Draw(t, "a selector chooses the cell") {
			w.useSelector()
		}
		guarded := []v1alpha1.Operation{v1alpha1.OperationDelete}
		if rapid.Bool().Draw(t, "guards updates") {
			guarded = append(guarded, v1alpha1.OperationUpdate)
		}
		if rapid.Bool().Draw(t, "guards relabels") {
			guarded = append(guarded, v1alpha1.OperationRelabel)
		}
		w.stored.Spec.Operations = guarded
		for range rapid.IntRange(0, 8).Draw(t, "pods") {
			w.create(true)
		}
		w.lead()
		actions := w.actions()
		maps.Copy(actions, map[string]func(*rapid.T){
			"create": func(t *rapid.T) { w.create(rapid.Bool().Draw(t, "ready")) },
			"become ready": func(t *rapid.T) {
				p := drawPod(t, w.pods, "pod")
				// The readiness race is excused: a pod whose uncharged removal is in flight does not become ready.
				if !w.available(p) && p.DeletionTimestamp == nil {
					setReady(p, true)
					w.recordEvent(p, false)
				}
			},
			"leave or come": func(t *rapid.T) {
				p := drawPod(t, w.pods, "pod")
				w.setInCell(p, !w.has(p))
				w.recordEvent(p, false)
			},
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
					t.Skip("rarely")
				}
				w.clearEntry()
			},
			"ask": func(t *rapid.T) {
				operation := rapid.SampledFrom(guarded).Draw(t, "operation")
				w.review(drawPod(t, w.pods, "pod"), operation)
			},
			"relabel into coverage": func(t *rapid.T) {
				if p := drawPod(t, w.pods, "pod"); !isCovered(p) {
					w.relabel(p, "web")
				}
			},
			"kubelet observes": func(t *rapid.T) { w.observeGeneration(drawPod(t, w.pods, "pod")) },
			"kubelet restarts": func(t *rapid.T) { w.restart(drawPod(t, w.pods, "pod")) },
			"ask late": func(t *rapid.T) {
				if len(w.ended) == 0 {
					t.Skip("none ended")
				}
				w.review(rapid.SampledFrom(w.ended).Draw(t, "ended"), v1alpha1.OperationDelete)
			},
			"fail": func(t *rapid.T) {
				if len(w.inFlight) == 0 {
					t.Skip("none in flight")
				}
				i := rapid.IntRange(0, len(w.inFlight)-1).Draw(t, "request")
				w.inFlight = slices.Delete(w.inFlight, i, i+1)
			},
			"the protector vanishes and is restored": func(t *rapid.T) { w.restore(rapid.IntRange(0, len(w.history)-1).Draw(t, "as it was")) },
			"the core is restored":                   func(t *rapid.T) { w.restoreCore(rapid.IntRange(0, len(w.history)-1).Draw(t, "to")) },
			"pass time":                              func(t *rapid.T) { w.passTime(time.Duration(rapid.IntRange(1, 70).Draw(t, "seconds")) * time.Second) },
			"new leader":                             func(*rapid.T) { w.lead() },
			"new leader with an epoch of the lost time": func(*rapid.T) {
				w.epoch--
				w.lead()
			},
		})
		t.Repeat(actions)
		w.checkLiveness(t)
	})
}

// actions returns what a cell, its aggregators and the watches do in every property test.
func (w *simulatedCell) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"take effect": func(t *rapid.T) {
			if len(w.inFlight) == 0 {
				t.Skip("none in flight")
			}
			w.takeEffect(rapid.IntRange(0, len(w.inFlight)-1).Draw(t, "request"), rapid.Bool().Draw(t, "graceful"))
		},
		"deliver":     func(t *rapid.T) { w.drawLeader(t).deliver(w.events, rapid.IntRange(1, 5).Draw(t, "events")) },
		"relist":      func(t *rapid.T) { w.relist(w.drawLeader(t)) },
		"begin write": func(t *rapid.T) { w.mustBeginAggregation(t, w.drawLeader(t)) },
		"finish write": func(t *rapid.T) {
			if len(w.pending) == 0 {
				t.Skip("none pending")
			}
			w.finishAggregation(rapid.IntRange(0, len(w.pending)-1).Draw(t, "write"))
		},
		"aggregate": func(t *rapid.T) {
			w.mustBeginAggregation(t, w.drawLeader(t))
			w.finishAggregation(len(w.pending) - 1)
		},
		"": func(t *rapid.T) {
			if err := w.check(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

func (w *simulatedCell) drawLeader(t *rapid.T) *leader {
	return rapid.SampledFrom(w.leaders).Draw(t, "leader")
}

func (w *simulatedCell) mustBeginAggregation(t *rapid.T, l *leader) {
	if err := w.beginAggregation(l); err != nil && !errors.Is(err, errDeposed) {
		t.Fatal(err)
	}
	if len(w.pending) == 0 {
		t.Skip("deposed")
	}
}

// checkLiveness checks liveness: when faults stop and the deadline has passed, the status is correct.
func (w *simulatedCell) checkLiveness(t *rapid.T) {
	w.pending = nil
	if w.newest().reconciler.start.restored < uint64(w.lostVersion) {
		w.lead()
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		w.observeGeneration(w.pods[uid])
		w.restart(w.pods[uid])
	}
	if w.scope.DependsOnLabels() {
		w.lead() // pods that were seen entering count from the next leadership on
		for uid, p := range w.pods {
			if p.DeletionTimestamp != nil { // a pod that has left the cell keeps its reservation until its end
				delete(w.pods, uid)
				w.recordEvent(p, true)
			}
		}
	}
	w.newest().deliver(w.events, len(w.events))
	// The updated pods are not available now: their reservations end when they are available, or with their timeout.
	// In a restored core, first the counts wait, and then the reservations that follow them.
	for _, wait := range slices.Repeat([]time.Duration{simulatedInFlight, simulatedInFlight, simulatedUpdateTimeout}, 3) {
		w.mustBeginAggregation(t, w.newest())
		w.finishAggregation(len(w.pending) - 1)
		w.passTime(wait)
	}
	w.mustBeginAggregation(t, w.newest())
	w.finishAggregation(len(w.pending) - 1)
	available := 0
	for _, p := range w.pods {
		if w.available(p) && w.has(p) {
			available++
		}
	}
	if got := quota.BudgetOf(w.stored); got.Reserved != 0 || got.Available != available {
		t.Fatalf("after faults stopped, the budget is %+v with %d pods available\nstatus %+v", got, available, w.stored.Status)
	}
}
