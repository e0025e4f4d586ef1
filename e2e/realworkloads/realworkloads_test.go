package realworkloads_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// floorTimeout bounds the wait for the state of a step. A floor that is wrong for longer is reported as wrong.
const floorTimeout = 45 * time.Second

// Rule 16: the number of pods comes from the lowest controller whose own scale selects these pods.
func TestRealWorkloads(t *testing.T) {
	for _, s := range readShapes(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := suite.NewFixture(t, nil)
			p := &play{Fixture: l, shape: s, worker: newOperator(l, l.Federation().Workers()[0]), core: newOperator(l, l.Federation().Cores()[0])}
			r := &shapeResult{Shape: s.name, WrongFloors: len(s.Steps)} // until each is right
			results.add(r)
			for i := range s.Steps {
				p.run(r, &s.Steps[i], i == len(s.Steps)-1)
			}
			t.Logf("%s", r)
		})
	}
}

// play is one shape in its namespace. The pods run in the first worker.
type play struct {
	*e2e.Fixture
	shape        *shape
	worker, core operator
}

func (p *play) cell() storm.Cell { return p.Cells[0] }

// run changes the workload, compares the floor with the right one, and deletes all pods at the last step and where the number is unknown.
func (p *play) run(r *shapeResult, s *step, isLast bool) {
	p.Helper()
	p.change(s)
	problem := p.waitForState(s)
	floor := int(s.Floor)
	if len(s.Unknown) > 0 {
		floor = s.Pods
	}
	if isLast || len(s.Unknown) > 0 || problem != "" {
		problem = p.storm(r, s, floor, problem)
	}
	r.observe(s, p.protector())
	if problem != "" {
		p.Errorf("%s: %s: %s", p.shape.name, s.Claim, problem)
		return
	}
	r.WrongFloors--
}

// storm deletes all pods. It returns what is wrong with the floor, before or after it.
func (p *play) storm(r *shapeResult, s *step, floor int, problem string) string {
	p.Helper()
	verdict := p.removeAllPods(s.Covers, floor)
	r.Deleted += verdict.Removals
	r.Survived, r.Unprotected = verdict.MinAvailable, r.Unprotected+verdict.OverAdmissions
	switch {
	case verdict.OverAdmissions > 0:
		p.Errorf("%s: %s: the storm left %d pods, want the floor of %d", p.shape.name, s.Claim, verdict.MinAvailable, floor)
	case s.Pods > floor && verdict.Removals == 0 && problem == "":
		p.Errorf("%s: %s: no pod could be deleted, want %d", p.shape.name, s.Claim, s.Pods-floor)
	}
	if problem != "" || len(s.Unknown) > 0 {
		return problem
	}
	// Rule 13: pods that are missing lower no floor.
	if got := p.protector(); !hasFloor(got, s) {
		return "after the storm, " + describeFloor(got, s)
	}
	return ""
}

// change applies the changes of a step. The protector is created with the first step.
func (p *play) change(s *step) {
	p.Helper()
	inCore, err := parseObjects(s.InCore)
	p.Must(err)
	p.core.create(inCore...)
	objects, err := parseObjects(s.Objects)
	p.Must(err)
	p.worker.create(objects...)
	for _, change := range s.Patches {
		p.worker.patch(change)
	}
	if s == &p.shape.Steps[0] {
		p.protect()
	}
	if len(s.Protector) > 0 {
		raw, err := json.Marshal(map[string]any{"spec": s.Protector})
		p.Must(err)
		p.Must(p.Core.Patch(p.Context(), p.protector(), client.RawPatch(types.MergePatchType, raw)))
	}
}

// protect creates the protector, or the policy that creates it.
func (p *play) protect() {
	p.Helper()
	name, rate := metav1.ObjectMeta{Namespace: p.Namespace, Name: p.shape.name}, int32(200)
	if p.shape.Policy != nil {
		p.Must(p.Core.Create(p.Context(), &v1alpha1.ProtectionPolicy{ObjectMeta: name, Spec: *p.shape.Policy}))
		p.Eventually(func() string {
			if p.protector() == nil {
				return "the generator has created no protector"
			}
			return ""
		})
		return
	}
	protector := &v1alpha1.PodProtector{ObjectMeta: name, Spec: *p.shape.Protector.DeepCopy()}
	protector.Spec.AdmissionHistory.AggregationRateMillis = &rate
	p.Must(p.Core.Create(p.Context(), protector))
}

// protector returns the only protector of the namespace, or nil if there is none.
func (p *play) protector() *v1alpha1.PodProtector {
	p.Helper()
	list := &v1alpha1.PodProtectorList{}
	p.Must(p.Core.List(p.Context(), list, client.InNamespace(p.Namespace)))
	switch len(list.Items) {
	case 0:
		return nil
	case 1:
		return &list.Items[0]
	}
	p.Fatalf("got %d protectors, want 1", len(list.Items))
	return nil
}

// waitForState waits until the pods are as the step says, the protector has the right floor and counts the right pods, and all webhooks have
// received it. It returns what is wrong after floorTimeout.
func (p *play) waitForState(s *step) string {
	p.Helper()
	deadline := time.Now().Add(floorTimeout)
	for {
		problem := p.worker.podsProblem(s.Covers, s.Pods)
		if problem == "" && s.Gone != "" {
			problem = p.worker.podsProblem(s.Gone, 0)
		}
		if got := p.protector(); problem == "" && (!hasFloor(got, s) || !hasCounted(got, s)) {
			problem = describeFloor(got, s)
		}
		if problem == "" && s.Pods > 0 {
			p.WaitForWebhooks(p.cell(), p.worker.pods(s.Covers)[0])
		}
		if problem == "" || time.Now().After(deadline) {
			return problem
		}
		<-time.After(50 * time.Millisecond)
	}
}

// hasFloor reports whether a protector has the right floor and number of expected pods, or says the right reason why they are unknown.
func hasFloor(p *v1alpha1.PodProtector, s *step) bool {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.ObservedGeneration != p.Generation {
		return false
	}
	if len(s.Unknown) == 0 {
		return ready.Status == metav1.ConditionTrue && expectedOf(p) == fmt.Sprint(s.Expected) && p.Status.DesiredAvailable == s.Floor
	}
	for _, fragment := range s.Unknown {
		if !strings.Contains(ready.Message, fragment) {
			return false
		}
	}
	return ready.Reason == v1alpha1.ReasonFloorUnknown && !strings.Contains(ready.Message, "not found")
}

// hasCounted reports whether a protector covers exactly the right pods.
func hasCounted(p *v1alpha1.PodProtector, s *step) bool {
	if int(p.Status.Summary.Available) != s.Pods {
		return false
	}
	if p.Spec.TargetRef == nil {
		return true
	}
	for i := range p.Status.Cells {
		if target := p.Status.Cells[i].Aggregation.Target; target != nil {
			got, err := labels.Parse(target.Selector)
			want, wantErr := labels.Parse(s.Covers)
			return err == nil && wantErr == nil && got.String() == want.String()
		}
	}
	return false
}

// expectedOf returns the number of expected pods, or "unknown".
func expectedOf(p *v1alpha1.PodProtector) string {
	if p.Status.ExpectedReplicas == nil {
		return "unknown"
	}
	return fmt.Sprint(*p.Status.ExpectedReplicas)
}

func describeFloor(p *v1alpha1.PodProtector, s *step) string {
	message, selectors := "", []string{}
	if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		message = ready.Reason + ": " + ready.Message
	}
	for i := range p.Status.Cells {
		if target := p.Status.Cells[i].Aggregation.Target; target != nil {
			selectors = append(selectors, target.Selector)
		}
	}
	want := fmt.Sprintf("expected %d, floor %d, available %d of %s", s.Expected, s.Floor, s.Pods, s.Covers)
	if len(s.Unknown) > 0 {
		want = fmt.Sprintf("an unknown floor with a message that contains %q, and not \"not found\"", s.Unknown)
	}
	return fmt.Sprintf("got expected %s, floor %d, available %d, targets %q, Ready %s; want %s",
		expectedOf(p), p.Status.DesiredAvailable, p.Status.Summary.Available, selectors, message, want)
}
