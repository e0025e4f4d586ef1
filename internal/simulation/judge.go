package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/quota"
	"github.com/breakwater-k8s/breakwater/internal/simulation/apiserver"
)

type apiserverEvent = apiserver.Event

// judge watches every change of every store and says when the promise is broken. It knows the truth of all clusters
// at every instant, and trusts nothing that a status says.
type judge struct {
	mu    sync.Mutex
	began time.Time
	cells map[string]*truth
	// protectors are the stored ones by core and name.
	protectors map[protectorKey]*watched
	// open counts the admitted requests that may still take effect, by cell and pod.
	open map[openKey]int
	// asked are the pods that somebody has asked to remove, more than as a dry run.
	asked map[openKey]bool
	// effecting is the removal that is about to change the store.
	effecting map[string]*removal
	// epochs are the eras in which each cell's leaders came to lead, by core and cell.
	epochs map[string]map[int64]int
	// lenience is by how much clocks differ at most.
	lenience time.Duration

	failures []string
	counts   Counts
	trace    *Trace
}

// Counts say what a simulation was made of.
type Counts struct {
	Removals, Admitted, Refused, Effective, Writes, Races, Losses int
}

// Add adds other counts.
func (c *Counts) Add(other Counts) {
	c.Removals += other.Removals
	c.Admitted += other.Admitted
	c.Refused += other.Refused
	c.Effective += other.Effective
	c.Writes += other.Writes
	c.Races += other.Races
	c.Losses += other.Losses
}

type protectorKey struct {
	core string
	name types.NamespacedName
}

type openKey struct {
	cell string
	uid  types.UID
}

// watched is a protector as the core has it, and how its reservations came about.
type watched struct {
	core   string
	stored *v1alpha1.PodProtector
	// since is the version at which it began to cover what it covers now.
	since uint64
	// floors are its floors over time.
	floors []floorSince
	// decisions are what each reservation was decided on, by pod.
	decisions map[quota.UIDHash]decision
}

type floorSince struct {
	at    time.Time
	floor int
}

type decision struct {
	at          time.Time
	countedSpec string
	// seen are the snapshots of the cells that were added up.
	seen map[string]sighting
}

func newJudge(trace *Trace) *judge {
	return &judge{
		began: time.Now(), cells: map[string]*truth{}, protectors: map[protectorKey]*watched{}, open: map[openKey]int{}, asked: map[openKey]bool{},
		effecting: map[string]*removal{}, epochs: map[string]map[int64]int{}, trace: trace,
	}
}

// fail notes that the promise was broken.
func (j *judge) fail(format string, arguments ...any) {
	text := fmt.Sprintf(format, arguments...)
	j.failures = append(j.failures, text)
	j.trace.add("FAILURE: %s", text)
}

// cellChanged judges a change in a worker cluster.
func (j *judge) cellChanged(cell string, e *apiserver.Event) {
	if e.Kind.Kind != "Pod" {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.cells[cell]
	line, before, after := t.observe(e)
	j.trace.add("%s: pod %s %s by %s: %s", cell, line.name, strings.ToLower(string(e.Type)), orWorld(e.By), describe(after))
	if before == nil || before.over() {
		return
	}
	r := j.effecting[cell]
	byRemoval := r != nil && e.By == removalActor(r)
	if !byRemoval {
		j.lost(t, *before, after, e.Version)
		return
	}
	j.counts.Effective++
	for _, key := range j.sortedProtectors() {
		j.judgeEffect(j.protectors[key], r, t, line, *before, e.Version)
	}
}

func orWorld(by string) string {
	if by == "" {
		return "the world"
	}
	return by
}

func describe(s podState) string {
	status, _ := s.isReady()
	switch {
	case s.gone:
		return "gone"
	case s.over():
		return "terminating"
	default:
		return fmt.Sprintf("%s, ready %q, %v", s.pod.Status.Phase, status, s.pod.Labels)
	}
}

// lost notes a pod that went by itself. Labels that change take a pod out of a protector too.
func (j *judge) lost(t *truth, before, after podState, version uint64) {
	if before.ready() && (!after.ready() || !maps.Equal(before.pod.Labels, after.pod.Labels)) {
		j.counts.Losses++
		t.losses = append(t.losses, loss{era: t.era, version: version, pod: before.pod})
	}
}

func (j *judge) sortedProtectors() []protectorKey {
	return slices.SortedFunc(maps.Keys(j.protectors), func(a, b protectorKey) int {
		return strings.Compare(a.core+a.name.String(), b.core+b.name.String())
	})
}

// judgeEffect is the promise itself: an admitted removal has taken effect; is the floor kept?
func (j *judge) judgeEffect(w *watched, r *removal, t *truth, line *lifeline, before podState, version uint64) {
	now := time.Now().Add(j.lenience)
	if !before.available(w, now) {
		return
	}
	made, reserved := w.decisions[quota.HashUID(line.uid)]
	floor := w.lowestFloorSince(made.at)
	available := 0
	for _, cell := range j.cells {
		available += cell.available(w, now)
	}
	switch {
	case !reserved && (r.reviewed == nil || !j.wasCharged(w, r)):
		// It was not available when it was reviewed: the readiness race.
		j.counts.Races++
		t.losses = append(t.losses, loss{era: t.era, version: version, pod: before.pod})
		return
	case !reserved && (r.knew[w.core] < w.since || floor == 0):
		t.losses = append(t.losses, loss{era: t.era, version: version, pod: before.pod})
		return
	case !reserved:
		j.fail("removal %s of %s took effect, and protector %s never reserved it", r.id, line.name, w.name())
		return
	case made.countedSpec != quota.CountedSpec(&w.stored.Spec):
		t.losses = append(t.losses, loss{era: t.era, version: version, pod: before.pod})
		return
	}
	excused := 0
	for name, cell := range j.cells {
		excused += cell.lostSince(made.seen[name], w)
	}
	if available+excused < floor {
		j.fail("over-admission: removal %s of %s left %d pods of protector %s available (and %d lost by themselves); the floor is %d",
			r.id, line.name, available, w.name(), excused, floor)
	}
}

// wasCharged tells whether the pod that was reviewed cost this protector budget.
func (j *judge) wasCharged(w *watched, r *removal) bool {
	return podState{pod: r.reviewed}.charged(w, r.asked.Add(-j.lenience))
}

// covers tells whether a pod is the protector's. Selectors of scenarios have labels only.
func (w *watched) covers(pod *corev1.Pod) bool {
	for key, value := range w.stored.Spec.Selector.MatchLabels {
		if got, ok := pod.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func (w *watched) name() string { return w.core + "/" + w.stored.Name }

// lowestFloorSince is the lowest floor that held at that time or later.
func (w *watched) lowestFloorSince(at time.Time) int {
	lowest := quota.Floor(&w.stored.Spec)
	for i, f := range w.floors {
		if i+1 == len(w.floors) || w.floors[i+1].at.After(at) {
			lowest = min(lowest, f.floor)
		}
	}
	return lowest
}

// about names the removal that is about to take effect in a cell. Nothing else happens at that instant.
func (j *judge) about(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.effecting[cell] = r
}

// allowed judges an answer that allows: what it reserved must stand in every core that its webhook knew to cover the
// pod.
func (j *judge) allowed(p *process, cell string, r *removal) {
	if r.dryRun || p.paused.isDead() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	line := j.livingPod(cell, r.pod)
	// The webhook itself reads the pod of an eviction; only a pod that has not changed since is sure to be what it saw.
	if line == nil || line.now().version != parseVersion(r.reviewed.ResourceVersion) {
		return
	}
	for _, key := range j.sortedProtectors() {
		w := j.protectors[key]
		status := quota.CellOf(w.stored, cell)
		if !line.now().charged(w, r.asked.Add(-j.lenience)) || r.knew[w.core] < w.since ||
			quota.Floor(&w.stored.Spec) == 0 {
			continue
		}
		if status == nil || !holds(&status.AdmissionHistory, quota.HashUID(line.uid)) {
			j.fail("%s allowed the removal of %s, and protector %s holds no reservation for it", p.name, line.name, w.name())
		}
	}
}

func (j *judge) livingPod(cell, name string) *lifeline {
	for _, line := range j.cells[cell].pods {
		if line.name == name && !line.now().over() {
			return line
		}
	}
	return nil
}

func holds(h *v1alpha1.AdmissionHistory, hash quota.UIDHash) bool {
	for r := range quota.Reservations(h) {
		if r.Hash == hash {
			return true
		}
	}
	return false
}

// asks notes that an apiserver asks for leave to remove a pod.
func (j *judge) asks(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !r.dryRun {
		j.asked[openKey{cell, r.uid}] = true
	}
}

// admitted notes that an apiserver has got leave to remove a pod.
func (j *judge) admitted(cell string, r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Admitted++
	if !slices.Contains(r.openIn, openKey{cell, r.uid}) {
		r.openIn = append(r.openIn, openKey{cell, r.uid})
		j.open[openKey{cell, r.uid}]++
	}
}

// answered counts what a client was told.
func (j *judge) answered(_ *removal, word string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.counts.Removals++
	if strings.HasPrefix(word, "429") {
		j.counts.Refused++
	}
}

// finished notes that it has made use of it, or never will.
func (j *judge) finished(r *removal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, key := range r.openIn {
		j.open[key]--
	}
	r.openIn = nil
}

// coreChanged judges a change in a core cluster.
func (j *judge) coreChanged(core string, e *apiserver.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if cell, ok := e.New.(*v1alpha1.Cell); ok {
		j.leads(core, cell)
	}
	p, ok := e.New.(*v1alpha1.PodProtector)
	if !ok {
		return
	}
	j.counts.Writes++
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	if e.Type == watch.Deleted {
		j.trace.add("%s: protector %s is gone by %s", core, p.Name, orWorld(e.By))
		delete(j.protectors, key)
		return
	}
	w := j.protectors[key]
	if w == nil {
		w = &watched{core: core, decisions: map[quota.UIDHash]decision{}}
		j.protectors[key] = w
	}
	old, _ := e.Old.(*v1alpha1.PodProtector)
	j.trace.add("%s: protector %s by %s: %s", core, p.Name, orWorld(e.By), describeStatus(p))
	w.take(p, old, e.Version)
	j.judgeStatus(w, old, e)
}

// leads notes in which era of its cell a leader began: its snapshot is of that era, or of a later one.
func (j *judge) leads(core string, cell *v1alpha1.Cell) {
	key := core + "/" + cell.Name
	if j.epochs[key] == nil {
		j.epochs[key] = map[int64]int{}
	}
	if _, ok := j.epochs[key][cell.Status.Aggregator.Epoch]; !ok {
		j.epochs[key][cell.Status.Aggregator.Epoch] = j.cells[cell.Name].era
	}
}

// eraOf is the earliest era that a snapshot of an epoch can be of.
func (j *judge) eraOf(core, cell string, epoch int64) int { return j.epochs[core+"/"+cell][epoch] }

// restored notes that a cell goes back to a version.
func (j *judge) restored(cell string, version uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lost := j.cells[cell].restore(version)
	j.counts.Losses += lost
	j.trace.add("%s: restored to version %d; %d available pods are lost by that", cell, version, lost)
}

// take makes p the stored state.
func (w *watched) take(p, old *v1alpha1.PodProtector, version uint64) {
	w.stored = p
	if old == nil || quota.CountedSpec(&old.Spec) != quota.CountedSpec(&p.Spec) {
		w.since = version
	}
	if floor := quota.Floor(&p.Spec); len(w.floors) == 0 || w.floors[len(w.floors)-1].floor != floor {
		w.floors = append(w.floors, floorSince{at: time.Now(), floor: floor})
	}
}

func describeStatus(p *v1alpha1.PodProtector) string {
	var parts []string
	for i := range p.Status.Cells {
		c := &p.Status.Cells[i]
		var pods []string
		for r := range quota.Reservations(&c.AdmissionHistory) {
			if r.PodName == "" {
				r.PodName = fmt.Sprintf("%x", uint64(r.Hash)>>48)
			}
			pods = append(pods, r.PodName)
		}
		parts = append(parts, fmt.Sprintf("%s %d available at %s (epoch %d), reserved %v",
			c.CellID, c.Aggregation.AvailableReplicas, c.Aggregation.SnapshotVersion, c.Aggregation.Epoch, pods))
	}
	return fmt.Sprintf("floor %d; %s", quota.Floor(&p.Spec), strings.Join(parts, "; "))
}
