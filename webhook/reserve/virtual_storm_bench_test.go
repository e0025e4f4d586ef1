package reserve

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// virtualStorm is a deletion storm in virtual time: the code that reserves is real, and what it costs is given, so that the load of the machine does not
// change the result. The costs are CPU time on two processors, as measured on real control planes.
type virtualStorm struct {
	// protectors have pods each, of which floor must stay. The storm ends when admit removals were admitted.
	protectors, pods, floor, admit int
	clients, replicas              int
	// roundTrip is the round trip to the core.
	roundTrip time.Duration
	// answer is the webhook that clients ask.
	answer virtualAnswer
	seed   uint64
}

type virtualAnswer int

const (
	// reserves is the webhook: it reserves before it admits.
	reserves virtualAnswer = iota
	// admits admits everything, without a look at a protector.
	admits
	// counts counts in the memory that all replicas share. No webhook can be faster.
	counts
)

const (
	virtualProcessors = 2

	statusWriteCost  = 9 * time.Millisecond    // of the core's API server and etcd, for a status with reservations
	statusWriteSync  = 3 * time.Millisecond    // etcd's fsync, in which no processor works
	statusDecodeCost = 350 * time.Microsecond  // of each process that watches protectors
	statusWatchers   = 6                       // processes that watch protectors, of which the first are the replicas
	requestCost      = 850 * time.Microsecond  // of a client and the worker's API server, before the review
	reviewCost       = 350 * time.Microsecond  // of the webhook
	deletionCost     = 1400 * time.Microsecond // of the worker's API server and etcd, after the review
	deletionWatched  = 450 * time.Microsecond  // of the processes that watch pods
	handOverCost     = 120 * time.Microsecond  // of a replica that reserves for another
	settleInterval   = time.Second             // of the aggregator
	deferringFrom    = 11                      // protectors with which the aggregator defers its writes until after the storm
	giveBackTime     = 5 * time.Second         // after which nothing may be reserved that is not named
	maxAttempts      = 20                      // for each pod, after which the storm has failed
	farCoreWrite     = 10 * time.Millisecond   // what a write takes beyond the round trip
)

// virtualResult has the figures of a storm.
type virtualResult struct {
	perSecond                   float64 // admitted removals
	median, p99                 time.Duration
	cpu                         time.Duration // of all processes, for each admitted removal
	writes, conflicts, attempts float64       // for each admitted removal
}

// inVirtualTime runs f as a test, because a benchmark cannot wait for virtual time.
func inVirtualTime(b *testing.B, f func(t *testing.T)) {
	b.Helper()
	all := func(string, string) (bool, error) { return true, nil }
	test := testing.InternalTest{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, f) }}
	if !testing.RunTests(all, []testing.InternalTest{test}) {
		b.FailNow()
	}
}

// stormRun is the state of a virtualStorm.
type stormRun struct {
	virtualStorm
	*testing.T
	cpu      *virtualCPU
	webhooks []*memoryFixture
	ended    chan struct{} // closed when enough removals were admitted

	writes, conflicts atomic.Int64

	mu       sync.Mutex
	random   *rand.Rand
	removed  map[int]map[quota.UIDHash]bool // pods by protector
	counted  map[int]int                    // attempts by protector, if the answer is counts
	took     []time.Duration                // for each admitted removal
	attempts int
}

// play plays the storm.
func (s virtualStorm) play(t *testing.T) virtualResult {
	r := &stormRun{
		virtualStorm: s, T: t, cpu: newVirtualCPU(virtualProcessors), ended: make(chan struct{}), random: rand.New(rand.NewPCG(s.seed, 1)),
		removed: map[int]map[quota.UIDHash]bool{}, counted: map[int]int{},
	}
	r.connect()
	began := time.Now()
	var clients sync.WaitGroup
	queue := r.queue()
	for i := range s.clients {
		clients.Go(func() { r.removeAll(i%s.replicas, queue) })
	}
	stop := make(chan struct{})
	var aggregator sync.WaitGroup
	if s.answer == reserves && s.protectors < deferringFrom {
		aggregator.Go(func() { r.settleUntil(stop) })
	}
	clients.Wait()
	took := time.Since(began)
	cpu := time.Duration(r.cpu.used.Load())
	close(stop)
	aggregator.Wait()
	r.check()
	n := float64(len(r.took))
	slices.Sort(r.took)
	return virtualResult{
		perSecond: n / took.Seconds(), median: r.took[len(r.took)/2], p99: r.took[len(r.took)*99/100], cpu: cpu / time.Duration(len(r.took)),
		writes: float64(r.writes.Load()) / n, conflicts: float64(r.conflicts.Load()) / n, attempts: float64(r.attempts) / n,
	}
}

// connect creates the replicas, which share a core.
func (r *stormRun) connect() {
	protectors := make([]*v1alpha1.PodProtector, r.protectors)
	for i := range protectors {
		p := memoryProtector(fmt.Sprint("web-", i), int32(r.floor), int32(r.pods))
		p.Spec.Selector.MatchLabels["app"] = p.Name
		p.Status.Cells[0].Aggregation.CountedSpec, p.Status.Cells[0].Aggregation.KnowsEscrows = quota.CountedSpec(&p.Spec), true
		protectors[i] = p
	}
	replicas := map[string]*memoryFixture{}
	for i := range r.replicas {
		d := newMemoryFixture(r, protectors...)
		if i > 0 {
			d.client = r.webhooks[0].client
			access := d.core.States.protectors
			access.Cache, access.Live, access.Writer = d.client, d.client, d.client
		}
		began := time.Now()
		d.core.reserver.escrows.sinceBoot = func() time.Duration { return time.Since(began) }
		d.core.reserver.batches.Window = d.core.reserver.batchWindow
		if r.roundTrip > 0 {
			d.core.reserver.distance.record(r.roundTrip+farCoreWrite, time.Now())
		}
		r.webhooks = append(r.webhooks, d)
		replicas[fmt.Sprint("replica-", i)] = d
	}
	r.webhooks[0].setFault(r.write)
	connectReplicas(replicas, func(replica string) { r.cpu.run(replica, handOverCost) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// write makes a status write take its time.
func (r *stormRun) write(write func() error) error {
	<-time.After(r.roundTrip / 2)
	r.cpu.run("core", r.vary(statusWriteCost))
	<-time.After(statusWriteSync)
	err := write()
	if apierrors.IsConflict(err) {
		r.conflicts.Add(1)
	} else {
		r.writes.Add(1)
		for i := range statusWatchers {
			go r.cpu.run(fmt.Sprint("replica-", i), statusDecodeCost)
		}
	}
	<-time.After(r.roundTrip / 2)
	return err
}

// vary returns a time that differs from d by at most 30 %.
func (r *stormRun) vary(d time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(float64(d) * (0.7 + 0.6*r.random.Float64()))
}

type virtualPod struct{ protector, number int }

// queue returns all pods, in random order. A client puts one back whose removal is denied.
func (r *stormRun) queue() chan virtualPod {
	queue := make(chan virtualPod, r.protectors*r.pods)
	for _, i := range r.random.Perm(cap(queue)) {
		queue <- virtualPod{i / r.pods, i % r.pods}
	}
	return queue
}

// removeAll is a client that asks a replica to remove one pod after the other, until the storm ends.
func (r *stormRun) removeAll(replica int, queue chan virtualPod) {
	for {
		select {
		case <-r.ended:
			return
		case pod := <-queue:
			if !r.remove(replica, pod) {
				queue <- pod
			}
		}
	}
}

func (r *stormRun) remove(replica int, at virtualPod) (allowed bool) {
	began := time.Now()
	r.cpu.run("client", r.vary(requestCost*3/10))
	r.cpu.run("worker", r.vary(requestCost*7/10))
	r.cpu.run(fmt.Sprint("replica-", replica), reviewCost)
	pod := memoryPod(fmt.Sprintf("web-%d-%d", at.protector, at.number))
	pod.Labels["app"] = fmt.Sprint("web-", at.protector)
	allowed = r.review(replica, at.protector, removal.NewPod(pod), pod.Name)
	if allowed {
		r.cpu.run("worker", r.vary(deletionCost*65/100))
		r.cpu.run("etcd", r.vary(deletionCost*25/100))
		r.cpu.run("client", r.vary(deletionCost*10/100))
		go r.cpu.run("controllers", deletionWatched)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts++; r.attempts == maxAttempts*r.protectors*r.pods {
		close(r.ended)
	}
	if !allowed {
		return false
	}
	if r.removed[at.protector] == nil {
		r.removed[at.protector] = map[quota.UIDHash]bool{}
	}
	r.removed[at.protector][quota.HashUID(pod.UID)] = true
	if r.took = append(r.took, time.Since(began)); len(r.took) == r.admit {
		close(r.ended)
	}
	return true
}

// review reports whether a removal is admitted.
func (r *stormRun) review(replica, protector int, pod *removal.Pod, name string) bool {
	switch r.answer {
	case admits:
		return true
	case counts:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.counted[protector]++
		return r.counted[protector] <= r.pods-r.floor
	}
	d, request := r.webhooks[replica], removal.Request{Operation: v1alpha1.OperationDelete, Namespace: "default", PodName: name, Pod: pod}
	covering, belongs, err := d.Covering(r.Context(), memoryCell, request)
	if err != nil {
		r.Fatal(err)
	}
	removal.AssessAll(covering, memoryCell, request, time.Now())
	charges, _ := removal.ChargesFor(covering, belongs, request)
	attempt := request.Attempt(memoryCell, time.Now(), NewToken())
	if !d.MayEscrow(charges, attempt) && removal.Preview(charges, attempt, request) != nil {
		return false
	}
	return d.Reserve(r.Context(), charges, attempt).Denial == nil
}

// settleUntil settles the reservations of removed pods, as an aggregator does.
func (r *stormRun) settleUntil(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(settleInterval):
			for i := range r.protectors {
				r.settle(i)
			}
		}
	}
}

func (r *stormRun) settle(protector int) {
	p := r.webhooks[0].stored(r, fmt.Sprint("web-", protector))
	cell := &p.Status.Cells[0]
	r.mu.Lock()
	cell.Aggregation.CountedReplicas = int32(r.pods - len(r.removed[protector]))
	quota.Settle(&cell.AdmissionHistory, func(one quota.Reservation) quota.Observation {
		if r.removed[protector][one.Hash] {
			return quota.Absent
		}
		return quota.Alive
	})
	r.mu.Unlock()
	quota.Summarize(p)
	if err := r.webhooks[0].client.Status().Update(context.Background(), p); err != nil && !apierrors.IsConflict(err) {
		r.Error(err)
	}
}

// check checks that no floor is broken, by what is stored and by what was admitted.
func (r *stormRun) check() {
	if len(r.took) < r.admit {
		r.Errorf("%d removals were admitted, want %d", len(r.took), r.admit)
	}
	<-time.After(giveBackTime)
	for i := range r.protectors {
		p := r.webhooks[0].stored(r, fmt.Sprint("web-", i))
		if len(r.took) < r.admit && len(r.removed[i]) < r.pods-r.floor {
			r.Errorf("%s: %d removed, %+v %+v", p.Name, len(r.removed[i]), quota.BudgetOf(p), p.Status.Cells[0].AdmissionHistory)
		}
		if left := r.pods - len(r.removed[i]); r.answer != admits && left < r.floor {
			r.Errorf("%s: %d pods are left, the floor is %d", p.Name, left, r.floor)
		}
		if budget := quota.BudgetOf(p); budget.Left() < 0 {
			r.Errorf("%s: its budget is %+v", p.Name, budget)
		}
		if held := quota.Escrowed(&p.Status.Cells[0].AdmissionHistory); held > 0 {
			r.Errorf("%s: %d reservations are held in advance at the end", p.Name, held)
		}
	}
	for i, d := range r.webhooks {
		d.core.States.LostQueue.ShutDown()
		for at, e := range d.core.reserver.escrows.held {
			if e.unused > 0 || len(e.admitted) > 0 {
				r.Errorf("replica %d holds %+v of %v at the end", i, e, at)
			}
		}
	}
}

// median plays the storm with several seeds, and returns the result with the median rate.
func (s virtualStorm) median(b *testing.B, rounds int) virtualResult {
	b.Helper()
	all := make([]virtualResult, rounds)
	for i := range all {
		s.seed = uint64(i) + 1
		inVirtualTime(b, func(t *testing.T) { all[i] = s.play(t) })
	}
	slices.SortFunc(all, func(x, y virtualResult) int { return int(x.perSecond - y.perSecond) })
	return all[rounds/2]
}

// BenchmarkVirtualStorm reports the rates of storms over those of a webhook that admits everything, and the costs of an admitted removal.
func BenchmarkVirtualStorm(b *testing.B) {
	one := virtualStorm{protectors: 1, clients: 64, replicas: 2}
	cold, roomy, steady, wide := one, one, one, one
	cold.pods, cold.floor, cold.admit = 600, 350, 250
	roomy.pods, roomy.floor, roomy.admit = 600, 200, 250
	steady.pods, steady.floor, steady.admit = 2000, 1, 1500
	wide.protectors, wide.pods, wide.floor, wide.admit = 100, 12, 8, 400
	far, alone := steady, steady
	far.roundTrip = 50 * time.Millisecond
	alone.clients, alone.pods, alone.admit, alone.roundTrip = 1, 100, 60, far.roundTrip
	single, triple := steady, steady
	single.replicas, triple.replicas = 1, 3
	for _, c := range []struct {
		name   string
		storm  virtualStorm
		rounds int
	}{
		{"cold/budget=250", cold, 5}, {"cold/budget=400", roomy, 5}, {"steady/replicas=2", steady, 3}, {"steady/replicas=1", single, 3}, {"steady/replicas=3", triple, 3},
		{"far", far, 3}, {"far/clients=1", alone, 1}, {"wide", wide, 3},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				baseline, counter := c.storm, c.storm
				baseline.answer, baseline.roundTrip, counter.answer = admits, 0, counts
				answered, counted, reserved := baseline.median(b, c.rounds), counter.median(b, c.rounds), c.storm.median(b, c.rounds)
				b.ReportMetric(reserved.perSecond/answered.perSecond, "over-answered")
				b.ReportMetric(counted.perSecond/answered.perSecond, "counted-over-answered")
				b.ReportMetric(float64(reserved.median.Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(reserved.p99.Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64((reserved.cpu-answered.cpu).Microseconds())/1000, "cpu-ms-over-answered")
				b.ReportMetric(reserved.writes, "writes/removal")
				b.ReportMetric(reserved.conflicts, "conflicts/removal")
				b.ReportMetric(reserved.attempts, "attempts/removal")
			}
		})
	}
}
