package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain/live"
)

// In every state, the explanation of a removal equals the answer of the webhook to its dry run: the verdict, and the
// exact message.
func TestExplanationEqualsDryRunAnswer(t *testing.T) {
	t.Run("by one core", func(t *testing.T) {
		l := newFixture(t)
		wantVerdicts(t, explainStates(l, l, 0, 100), removal.VerdictOtherCell)
	})
	t.Run("by two cores", func(t *testing.T) {
		l := newFixture(t)
		other := l.secondCore()
		wantVerdicts(t, explainStates(l, other, 100, 220), removal.VerdictDryRun, removal.VerdictNotAvailable, removal.VerdictUnprotected,
			"NoBudget", "DomainLoss", "Full", "NeverAggregated", "Draining", "FloorUnknown", "Restored")
	})
}

func wantVerdicts(t *testing.T, seen map[removal.VerdictReason]int, verdicts ...removal.VerdictReason) {
	t.Helper()
	for _, want := range verdicts {
		if seen[want] == 0 {
			t.Errorf("no state has the verdict %s: %v", want, seen)
		}
	}
}

// explainStates creates the states of some seeds, compares the explanations with the answers, and counts the verdicts.
func explainStates(l, other *fixture, from, to int) map[removal.VerdictReason]int {
	t := l.TB.(*testing.T)
	l.createCell(func(s *v1alpha1.CellSpec) {
		s.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "own"}}
	})
	for i, labels := range []map[string]string{{corev1.LabelTopologyZone: "a"}, {corev1.LabelTopologyZone: "b"}, {}} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(l.namespace, "-", i), Labels: labels}}
		l.create(node)
		node.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourcePods: resource.MustParse("1000")}
		if err := l.client.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.client.Delete(context.Background(), node) })
	}
	pods := make([]*corev1.Pod, to-from)
	eightAtOnce(to-from, func(i int) { pods[i] = newRandomState(uint64(from+i)).state(l, other, from+i) })
	if t.Failed() {
		t.FailNow()
	}
	cores := []live.Core{{Name: l.core, Reader: l.client}}
	change := []func(*replicaOptions){withCells}
	if other != l {
		cores, change = append(cores, live.Core{Name: other.core, Reader: other.client}), append(change, other.asCore)
	}
	r := l.serve(change...).guard()
	cluster, err := live.NewCluster(l.cell, l.config)
	if err != nil {
		t.Fatal(err)
	}
	read, notes, err := live.Read(t.Context(), cores, cluster, l.namespace) // dry runs change nothing
	if err != nil || len(notes) > 0 {
		t.Fatal(err, notes)
	}
	operations := []v1alpha1.Operation{
		v1alpha1.OperationDelete, v1alpha1.OperationEvict, v1alpha1.OperationUpdate, v1alpha1.OperationResize, v1alpha1.OperationRelabel,
	}
	all := make([]removal.VerdictReason, len(operations)*len(pods))
	for n, operation := range operations {
		hooks, err := cluster.Hooks(t.Context(), l.namespace, operation)
		if err != nil {
			t.Fatal(err)
		}
		eightAtOnce(len(pods), func(i int) {
			pod := l.existing(pods[i].Name)
			if operation == v1alpha1.OperationResize && (pod.Spec.NodeName == "" || pod.Spec.NodeName == fmt.Sprint(l.namespace, "-3")) {
				return // the API server looks up the node first
			}
			situation := live.NewSituation(read, l.cell, pod, cluster.Node(t.Context(), pod.Spec.NodeName), operation, hooks)
			e := explain.Pod(situation)
			all[n*len(pods)+i] = e.Verdict
			answer := cluster.DryRun(t.Context(), l.namespace, pod.Name, operation)
			if err := live.RecordAnswer(&e, answer); err != nil {
				t.Error(err)
				return
			}
			wantAnswerWithoutCores(t, situation, answer)
			if e.Asked != explain.AskedYes || !e.Answer.Agrees {
				t.Errorf("%s of %s: explained: %v %s %q\nanswered: %+v\n%s", operation, pod.Name, e.Allowed, e.Verdict, e.Message, e.Answer, explained(t, pod, e))
			}
			if operation == v1alpha1.OperationDelete {
				r.wantExplained(situation.Request.Pod.Pod, e)
			}
		})
	}
	seen := map[removal.VerdictReason]int{}
	for _, verdict := range all {
		seen[verdict]++
	}
	return seen
}

// wantAnswerWithoutCores checks that the answer is a verdict also for a user who cannot read the cores, if only they know it.
func wantAnswerWithoutCores(t *testing.T, situation explain.Situation, answer error) {
	t.Helper()
	situation.Covering, situation.CoresErr = nil, errors.New("no core")
	e := explain.Pod(situation)
	if err := live.RecordAnswer(&e, answer); err != nil {
		t.Errorf("%s of %s: RecordAnswer() = %v without the cores, want a verdict", situation.Request.Operation, situation.Request.PodName, err)
	} else if e.IsUnknown() && e.Answer.Allowed != (answer == nil) {
		t.Errorf("%s of %s: RecordAnswer() recorded %+v, want that of %v", situation.Request.Operation, situation.Request.PodName, e.Answer, answer)
	}
}

func eightAtOnce(number int, do func(i int)) {
	var doing sync.WaitGroup
	for part := range 8 {
		doing.Go(func() {
			for i := part; i < number; i += 8 {
				do(i)
			}
		})
	}
	doing.Wait()
}

func explained(t *testing.T, pod *corev1.Pod, e explain.Explanation) string {
	t.Helper()
	text, err := json.MarshalIndent(map[string]any{"pod": pod.Status, "labels": pod.Labels, "explanation": e}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantExplained checks the verdict, which clients do not see, with a review of a dry run.
func (r *replica) wantExplained(pod *corev1.Pod, e explain.Explanation) {
	r.Helper()
	review, yes := deleteReview(pod), true
	review.Request.DryRun = &yes
	response := r.review(review)
	if got := response.AuditAnnotations[v1alpha1.AuditVerdict]; got != string(e.Verdict) || response.Allowed != e.Allowed {
		r.Errorf("pod %s: the verdict is %s (allowed %v), explained was %s (%v)", pod.Name, got, response.Allowed, e.Verdict, e.Allowed)
	}
	if response.Result != nil && response.Result.Message != e.Message {
		r.Errorf("pod %s: the webhook says %q, explained was %q", pod.Name, response.Result.Message, e.Message)
	}
}

// randomState generates random states.
type randomState struct{ *rand.Rand }

func newRandomState(seed uint64) randomState { return randomState{rand.New(rand.NewPCG(seed, 7))} }

func (c randomState) oneIn(n int) bool { return c.IntN(n) == 0 }

func one[T any](c randomState, of ...T) T { return of[c.IntN(len(of))] }

// state creates a pod and its protectors, in one core or in both. It returns nil if that failed.
func (c randomState) state(l, other *fixture, i int) *corev1.Pod {
	name := fmt.Sprint("state-", i)
	pod := l.pod(name, func(p *corev1.Pod) { c.pod(l, p, name) })
	if pod.DeletionTimestamp == nil && c.oneIn(15) && len(pod.Finalizers) > 0 {
		if err := l.client.Delete(l.Context(), pod); err != nil {
			l.Errorf("%s: %v", name, err)
		}
	}
	for n := range one(c, 0, 1, 1, 1, 1, 2, 2, 3) {
		core := one(c, l, l, other)
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprint(name, "-", n)}}
		c.spec(&p.Spec, name)
		if c.oneIn(20) {
			p.Annotations = map[string]string{v1alpha1.AnnotationRestored: "some time ago"}
		}
		if err := core.client.Create(l.Context(), p); err != nil {
			l.Errorf("%s: create %+v: %v", name, p.Spec, err)
			return nil
		}
		c.status(p, l.cell, pod)
		if err := core.client.Status().Update(l.Context(), p); err != nil {
			l.Errorf("%s: status of %+v: %v", name, p.Spec, err)
			return nil
		}
	}
	return pod
}

func (c randomState) pod(l *fixture, p *corev1.Pod, name string) {
	p.Labels = map[string]string{"state": name, "cell": one(c, "own", "own", "own", "own", "own", "own", "other"), "tier": one(c, "web", "web", "canary")}
	p.Spec.NodeName = fmt.Sprint(l.namespace, "-", c.IntN(4)) // the last one does not exist
	p.Annotations = map[string]string{}
	first := &p.Spec.Containers[0]
	first.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	first.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	if c.oneIn(10) {
		p.Annotations[v1alpha1.AnnotationForceDelete] = "true"
	}
	if c.oneIn(8) {
		p.Annotations[v1alpha1.AnnotationCriterion] = one(c, "Available", "Ready", "Running", "Scheduled", "alive")
	}
	if c.oneIn(6) {
		p.Finalizers = []string{"example.com/hold"}
	}
	ready := &p.Status.Conditions[0]
	ready.LastTransitionTime = one(c, metav1.Now(), metav1.NewTime(time.Now().Add(-time.Hour)))
	switch c.IntN(16) {
	case 0:
		ready.Status = corev1.ConditionFalse
	case 1:
		ready.Status = corev1.ConditionUnknown
	case 2:
		p.Status.Conditions = nil
	case 3:
		p.Status.Phase = one(c, corev1.PodSucceeded, corev1.PodFailed)
	case 4:
		p.Status.Phase = corev1.PodPending
	case 5:
		p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
	}
}

func (c randomState) spec(s *v1alpha1.PodProtectorSpec, name string) {
	selector := &v1alpha1.PodSelector{MatchLabels: map[string]string{"state": name}}
	if c.oneIn(5) {
		s.TargetRef = &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
		s.ExemptPodSelector = &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{
			{Key: "state", Operator: "NotIn", Values: []string{name}},
		}} // otherwise it would cover the pods of all states
	} else if s.Selector = selector; c.oneIn(6) {
		s.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "canary"}}
	}
	percent := func(text string) *intstr.IntOrString { of := intstr.FromString(text); return &of }
	switch c.IntN(4) {
	case 0:
		s.MinAvailable = percent(one(c, "0%", "50%", "70%", "100%"))
	case 1:
		s.MaxUnavailable = one(c, percent("30%"), percent("1%"), v1alpha1.Pods(1), v1alpha1.Pods(2))
	default:
		s.MinAvailable = v1alpha1.Pods(int32(c.IntN(8)))
	}
	if c.oneIn(5) {
		expected := int32(c.IntN(9))
		s.ExpectedReplicas = &expected
	}
	s.MinReadySeconds = one[int32](c, 0, 0, 600)
	s.Criterion = one(c, "", v1alpha1.CriterionAvailable, v1alpha1.CriterionReady, v1alpha1.CriterionRunning, v1alpha1.CriterionScheduled)
	if c.oneIn(6) {
		s.Operations = one(c, []v1alpha1.Operation{"Delete"}, []v1alpha1.Operation{"Evict", "Update"}, []v1alpha1.Operation{"Update", "Resize"})
	} else if c.oneIn(3) {
		s.Operations = []v1alpha1.Operation{"Delete", "Evict", "Update", "Resize", "Relabel"}
	}
	if c.oneIn(5) {
		s.AdmissionHistory.MaxConcurrentLag = int32(1 + c.IntN(3))
	}
	if c.oneIn(3) {
		s.Spread = &v1alpha1.Spread{TopologyKey: one(c, corev1.LabelTopologyZone, corev1.LabelTopologyZone, v1alpha1.TopologyKeyCell), TolerateDomainLoss: !c.oneIn(5)}
	}
}

func (c randomState) status(p *v1alpha1.PodProtector, own string, pod *corev1.Pod) {
	for _, id := range []string{own, "second", "third"} {
		if id == own && c.oneIn(12) || id != own && !c.oneIn(3) {
			continue
		}
		cell := v1alpha1.PodProtectorCell{CellID: id}
		if c.oneIn(6) {
			cell.Discount = one(c, v1alpha1.DiscountStale, v1alpha1.DiscountDraining, v1alpha1.DiscountCleared)
		}
		c.counts(&cell.Aggregation, p)
		for n := range c.IntN(4) {
			cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, c.bucket(fmt.Sprint("pod-", n)))
		}
		if id == own && c.oneIn(6) {
			bucket := c.bucket(pod.Name)
			bucket.PodUID = pod.UID
			cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, bucket)
		}
		p.Status.Cells = append(p.Status.Cells, cell)
	}
	quota.Summarize(p)
}

func (c randomState) bucket(name string) v1alpha1.Bucket {
	b := v1alpha1.Bucket{StartTime: metav1.NowMicro(), Counter: 1, PodUID: "uid-of-" + "x", PodName: name, Operation: v1alpha1.OperationDelete}
	if c.oneIn(5) {
		b.PodUID, b.PodName, b.Operation, b.Counter = "", "", "", 2
		b.PodUIDHashes = []byte("0123456789abcdef")
	}
	b.Accounted = c.oneIn(6)
	return b
}

func (c randomState) counts(a *v1alpha1.Aggregation, p *v1alpha1.PodProtector) {
	counted := int32(c.IntN(10))
	*a = v1alpha1.Aggregation{
		TotalReplicas: counted, AvailableReplicas: counted, CountedReplicas: counted, CountedSpec: quota.CountedSpec(&p.Spec),
		SnapshotVersion: "1", Epoch: 1, LastEventTime: one(c, metav1.NowMicro(), metav1.NewMicroTime(time.Now().Add(time.Hour))),
	}
	if c.oneIn(12) {
		a.CountedSpec = "another"
	}
	a.Void = c.oneIn(20)
	if !c.oneIn(4) {
		expected := int32(c.IntN(9))
		a.ExpectedReplicas = &expected
	}
	if p.Spec.TargetRef != nil && !c.oneIn(4) {
		a.Target = &v1alpha1.Target{UID: "uid", Selector: one(c, "tier in (web,canary)", "tier=web"), Replicas: counted}
	}
	if p.Spec.Spread != nil && !c.oneIn(5) {
		in := int32(c.IntN(int(counted) + 1))
		a.Spread = &v1alpha1.CellDomains{TopologyKey: corev1.LabelTopologyZone, Domains: []v1alpha1.DomainCount{{Name: "a", Counted: in}, {Name: "b", Counted: (counted - in + 1) / 2}}}
	}
}
