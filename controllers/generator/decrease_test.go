package generator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/brake"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// fewLimits allow two large decreases in a window longer than any test.
func fewLimits() *core.Limits {
	return &core.Limits{Count: 2, Window: time.Hour, Quiet: time.Second, OnCascade: v1alpha1.CascadeHold}
}

func (p *plane) brakeAccount() *rest.Config {
	return p.account(slices.Concat(ClusterRules(), brake.Rules()))
}

// services creates Deployments, and waits until they have their protectors.
func (p *plane) services(n int, change func(*appsv1.Deployment)) (all []*appsv1.Deployment) {
	p.t.Helper()
	for i := range n {
		d := p.deployment(fmt.Sprint("web-", i), change)
		p.create(d)
		all = append(all, d)
	}
	for _, d := range all {
		p.protector("deployment-"+d.Name, "it is made", sourceFound)
	}
	return all
}

// pendingBy returns a predicate for a decrease that is pending for the given reason.
func pendingBy(reason string) func(*v1alpha1.PodProtector) bool {
	return func(p *v1alpha1.PodProtector) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
	}
}

func floorIs(floor int) func(*v1alpha1.PodProtector) bool {
	return func(p *v1alpha1.PodProtector) bool {
		return p.Spec.MinAvailable.IntValue() == floor && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
	}
}

// confirm sets the confirmation annotation.
func (p *plane) confirm(object client.Object) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "true"}}}`, v1alpha1.AnnotationConfirmRelease)
	if err := p.Patch(p.t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plane) ownNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
}

// braked waits until the protectors of all Deployments are held for a reason, and returns them.
func (p *plane) braked(all []*appsv1.Deployment, reason string) (protectors []*v1alpha1.PodProtector) {
	p.t.Helper()
	for _, d := range all {
		protectors = append(protectors, p.protector("deployment-"+d.Name, "its decrease is held", pendingBy(reason)))
	}
	return protectors
}

func TestOneDeletionTakesEffectAfterTheQuietPeriodAndABurstIsHeld(t *testing.T) {
	p := newPlane(t)
	g := p.startWith(p.brakeAccount(), fewLimits())
	all := p.services(6, nil)

	p.delete(all[0])
	p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web-0"}})
	p.gone(all[0])
	if n := g.metric(t, "breakwater_generator_large_decreases_total", "Granted"); n != 1 {
		t.Errorf("%v large decreases were granted, want 1", n)
	}

	for _, d := range all[1:] {
		p.delete(d)
	}
	p.braked(all[1:], v1alpha1.ReasonLimitExceeded)
	for _, d := range all[1:] {
		p.gone(d) // the deletion itself does not wait
	}
	protectors := p.braked(all[1:], v1alpha1.ReasonLimitExceeded)
	for i := range protectors {
		if c := meta.FindStatusCondition(protectors[i].Status.Conditions, v1alpha1.ConditionTargetResolved); c.Reason != v1alpha1.ReasonSourceDeleted {
			t.Errorf("%s: TargetResolved is %s, want %s", protectors[i].Name, c.Reason, v1alpha1.ReasonSourceDeleted)
		}
	}

	// A source that is created again has its former floor.
	p.create(p.deployment("web-1", nil))
	again := p.protector("deployment-web-1", "it is its source's again", func(got *v1alpha1.PodProtector) bool { return sourceFound(got) && floorIs(7)(got) })
	if again.UID != protectors[0].UID {
		t.Errorf("another protector, want the one that was held")
	}
	// Confirm a single protector.
	p.confirm(protectors[1])
	p.gone(protectors[1])
	// Confirm all of them, by the namespace.
	p.confirm(p.ownNamespace())
	for _, protector := range protectors[2:] {
		p.gone(protector)
	}
	if got := p.protector("deployment-web-1", "it is there", sourceFound); got.UID != again.UID {
		t.Errorf("another protector, want the one of the live source")
	}
}

func TestARestartedGeneratorHasTheBudgetThatWasLeft(t *testing.T) {
	p := newPlane(t)
	account := p.brakeAccount()
	limits := &core.Limits{Count: 1, Window: time.Hour, Quiet: time.Second}
	first := p.startWith(account, limits)
	all := p.services(2, nil)
	p.delete(all[0])
	p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web-0"}})
	first.stop()

	p.delete(all[1])
	p.startWith(account, limits)
	p.braked(all[1:], v1alpha1.ReasonLimitExceeded)
}

func TestACascadeIsHeldUntilItIsConfirmed(t *testing.T) {
	for claim, c := range map[string]struct {
		owned bool
		cause func(p *plane, owner *corev1.ConfigMap)
	}{
		"of an owner": {true, func(p *plane, owner *corev1.ConfigMap) { p.delete(owner) }},
		"of the namespace": {false, func(p *plane, _ *corev1.ConfigMap) {
			p.delete(p.ownNamespace())
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newPlane(t)
			// The generator may read the owner.
			configMaps := brake.OwnerRules(schema.GroupResource{Resource: "configmaps"})
			p.startWith(p.account(slices.Concat(ClusterRules(), brake.Rules(), configMaps)), fewLimits())
			owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "owner"}}
			p.create(owner)
			all := p.services(2, func(d *appsv1.Deployment) {
				if c.owned {
					d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
				}
			})
			if c.owned {
				// While its owner exists, a deletion is no cascade.
				p.delete(all[1])
				p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web-1"}})
			}
			c.cause(p, owner)
			p.delete(all[0])
			protectors := p.braked(all[:1], v1alpha1.ReasonCascade)
			p.gone(all[0])
			p.confirm(protectors[0])
			p.gone(protectors[0])
		})
	}
}

// A source that exists again undoes the cascade: a decrease that it requests is a separate one.
func TestASmallerSourceThatCameBackAfterACascadeIsNoCascade(t *testing.T) {
	p := newPlane(t)
	configMaps := brake.OwnerRules(schema.GroupResource{Resource: "configmaps"})
	p.startWith(p.account(slices.Concat(ClusterRules(), brake.Rules(), configMaps)), fewLimits())
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "owner"}}
	p.create(owner)
	all := p.services(1, func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	})
	p.delete(owner)
	p.delete(all[0])
	p.braked(all, v1alpha1.ReasonCascade)
	p.gone(all[0])

	p.create(p.deployment("web-0", func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 }))
	p.protector("deployment-web-0", "its decrease is within the limit", floorIs(3))
}

func TestAnOwnerThatMayNotBeReadCountsAsDeleted(t *testing.T) {
	p := newPlane(t)
	p.startWith(p.brakeAccount(), fewLimits())
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "owner"}}
	p.create(owner)
	all := p.services(1, func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	})
	p.delete(all[0])
	p.braked(all, v1alpha1.ReasonCascade)
}

func TestFloorsThatFallByHalfAreHeldWhenTheyAreMany(t *testing.T) {
	p := newPlane(t)
	p.startWith(p.brakeAccount(), fewLimits())
	all := p.services(5, nil)
	scale := func(d *appsv1.Deployment, to int32) {
		t.Helper()
		edit(p, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &to })
	}
	scale(all[0], 9) // floor 7 -> 7: 30 % of 9 are 2
	scale(all[0], 7)
	p.protector("deployment-web-0", "a small decrease takes effect at once", floorIs(5))
	scale(all[0], 4)
	p.protector("deployment-web-0", "several small decreases are a large one", pendingBy(v1alpha1.ReasonQuietPeriod))
	p.protector("deployment-web-0", "a single large decrease takes effect", floorIs(3))

	for _, d := range all[1:] {
		scale(d, 0)
	}
	for _, protector := range p.braked(all[1:], v1alpha1.ReasonLimitExceeded) {
		if floor := protector.Spec.MinAvailable.IntValue(); floor != 7 {
			t.Errorf("%s has the floor %d, want 7", protector.Name, floor)
		}
	}
	// A user who lowers a floor that is held changes nothing for long.
	scale(all[1], 10)
	p.protector("deployment-web-1", "scaled up again, nothing is pending", floorIs(7))
	p.confirm(all[2])
	p.protector("deployment-web-2", "the workload confirms it", floorIs(0))
}

func TestManyWorkloadsThatOptOutAtOnceAreHeld(t *testing.T) {
	p := newPlane(t)
	p.startWith(p.brakeAccount(), fewLimits())
	all := p.services(3, nil)
	for _, d := range all {
		edit(p, d, func(d *appsv1.Deployment) { d.Labels = nil })
	}
	p.braked(all, v1alpha1.ReasonLimitExceeded)
	p.confirm(p.ownNamespace())
	for _, d := range all {
		p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-" + d.Name}})
	}
}

func TestAPolicyThatIsDeletedDoesNotReleaseManyProtectorsAtOnce(t *testing.T) {
	p := newPlane(t)
	p.startWith(p.brakeAccount(), fewLimits())
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "all"}}
	policy.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	p.create(policy)
	all := p.services(3, func(d *appsv1.Deployment) { d.Labels = nil })
	p.delete(policy)
	p.braked(all, v1alpha1.ReasonLimitExceeded)
	p.gone(policy)
	// Without the policy the release is still wanted, and still held.
	for _, protector := range p.braked(all, v1alpha1.ReasonLimitExceeded) {
		if c := meta.FindStatusCondition(protector.Status.Conditions, v1alpha1.ConditionTargetResolved); c.Reason != v1alpha1.ReasonPolicyDeleted {
			t.Errorf("%s: TargetResolved is %s, want %s", protector.Name, c.Reason, v1alpha1.ReasonPolicyDeleted)
		}
	}
	p.confirm(p.ownNamespace())
	for _, d := range all {
		p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-" + d.Name}})
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || apierrors.IsNotFound(err) {
			t.Errorf("the Deployment: %v", err)
		}
	}
}

// The source and its protector come by different watches: the cache may lack the source before the protector shows the reason.
func TestASourceThatWasDeletedIsNotTakenForVanishedByAStaleCache(t *testing.T) {
	p := newPlane(t)
	web, stale := p.pair()
	r := p.reconciler()
	if err := r.resolve(t.Context(), stale, *deleted(p.ref("web")).held); err != nil {
		t.Fatal(err)
	}
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
	p.delete(web)
	p.gone(web)

	got, err := r.keep(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{stale})
	if err != nil || got != released {
		t.Errorf("keep() = %q, %v, want %q", got, err, released)
	}
	p.gone(stale)
}
