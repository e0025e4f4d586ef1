package quota_test

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The model of escrows: two replicas of the webhook, an aggregator and the pods of one cell. It explores every state that they can reach, with the functions
// that decide. Writes may fail, or succeed without the replica hearing of it. Removals take effect at any time or never, replicas stop, snapshots lag.
// Time is in what may happen: a replica uses an escrow only while its write is fresh, and a deadline passes only when nothing that it covers can happen.
const (
	modelPods, modelFloor = 3, 1
	modelReplicas         = 2
)

// podSet is a set of pods by number.
type podSet uint8

func (s podSet) has(pod int) bool { return s&(1<<pod) != 0 }
func (s podSet) size() int        { return bits.OnesCount8(uint8(s)) }

// modelState is a state of the model. It is comparable.
type modelState struct {
	alive, snapshot podSet
	// inFlight are pods with an admitted removal that may take effect.
	inFlight podSet
	stored   modelObject
	replicas [modelReplicas]modelReplica
	// unnamed are the pods that each replica has admitted by its escrow, and that no stored object names.
	unnamed [modelReplicas]podSet
	// seen reports that the aggregator has seen the present stamp of an escrow, and passed that its deadline has passed since.
	seen, passed [modelReplicas]bool
	// write is a write of replica 0 that has begun; the other replica writes at once.
	write modelWrite
}

// modelObject is the stored protector.
type modelObject struct {
	counted uint8
	named   podSet
	escrows [modelReplicas]uint8
}

// modelReplica is the memory of a replica.
type modelReplica struct {
	stopped, isFresh bool
	unused           uint8
	admitted         podSet
}

// modelWrite is a write that is decided and not stored yet.
type modelWrite struct {
	begun      bool
	base, next modelObject
	named      podSet
	granted    uint8
	decided    podSet // the pod whose removal it admits, if any
}

func modelHolder(replica int) string { return fmt.Sprint("replica-", replica) }

func modelUID(pod int) types.UID { return types.UID(fmt.Sprint("pod-", pod)) }

func modelRemoval(pod int) quota.Removal {
	return quota.Removal{Cell: "a", PodUID: modelUID(pod), PodName: string(modelUID(pod)), Operation: v1alpha1.OperationDelete, At: time.Unix(1_800_000_000, 0), Token: "t"}
}

// protector returns the object as the functions under test read it.
func (o modelObject) protector() *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(modelFloor)
	cell := v1alpha1.PodProtectorCell{CellID: "a", Aggregation: v1alpha1.Aggregation{
		CountedReplicas: int32(o.counted), CountedSpec: modelCountedSpec, KnowsEscrows: true,
	}}
	for pod := range modelPods {
		if o.named.has(pod) {
			r := modelRemoval(pod)
			cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{Counter: 1, PodUID: r.PodUID, PodName: r.PodName, Operation: r.Operation})
		}
	}
	for i, n := range o.escrows {
		if n > 0 {
			cell.AdmissionHistory.Escrows = append(cell.AdmissionHistory.Escrows, v1alpha1.Escrow{Holder: modelHolder(i), Count: int32(n), Stamp: 1})
		}
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{cell}
	return p
}

var modelCountedSpec = quota.CountedSpec(&v1alpha1.PodProtectorSpec{
	Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: v1alpha1.Pods(modelFloor),
})

// modelObjectOf is the reverse of protector.
func modelObjectOf(p *v1alpha1.PodProtector) (o modelObject) {
	cell := &p.Status.Cells[0]
	o.counted = uint8(cell.Aggregation.CountedReplicas)
	for pod := range modelPods {
		if quota.HasReservation(&cell.AdmissionHistory, modelUID(pod)) {
			o.named |= 1 << pod
		}
	}
	for i := range o.escrows {
		o.escrows[i] = uint8(quota.EscrowOf(&cell.AdmissionHistory, modelHolder(i)).Count)
	}
	return o
}

// begin decides a write of a replica: it names what was admitted, admits the removal of a pod if that is not negative, and wants more in advance. It returns the
// state with what the replica gives up before.
func (s modelState) begin(replica, pod, wanted int, givesBack bool) (modelState, modelWrite) {
	r := &s.replicas[replica]
	if givesBack || int(s.stored.escrows[replica]) < int(r.unused)+r.admitted.size() {
		r.unused = 0
	}
	p, w := s.stored.protector(), modelWrite{begun: true, base: s.stored, named: r.admitted}
	var named []quota.Removal
	for admitted := range modelPods {
		if r.admitted.has(admitted) {
			named = append(named, modelRemoval(admitted))
		}
	}
	quota.NameEscrowed(p, "a", modelHolder(replica), named, int(r.unused), 2)
	if pod >= 0 && quota.Decide(p, []quota.Removal{modelRemoval(pod)})[0].Outcome.Admitted() {
		w.decided = 1 << pod
	}
	w.granted = uint8(quota.GrantEscrow(p, "a", wanted))
	quota.SetEscrow(&p.Status.Cells[0].AdmissionHistory, modelHolder(replica), int(r.unused+w.granted), 3)
	w.next = modelObjectOf(p)
	return s, w
}

// store stores a write. isKnown reports that the replica hears of it.
func (s modelState) store(replica int, w modelWrite, isKnown bool) modelState {
	s.stored = w.next
	s.unnamed[replica] &^= w.named
	s.seen[replica], s.passed[replica] = false, false
	if r := &s.replicas[replica]; isKnown && !r.stopped {
		r.admitted &^= w.named
		r.unused += w.granted
		r.isFresh = true
		s.inFlight |= w.decided
	}
	return s
}

// canonical returns the state with its pods in an order that does not depend on their numbers, since they are all alike.
func (s modelState) canonical() modelState {
	sets := []*podSet{
		&s.alive, &s.snapshot, &s.inFlight, &s.stored.named, &s.replicas[0].admitted, &s.replicas[1].admitted, &s.unnamed[0], &s.unnamed[1],
		&s.write.base.named, &s.write.next.named, &s.write.named, &s.write.decided,
	}
	var pods [modelPods]uint16 // the sets that each pod is in
	for i, set := range sets {
		for pod := range pods {
			if set.has(pod) {
				pods[pod] |= 1 << i
			}
		}
		*set = 0
	}
	slices.Sort(pods[:])
	for i, set := range sets {
		for pod := range pods {
			if pods[pod]&(1<<i) != 0 {
				*set |= 1 << pod
			}
		}
	}
	return s
}

// next calls yield with each state that may follow.
func (s modelState) next(yield func(modelState)) {
	for i := range s.replicas {
		s.nextOfReplica(i, yield)
	}
	s.nextOfPods(yield)
	s.nextOfAggregator(yield)
}

func (s modelState) nextOfReplica(i int, yield func(modelState)) {
	r := s.replicas[i]
	if i == 0 && s.write.begun {
		ended := s
		ended.write = modelWrite{}
		if s.write.base == s.stored {
			yield(ended.store(i, s.write, true))
			yield(ended.store(i, s.write, false))
		}
		yield(ended) // a conflict, or it was not stored
	}
	if r.stopped {
		return
	}
	if i > 0 || !s.write.begun {
		for pod := -1; pod < modelPods; pod++ {
			if pod >= 0 && !s.alive.has(pod) {
				continue
			}
			if i > 0 { // it makes no escrow
				begun, w := s.begin(i, pod, 0, false)
				yield(begun.store(i, w, true))
				continue
			}
			for _, givesBack := range []bool{false, true} {
				begun, w := s.begin(i, pod, modelPods, givesBack)
				begun.write = w
				yield(begun)
			}
		}
	}
	for pod := range modelPods { // a removal that finds an escrow is admitted at once
		used := s
		switch {
		case !s.alive.has(pod) || !r.isFresh:
			continue
		case r.admitted.has(pod): // a repeated one costs nothing
		case r.unused > 0:
			used.replicas[i].unused--
			used.replicas[i].admitted |= 1 << pod
			used.unnamed[i] |= 1 << pod
		default:
			continue
		}
		used.inFlight |= 1 << pod
		yield(used)
	}
	aged, stopped := s, s
	aged.replicas[i].isFresh = false
	yield(aged)
	stopped.replicas[i] = modelReplica{stopped: true}
	yield(stopped)
}

func (s modelState) nextOfPods(yield func(modelState)) {
	for pod := range modelPods {
		if !s.inFlight.has(pod) {
			continue
		}
		failed := s
		failed.inFlight &^= 1 << pod
		yield(failed)
		if failed.alive.has(pod) {
			failed.alive &^= 1 << pod
			yield(failed)
		}
	}
}

// isRepeatable reports whether a replica would admit the removal of a pod again. The admission deadline is longer than an escrow may be used.
func (s modelState) isRepeatable(pod int) bool {
	for _, r := range s.replicas {
		if r.isFresh && r.admitted.has(pod) {
			return true
		}
	}
	return false
}

func (s modelState) nextOfAggregator(yield func(modelState)) {
	shown := s
	shown.snapshot = s.alive
	yield(shown)
	for i := range s.replicas {
		timed := s
		switch {
		case s.stored.escrows[i] == 0:
			continue
		case !s.seen[i]:
			timed.seen[i] = true
		case !s.passed[i] && !s.replicas[i].isFresh && s.unnamed[i]&s.inFlight == 0:
			timed.passed[i] = true
		default:
			continue
		}
		yield(timed)
	}
	p, ends := s.stored.protector(), false
	h := &p.Status.Cells[0].AdmissionHistory
	counted := s.snapshot
	ends = quota.EndEscrows(h, func(e v1alpha1.Escrow) bool {
		return e.Holder == modelHolder(0) && s.passed[0] || e.Holder == modelHolder(1) && s.passed[1]
	})
	if ends {
		counted &= s.alive // a list that is read now
	}
	p.Status.Cells[0].Aggregation.CountedReplicas = int32(counted.size())
	for _, expires := range []bool{false, true} {
		settled := p.DeepCopy()
		quota.Settle(&settled.Status.Cells[0].AdmissionHistory, func(r quota.Reservation) quota.Observation {
			for pod := range modelPods {
				switch {
				case quota.HashUID(modelUID(pod)) != r.Hash:
				case !counted.has(pod):
					return quota.Absent
				case expires && s.alive.has(pod) && !s.inFlight.has(pod) && !s.isRepeatable(pod):
					return quota.Expired
				}
			}
			return quota.Alive
		})
		written := s
		written.stored, written.snapshot = modelObjectOf(settled), counted // later counts are not older than the list
		for i := range written.replicas {
			if written.stored.escrows[i] == 0 {
				written.seen[i], written.passed[i] = false, false
				if ends {
					written.unnamed[i] &= s.inFlight // the count accounts for the others
				}
			}
		}
		yield(written)
	}
}

// TestEveryReachableStateOfEscrowsKeepsTheFloor explores the model. A state breaks the promise if fewer pods than the floor are left, or would be if all that
// is admitted happened.
func TestEveryReachableStateOfEscrowsKeepsTheFloor(t *testing.T) {
	all := podSet(1<<modelPods - 1)
	first := modelState{alive: all, snapshot: all, stored: modelObject{counted: modelPods}}
	reached, queue := map[modelState]modelState{first: first}, []modelState{first}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if (s.alive &^ s.inFlight).size() < modelFloor {
			for at := s; at != first; at = reached[at] {
				t.Logf("%+v", at)
			}
			t.Fatalf("of %d reached states, this one has admitted too much: %+v", len(reached), s)
		}
		s.next(func(next modelState) {
			next = next.canonical()
			if _, known := reached[next]; !known {
				reached[next] = s
				queue = append(queue, next)
			}
		})
	}
	t.Logf("%d states", len(reached))
}
