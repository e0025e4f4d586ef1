package simulation

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// Some clients retry forever: kubectl drain retries every 5 s an eviction that a PodDisruptionBudget refuses. Each attempt renews the
// reservation of its pod. Reservations of other pods whose removals are abandoned meanwhile must still end with the admission deadline
// (rule 4(b)).

const (
	renewalLuck = 0x6f7065772bd9
	// renewEvery is the retry interval of such a client, as in kubectl drain.
	renewEvery = 5 * time.Second
	// abandonedFor is how long an abandoned removal may be reserved in a calm: the admission deadline, from the time at which the
	// aggregator sees the reservation, plus the time that settling takes.
	abandonedFor = admissionDeadline + 5*time.Second
)

// renewals are the clients that retry forever.
type renewals struct {
	mu      sync.Mutex
	of      map[quota.UIDHash]bool
	running sync.WaitGroup
	stop    chan struct{}
}

func newRenewals() *renewals {
	return &renewals{of: map[quota.UIDHash]bool{}, stop: make(chan struct{})}
}

func (r *renewals) has(hash quota.UIDHash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[hash]
}

// any reports whether a client still renews.
func (r *renewals) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.of) > 0
}

// isForced reports whether a client renews a removal by force.
func (r *renewals) isForced(j *judge) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	for hash := range r.of {
		for _, t := range j.cells {
			if t.isForced(hash) {
				return true
			}
		}
	}
	return false
}

// end stops all clients and waits for them.
func (r *renewals) end() {
	select {
	case <-r.stop:
		return
	default:
	}
	close(r.stop)
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.of)
}

// renewForever lets a client retry an eviction that a PodDisruptionBudget refuses, until all clients are stopped or the pod is deleted.
func (w *world) renewForever(n int, s Step) {
	c := w.cell(s)
	pod, ok := pick(c.pods(), s.Who)
	if !ok {
		return
	}
	hash := quota.HashUID(pod.UID)
	w.renewals.mu.Lock()
	w.renewals.of[hash] = true
	w.renewals.mu.Unlock()
	w.renewals.running.Go(func() {
		for i := 0; ; i++ {
			live, err := c.store.Get("pods", client.ObjectKeyFromObject(pod))
			if err != nil || live.GetUID() != pod.UID {
				break
			}
			w.remove(c, w.removal(fmt.Sprintf("%d.%d", n, i), pod, Step{What: Evict, RefusedLater: true}))
			wait := time.NewTimer(renewEvery + w.dice.Between(time.Microsecond, time.Millisecond, fmt.Sprintf("renewal %d.%d", n, i)))
			select {
			case <-wait.C:
				continue
			case <-w.renewals.stop:
			}
			break
		}
	})
}

// unrenewed counts the reservations of a cell that no client renews.
func (w *world) unrenewed(h *v1alpha1.AdmissionHistory) int {
	n := 0
	for r := range quota.Reservations(h) {
		if !w.renewals.has(r.Hash) {
			n++
		}
	}
	return n
}

// abandon checks the promise to clients that share a protector with clients that retry forever. Reservations that the storm left behind
// end, and so do those of removals that are abandoned in the calm, each within the admission deadline.
func (w *world) abandon() {
	if !w.renewals.any() {
		w.renewals.end()
		return
	}
	defer w.renewals.end()
	if err := w.await(convergence+w.scenario.releaseTime(), w.isCalm); err != nil {
		w.judge.fail("while clients renew other removals, the status does not become the truth %v", err)
		return
	}
	for round := range 2 {
		var asked sync.WaitGroup
		for _, c := range w.workers {
			for i, pod := range c.pods() {
				if i%2 == round && !w.renewals.has(quota.HashUID(pod.UID)) {
					r := &removal{
						id: fmt.Sprintf("abandoned-%d-%s", round, pod.Name), pod: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name},
						evict: true, refusedLater: true,
					}
					asked.Go(func() { w.remove(c, r) })
				}
			}
		}
		asked.Wait()
		if err := w.await(abandonedFor, w.isCalm); err != nil {
			w.judge.fail("removals that were abandoned while clients renew others are still reserved %v", err)
			return
		}
	}
}

// drawRenewals adds, in a fourth of the seeds, clients that retry forever and share the protectors with abandoned removals.
func (s *Scenario) drawRenewals(r *rand.Rand) {
	if r.IntN(4) > 0 {
		return
	}
	for i := range s.Protectors {
		s.Protectors[i].Compact, s.Protectors[i].Lag = r.IntN(3), 0
		s.Protectors[i].Floor = min(s.Protectors[i].Floor, 1+r.IntN(s.Pods))
	}
	for range 1 + r.IntN(5) {
		s.Steps = append(s.Steps, Step{At: at(r), What: Renew, Cell: r.IntN(s.Workers), Who: r.IntN(16)})
	}
	for range r.IntN(5) {
		s.Steps = append(s.Steps, Step{
			At: stormTime/2 + at(r)/2, What: []What{Delete, Evict}[r.IntN(2)], Cell: r.IntN(s.Workers), Who: r.IntN(16), For: time.Second, RefusedLater: true,
		})
	}
}
