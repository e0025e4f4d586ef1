package generator

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// A field that a policy no longer sets gets its default, which may guard less.
func TestPolicyThatDropsFieldsIsBraked(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	rule := p.policy("all", "50%", func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Operations = append(v1alpha1.DefaultOperations(), v1alpha1.OperationUpdate)
		pp.Spec.MinReadySeconds = ptr.To(int32(60))
		pp.Spec.Spread = &v1alpha1.Spread{TopologyKey: "zone", TolerateDomainLoss: true}
		pp.Spec.AdmissionHistory = &v1alpha1.AdmissionHistoryTuning{UpdateTimeoutSeconds: ptr.To(int32(6000))}
	})
	p.create(rule)
	isStrong := func(floor int32) func(*v1alpha1.PodProtector) bool {
		return func(got *v1alpha1.PodProtector) bool {
			return hasFloor(floor)(got) && slices.Contains(got.Spec.Operations, v1alpha1.OperationUpdate) && got.Spec.MinReadySeconds == 60 &&
				got.Spec.Spread != nil && got.Spec.Spread.TolerateDomainLoss && *got.Spec.AdmissionHistory.UpdateTimeoutSeconds == 6000
		}
	}
	var all []*appsv1.Deployment
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		all = append(all, p.unlabeledDeployment(name))
		p.create(all[len(all)-1])
	}
	for _, d := range all {
		p.waitForProtector("deployment-"+d.Name, "the policy applies", isStrong(5))
	}
	edit(p, rule, func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Operations, pp.Spec.MinReadySeconds, pp.Spec.Spread, pp.Spec.AdmissionHistory = nil, nil, nil, nil
	})
	for _, protector := range p.waitUntilDecreasesHeld(all, v1alpha1.ReasonLimitExceeded) {
		if !isStrong(5)(protector) {
			t.Errorf("3 protectors became weaker at once, with a limit of 2:\n%s", dump(protector))
		}
	}
	edit(p, all[0], func(d *appsv1.Deployment) { *d.Spec.Replicas = 40 })
	p.waitForProtector("deployment-web-0", "a floor rises while another change is held", isStrong(20))

	p.confirm(p.ownNamespace())
	for _, d := range all {
		p.waitForProtector("deployment-"+d.Name, "the confirmed change takes effect", func(got *v1alpha1.PodProtector) bool {
			return len(got.Spec.Operations) == 3 && got.Spec.MinReadySeconds == 15 && got.Spec.Spread == nil && *got.Spec.AdmissionHistory.UpdateTimeoutSeconds == 600
		})
	}
}

// The API server decides what an apply removes: a field that a user owns as well stays.
func TestPredictionShowsWhatTheAPIServerWouldStore(t *testing.T) {
	p := newFixture(t)
	web := p.unlabeledDeployment("web")
	p.create(web)
	wanted := func(operations ...v1alpha1.Operation) policy.Protector {
		t.Helper()
		rule := p.policy("all", "50%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.Operations = operations })
		all, err := policy.Protectors(policy.Source{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Object: web}, policy.Deployments{},
			policy.NewPolicy(rule).OriginFor(p.ref("web").GroupKind()))
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	a := &applier{p.Client}
	if err := a.create(t.Context(), wanted(v1alpha1.OperationDelete, v1alpha1.OperationUpdate)); err != nil {
		t.Fatal(err)
	}
	live := &v1alpha1.PodProtector{}
	for claim, c := range map[string]struct {
		wanted policy.Protector
		want   []v1alpha1.Operation
	}{
		"a field that is no longer set": {wanted(), v1alpha1.DefaultOperations()},
		"an item that is no longer set": {wanted(v1alpha1.OperationDelete), []v1alpha1.Operation{v1alpha1.OperationDelete}},
	} {
		if err := p.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "deployment-web"}, live); err != nil {
			t.Fatal(err)
		}
		version := live.ResourceVersion
		after, err := a.predict(t.Context(), live, c.wanted)
		if err != nil || !slices.Equal(after.Spec.Operations, c.want) {
			t.Errorf("%s: predict() = operations %v, %v, want %v", claim, after.Spec.Operations, err, c.want)
		}
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil || live.ResourceVersion != version {
			t.Errorf("%s: predict() changed the protector (%v)", claim, err)
		}
	}
	edit(p, live, func(live *v1alpha1.PodProtector) {
		live.Spec.Operations = append(live.Spec.Operations, v1alpha1.OperationResize)
	})
	after, err := a.predict(t.Context(), live, wanted(v1alpha1.OperationDelete))
	if err != nil || !slices.Contains(after.Spec.Operations, v1alpha1.OperationResize) {
		t.Errorf("predict() = operations %v, %v, want the one that a user added", after.Spec.Operations, err)
	}
}

// The mark tells the webhook that the reservations of the protector are unknown.
func TestChangeOfUnfinishedProtectorKeepsItsMark(t *testing.T) {
	p := newFixture(t)
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	wanted, err := policy.FromDeployment(web)
	if err != nil {
		t.Fatal(err)
	}
	wanted.Object.Annotations[v1alpha1.AnnotationRestored] = ""
	r := p.reconciler(&holdingBrake{})
	if err := r.protection.applier.create(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	protector := p.waitForProtector("deployment-web", "the PodProtector exists", hasFloor(7))
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	if _, err := r.reconcileProtectors(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{protector}); err != nil {
		t.Fatal(err)
	}
	p.waitForProtector("deployment-web", "the floor rises, and the mark stays", func(got *v1alpha1.PodProtector) bool {
		_, isMarked := got.Annotations[v1alpha1.AnnotationRestored]
		return hasFloor(14)(got) && isMarked
	})
}
