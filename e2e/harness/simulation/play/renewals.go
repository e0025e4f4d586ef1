package play

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/judge"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

const (
	// renewInterval is the retry interval of such a client, as in kubectl drain.
	renewInterval = 5 * time.Second
	// maxAbandonedReservation is how long an abandoned removal may be reserved in a calm: the admission deadline, from the time at which the
	// aggregator sees the reservation, plus the time that settling takes.
	maxAbandonedReservation = scenario.AdmissionDeadline + 5*time.Second
)

// renewalClients are the clients that retry forever.
type renewalClients struct {
	mu      sync.Mutex
	active  map[quota.UIDHash]bool
	running sync.WaitGroup
	stop    chan struct{}
}

func newRenewals() *renewalClients {
	return &renewalClients{active: map[quota.UIDHash]bool{}, stop: make(chan struct{})}
}

func (r *renewalClients) has(hash quota.UIDHash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.active[hash]
}

// hasActive reports whether a client still renews.
func (r *renewalClients) hasActive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.active) > 0
}

// hasForced reports whether a client renews a removal by force.
func (r *renewalClients) hasForced(j *judge.Judge) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for hash := range r.active {
		if j.IsForced(hash) {
			return true
		}
	}
	return false
}

// stopAll stops all clients and waits for them.
func (r *renewalClients) stopAll() {
	select {
	case <-r.stop:
		return
	default:
	}
	close(r.stop)
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.active)
}

// renewForever lets a client retry an eviction that a PodDisruptionBudget refuses, until all clients are stopped or the pod is deleted.
func (cs *clients) renewForever(n int, s scenario.Step) {
	c := cs.env.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	hash := quota.HashUID(pod.UID)
	cs.renewals.mu.Lock()
	cs.renewals.active[hash] = true
	cs.renewals.mu.Unlock()
	cs.renewals.running.Go(func() {
		for i := 0; ; i++ {
			live, err := c.store.Get("pods", client.ObjectKeyFromObject(pod))
			if err != nil || live.GetUID() != pod.UID {
				break
			}
			cs.executeRemoval(c, cs.newRemoval(fmt.Sprintf("%d.%d", n, i), pod, scenario.Step{What: scenario.Evict, DeniedLater: true}))
			wait := time.NewTimer(renewInterval + cs.env.dice.Between(time.Microsecond, time.Millisecond, fmt.Sprintf("renewal %d.%d", n, i)))
			select {
			case <-wait.C:
				continue
			case <-cs.renewals.stop:
			}
			break
		}
	})
}

// countUnrenewed counts the reservations of a cell that no client renews.
func (r *renewalClients) countUnrenewed(h *v1alpha1.AdmissionHistory) int {
	n := 0
	for reservation := range quota.Reservations(h) {
		if !r.has(reservation.Hash) {
			n++
		}
	}
	return n
}

// checkAbandoned checks the promise to clients that share a protector with clients that retry forever. Reservations that the storm left behind
// end, and so do those of removals that are abandoned in the calm, each within the admission deadline.
func (fc *finalChecks) checkAbandoned() {
	if !fc.clients.renewals.hasActive() {
		fc.clients.renewals.stopAll()
		return
	}
	defer fc.clients.renewals.stopAll()
	if err := waitUntil(convergenceTime+fc.env.scenario.ReleaseTime(), fc.convergence.CalmProblem); err != nil {
		fc.env.judge.Fail("while clients renew other removals, the status does not match the pods %v", err)
		return
	}
	for round := range 2 {
		var asked sync.WaitGroup
		for _, c := range fc.env.workers {
			for i, pod := range c.pods() {
				if i%2 == round && !fc.clients.renewals.has(quota.HashUID(pod.UID)) {
					r := &judge.Removal{
						ID: fmt.Sprintf("abandoned-%d-%s", round, pod.Name), Pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
						Evict: true, DeniedByOther: true,
					}
					asked.Go(func() { fc.clients.executeRemoval(c, r) })
				}
			}
		}
		asked.Wait()
		if err := waitUntil(maxAbandonedReservation, fc.convergence.CalmProblem); err != nil {
			fc.env.judge.Fail("abandoned removals are still reserved while clients renew other removals %v", err)
			return
		}
	}
}
