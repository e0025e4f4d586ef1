package judge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// scopeJudge judges removals that an API server does not have reviewed, because it has not seen the label of their namespace. No protector may report
// then that the cell guards it. Only what docs/how-to/install.md names is excused:
//
//   - The namespace was recreated, or its cluster restored, since the protector last began to report that. It is not reported any more once an aggregator
//     knows it.
//   - A client removed the label, which only a policy prevents.
//
// The lock of the judge guards it.
type scopeJudge struct {
	report *report
	// spaces are the states of the namespaces of each cell, oldest first.
	spaces map[string]map[string][]spaceState
	// guarded are the cells in which each protector reports to be guarded, and since when.
	guarded map[protectorKey]map[string]time.Time
	// restored are the versions at which cores continued after their last restore.
	restored map[string]uint64
}

// spaceState is a state of a namespace.
type spaceState struct {
	at               time.Time
	exists, hasLabel bool
	by               string
	// isCreation reports whether it follows no state of the same namespace: it was created, or its cluster was restored.
	isCreation bool
}

// maxReportTransit is how long a report may be in transit that was decided before a namespace was created or restored.
const maxReportTransit = time.Second

// bypass is a request that an API server does not have reviewed, for lack of a label.
type bypass struct {
	// unexcused are the protectors of the pod that reported to be guarded, and why that is not excused.
	unexcused map[protectorKey]string
}

func newScopeJudge(r *report) *scopeJudge {
	return &scopeJudge{
		report: r, spaces: map[string]map[string][]spaceState{}, guarded: map[protectorKey]map[string]time.Time{}, restored: map[string]uint64{},
	}
}

// isGuarded reports whether a protector reports that a cell has its removals reviewed.
func isGuarded(cell *v1alpha1.PodProtectorCell) bool {
	a := &cell.Aggregation
	return a.Holder != "" && !a.Void && a.Exempt == "" && a.ExemptProblem == ""
}

func hasProtectedLabel(o client.Object) bool { return o.GetLabels()[v1alpha1.LabelProtected] == "true" }

// recordNamespace records a change of a namespace of a cell. A nil scopeJudge records nothing.
func (j *scopeJudge) recordNamespace(cell string, space *corev1.Namespace, e *apiserver.Event) {
	if j == nil {
		return
	}
	j.report.trace.Add("%s: namespace %s %s by %s: labels %v, annotations %v", cell, space.Name, e.Type, writerOrSimulator(e.By), space.Labels, space.Annotations)
	state := spaceState{at: time.Now(), exists: e.Type != watch.Deleted, by: e.By, isCreation: e.Type == watch.Added}
	state.hasLabel = state.exists && hasProtectedLabel(space)
	j.add(cell, space.Name, state)
}

func (j *scopeJudge) add(cell, space string, state spaceState) {
	if j.spaces[cell] == nil {
		j.spaces[cell] = map[string][]spaceState{}
	}
	j.spaces[cell][space] = append(j.spaces[cell][space], state)
}

// recordProtector records in which cells a protector reports to be guarded. A nil scopeJudge records nothing.
func (j *scopeJudge) recordProtector(core string, p *v1alpha1.PodProtector, e *apiserver.Event) {
	if j == nil {
		return
	}
	key := protectorKey{core, client.ObjectKeyFromObject(p)}
	if e.Type == watch.Deleted {
		if e.By != "" || !isHeld(p) { // otherwise it was lost, and stays in force
			delete(j.guarded, key)
		}
		return
	}
	if old, ok := e.Old.(*v1alpha1.PodProtector); !ok || old.UID != p.UID || j.guarded[key] == nil {
		j.guarded[key] = map[string]time.Time{}
	}
	reported := map[string]bool{}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		if !isGuarded(cell) || parseVersion(cell.Aggregation.TermVersion) < j.restored[core] {
			continue
		}
		reported[cell.CellID] = true
		if _, was := j.guarded[key][cell.CellID]; !was {
			j.report.trace.Add("%s: protector %s reports to be guarded in %s", core, p.Name, cell.CellID)
			j.guarded[key][cell.CellID] = time.Now()
		}
	}
	for cell := range j.guarded[key] {
		if !reported[cell] {
			j.report.trace.Add("%s: protector %s reports not to be guarded in %s", core, p.Name, cell)
			delete(j.guarded[key], cell)
		}
	}
}

// RecordRestoredGuards records that the counts of a core, and what they say of cells, are void.
func (j *Judge) RecordRestoredGuards(core *Cluster) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.scopes == nil {
		return
	}
	j.scopes.restored[core.Name] = core.RestoredVersion
	for key := range j.scopes.guarded {
		if key.core == core.Name {
			delete(j.scopes.guarded, key)
		}
	}
}

// RecordRestoredNamespaces records which namespaces a restored cluster of a cell has.
func (j *Judge) RecordRestoredNamespaces(c *Cluster) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.scopes == nil {
		return
	}
	for name := range j.scopes.spaces[c.Name] {
		state := spaceState{at: time.Now(), isCreation: true}
		if space, err := c.Store.Get(apiserver.Namespaces, types.NamespacedName{Name: name}); err == nil {
			state.exists, state.hasLabel = true, hasProtectedLabel(space)
		}
		j.scopes.add(c.Name, name, state)
	}
}

// RecordBypass records that an API server does not have a request reviewed, by what it saw of the namespace at a time.
func (j *Judge) RecordBypass(cell string, r *Removal, pod *corev1.Pod, seenAt time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report.counts.Unreviewed++
	r.Bypass = &bypass{unexcused: map[protectorKey]string{}}
	j.report.trace.Add("%s: removal %s of %s is not reviewed: at %s the namespace has no label", cell, r.ID, r.Pod.Name, seenAt.UTC().Format(time.RFC3339Nano))
	protectors := map[protectorKey]*watchedProtector{}
	for key, w := range j.history.protectors {
		protectors[key] = w
	}
	if j.shares != nil {
		for key, p := range j.shares.protectors {
			protectors[key] = p.watchedProtector
		}
	}
	for key, w := range protectors {
		since, isGuarded := j.scopes.guarded[key][cell]
		state := podState{pod: pod}
		if isGuarded && w.covers(pod) && state.isCharged(w, time.Now().Add(-j.history.clockTolerance)) {
			if why := j.scopes.judgeGap(cell, r.Pod.Namespace, since, seenAt); why != "" {
				r.Bypass.unexcused[key] = why
			}
		}
	}
}

// judgeGap judges a time without label that an API server sees, although a protector has reported to be guarded since a time. It returns why that is a
// fault; "" if it is excused.
func (j *scopeJudge) judgeGap(cell, space string, guarded, seenAt time.Time) string {
	states := j.spaces[cell][space]
	last := 0
	for i := range states {
		if !states[i].at.After(seenAt) {
			last = i
		}
	}
	first := last
	for first > 0 && !states[first-1].hasLabel {
		first--
	}
	for first < last && !states[first].exists { // it needed no label
		first++
	}
	transit := maxReportTransit
	if first == 0 {
		transit = 0 // no aggregator ran before
	}
	switch begin := states[first]; {
	case !begin.isCreation && begin.by == scenario.User:
		return "" // a client removed the label
	case !begin.isCreation:
		return writerOrSimulator(begin.by) + " removed the label"
	case guarded.After(begin.at.Add(transit)):
		return fmt.Sprintf("it began to report that %s after the namespace was created or restored, without the label", guarded.Sub(begin.at))
	default:
		return ""
	}
}

// judgeBypass judges a removal, or a change, that was not reviewed.
func (j *effectJudge) judgeBypass(t *cellHistory, r *Removal, line *podHistory, before, after podState, version uint64) {
	now := time.Now().Add(j.history.clockTolerance)
	for _, key := range slices.SortedFunc(maps.Keys(r.Bypass.unexcused), protectorKey.compare) {
		why := r.Bypass.unexcused[key]
		j.report.fail("removal %s of %s was not reviewed, and protector %s/%s reported to be guarded: %s", r.ID, line.name, key.core, key.name.Name, why)
	}
	for _, key := range j.history.sortedProtectors() {
		w := j.history.protectors[key]
		_, isReserved := w.reservations.decisions[quota.HashUID(line.uid)]
		if !isReserved && before.isAvailable(w, now) && !after.isAvailable(w, now) {
			t.losses = append(t.losses, loss{excuse: lossUnlabeled, restores: t.restores, version: version, before: before, after: after, protector: w})
		}
	}
}

// unguarded returns "" if a cell has removals in the namespace of a protector reviewed, and the protector says so.
func unguarded(scope *scenario.ScopePlan, worker *Cluster, p *v1alpha1.PodProtector) string {
	if !scope.Protected {
		return ""
	}
	space, err := worker.Store.Get(apiserver.Namespaces, types.NamespacedName{Name: p.Namespace})
	if err != nil {
		return "" // there are no pods
	}
	if space.GetLabels()[v1alpha1.LabelProtected] != "true" {
		return fmt.Sprintf("namespace %s of %s has no label, and protector %s exists", p.Namespace, worker.Name, p.Name)
	}
	if cell := quota.CellOf(p, worker.Name); cell == nil || !isGuarded(cell) {
		return fmt.Sprintf("protector %s is not guarded in %s", p.Name, worker.Name)
	}
	return ""
}
