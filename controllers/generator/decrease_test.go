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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// limitOfTwoDecreases allow two large decreases in a window longer than any test.
func limitOfTwoDecreases() *core.Limits {
	return &core.Limits{Count: 2, Window: time.Hour, Quiet: time.Second, OnCascade: v1alpha1.CascadeHold}
}

func (p *fixture) accountWithBrake() *rest.Config {
	return p.account(slices.Concat(p.rules(), roles.Rules(p.t, "grants")))
}

// createProtectedDeployments creates Deployments, and waits until they have their protectors.
func (p *fixture) createProtectedDeployments(n int, change func(*appsv1.Deployment)) (all []*appsv1.Deployment) {
	p.t.Helper()
	for i := range n {
		d := p.deployment(fmt.Sprint("web-", i), change)
		p.create(d)
		all = append(all, d)
	}
	for _, d := range all {
		p.waitForProtector("deployment-"+d.Name, "the PodProtector is created", isSourceFound)
	}
	return all
}

// isPendingWithReason returns a predicate for a decrease that is pending for the given reason.
func isPendingWithReason(reason string) func(*v1alpha1.PodProtector) bool {
	return func(p *v1alpha1.PodProtector) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
	}
}

func hasSettledFloor(floor int) func(*v1alpha1.PodProtector) bool {
	return func(p *v1alpha1.PodProtector) bool {
		return p.Spec.MinAvailable.IntValue() == floor && !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDecreasePending)
	}
}

// confirm sets the confirmation annotation.
func (p *fixture) confirm(object client.Object) {
	p.t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "true"}}}`, v1alpha1.AnnotationConfirmRelease)
	if err := p.Patch(p.t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		p.t.Fatal(err)
	}
}

func (p *fixture) ownNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
}

// waitUntilDecreasesHeld waits until the protectors of all Deployments are held for a reason, and returns them.
func (p *fixture) waitUntilDecreasesHeld(all []*appsv1.Deployment, reason string) (protectors []*v1alpha1.PodProtector) {
	p.t.Helper()
	for _, d := range all {
		protectors = append(protectors, p.waitForProtector("deployment-"+d.Name, "the decrease is held", isPendingWithReason(reason)))
	}
	return protectors
}

func TestOneDeletionIsGrantedAfterQuietPeriodAndBurstIsHeld(t *testing.T) {
	p := newFixture(t)
	g := p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	all := p.createProtectedDeployments(6, nil)

	p.delete(all[0])
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web-0"}})
	p.waitUntilDeleted(all[0])
	if n := g.metric(t, "breakwater_generator_large_decreases_total", "Granted"); n != 1 {
		t.Errorf("%v large decreases were granted, want 1", n)
	}

	for _, d := range all[1:] {
		p.delete(d)
	}
	p.waitUntilDecreasesHeld(all[1:], v1alpha1.ReasonLimitExceeded)
	for _, d := range all[1:] {
		p.waitUntilDeleted(d) // the deletion itself does not wait
	}
	protectors := p.waitUntilDecreasesHeld(all[1:], v1alpha1.ReasonLimitExceeded)
	for i := range protectors {
		if c := meta.FindStatusCondition(protectors[i].Status.Conditions, v1alpha1.ConditionTargetResolved); c.Reason != v1alpha1.ReasonSourceDeleted {
			t.Errorf("%s: TargetResolved is %s, want %s", protectors[i].Name, c.Reason, v1alpha1.ReasonSourceDeleted)
		}
	}

	// A source that is created again has its former floor.
	p.create(p.deployment("web-1", nil))
	again := p.waitForProtector("deployment-web-1", "the PodProtector belongs to its source again", func(got *v1alpha1.PodProtector) bool {
		return isSourceFound(got) && hasSettledFloor(7)(got)
	})
	if again.UID != protectors[0].UID {
		t.Errorf("got another protector, want the one that was held")
	}
	// Confirm a single protector.
	p.confirm(protectors[1])
	p.waitUntilDeleted(protectors[1])
	// Confirm all of them, by the namespace.
	p.confirm(p.ownNamespace())
	for _, protector := range protectors[2:] {
		p.waitUntilDeleted(protector)
	}
	if got := p.waitForProtector("deployment-web-1", "the PodProtector exists", isSourceFound); got.UID != again.UID {
		t.Errorf("got another protector, want the one of the live source")
	}
}

func TestRestartedGeneratorKeepsRemainingDecreaseBudget(t *testing.T) {
	p := newFixture(t)
	account := p.accountWithBrake()
	limits := &core.Limits{Count: 1, Window: time.Hour, Quiet: time.Second}
	first := p.startWith(account, limits)
	all := p.createProtectedDeployments(2, nil)
	p.delete(all[0])
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web-0"}})
	first.stop()

	p.delete(all[1])
	p.startWith(account, limits)
	p.waitUntilDecreasesHeld(all[1:], v1alpha1.ReasonLimitExceeded)
}

// startWithOwner starts a generator that may read ConfigMaps, and creates one that can own objects.
func (p *fixture) startWithOwner() *corev1.ConfigMap {
	p.t.Helper()
	configMaps := roles.Kinds("generator.ownerKinds", schema.GroupResource{Resource: "configmaps"})
	p.startWith(p.account(slices.Concat(p.rules(configMaps), roles.Rules(p.t, "grants"))), limitOfTwoDecreases())
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "owner"}}
	p.create(owner)
	return owner
}

func TestCascadeIsHeldUntilConfirmed(t *testing.T) {
	for claim, c := range map[string]struct {
		owned bool
		cause func(p *fixture, owner *corev1.ConfigMap)
	}{
		"deletion of an owner": {true, func(p *fixture, owner *corev1.ConfigMap) { p.delete(owner) }},
		"deletion of the namespace": {false, func(p *fixture, _ *corev1.ConfigMap) {
			p.delete(p.ownNamespace())
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			owner := p.startWithOwner()
			all := p.createProtectedDeployments(2, func(d *appsv1.Deployment) {
				if c.owned {
					d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
				}
			})
			if c.owned {
				// While its owner exists, a deletion is no cascade.
				p.delete(all[1])
				p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web-1"}})
			}
			c.cause(p, owner)
			p.delete(all[0])
			protectors := p.waitUntilDecreasesHeld(all[:1], v1alpha1.ReasonCascade)
			p.waitUntilDeleted(all[0])
			p.confirm(protectors[0])
			p.waitUntilDeleted(protectors[0])
		})
	}
}

// The controller of a namespace, or the garbage collector, may delete a policy long before the workloads. What the policy protected then has a source
// that no component has deleted.
func TestCascadeThatDeletesThePolicyIsHeld(t *testing.T) {
	for claim, c := range map[string]struct {
		owned, replaced bool
	}{
		"deletion of the namespace":                                   {},
		"deletion of the owner of the policy":                         {owned: true},
		"deletion of the namespace while a weaker policy takes over":  {replaced: true},
		"deletion of the owner, while a weaker policy takes over too": {owned: true, replaced: true},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			owner := p.startWithOwner()
			// The grants are in this namespace, which accepts no new object when it is being deleted.
			p.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: core.ConfigMapName}})
			if c.replaced {
				p.create(p.clusterPolicy("weak", "10%"))
			}
			policy := p.policy("all", "90%", func(pp *v1alpha1.ProtectionPolicy) {
				pp.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
				if c.owned {
					pp.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
				}
			})
			p.create(policy)
			p.waitForPolicyFinalizer(policy)
			web := p.unlabeledDeployment("web")
			p.create(web)
			p.waitForProtector("deployment-web", "the policy applies", hasPolicyAndFloor("ProtectionPolicy/all", 9))
			if c.owned {
				p.delete(owner)
			} else {
				p.delete(p.ownNamespace())
			}
			p.delete(policy)
			protector := p.waitUntilDecreasesHeld([]*appsv1.Deployment{web}, v1alpha1.ReasonCascade)[0]
			if !hasFloor(9)(protector) {
				t.Errorf("got the floor %s, want 9", protector.Spec.MinAvailable)
			}
			p.confirm(protector)
			if c.replaced {
				p.waitForProtector("deployment-web", "the confirmed floor of the other policy", hasFloor(1))
			} else {
				p.waitUntilDeleted(protector)
			}
		})
	}
}

// A source that exists again undoes the cascade: a decrease that it requests is a separate one.
func TestDecreaseOfRecreatedSourceIsNotACascade(t *testing.T) {
	p := newFixture(t)
	configMaps := roles.Kinds("generator.ownerKinds", schema.GroupResource{Resource: "configmaps"})
	p.startWith(p.account(slices.Concat(p.rules(configMaps), roles.Rules(p.t, "grants"))), limitOfTwoDecreases())
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "owner"}}
	p.create(owner)
	all := p.createProtectedDeployments(1, func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	})
	p.delete(owner)
	p.delete(all[0])
	p.waitUntilDecreasesHeld(all, v1alpha1.ReasonCascade)
	p.waitUntilDeleted(all[0])

	p.create(p.deployment("web-0", func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 }))
	p.waitForProtector("deployment-web-0", "the decrease is within the limit", hasSettledFloor(3))
}

func TestUnreadableOwnerCountsAsDeleted(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "owner"}}
	p.create(owner)
	all := p.createProtectedDeployments(1, func(d *appsv1.Deployment) {
		d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	})
	p.delete(all[0])
	p.waitUntilDecreasesHeld(all, v1alpha1.ReasonCascade)
}

func TestManyFloorsThatDropByHalfAreHeld(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	all := p.createProtectedDeployments(5, nil)
	scale := func(d *appsv1.Deployment, to int32) {
		t.Helper()
		edit(p, d, func(d *appsv1.Deployment) { d.Spec.Replicas = &to })
	}
	scale(all[0], 9) // floor 7 -> 7: 30 % of 9 are 2
	scale(all[0], 7)
	p.waitForProtector("deployment-web-0", "a small decrease takes effect immediately", hasSettledFloor(5))
	scale(all[0], 4)
	p.waitForProtector("deployment-web-0", "several small decreases count as a large one", isPendingWithReason(v1alpha1.ReasonQuietPeriod))
	p.waitForProtector("deployment-web-0", "a single large decrease takes effect", hasSettledFloor(3))

	for _, d := range all[1:] {
		scale(d, 0)
	}
	for _, protector := range p.waitUntilDecreasesHeld(all[1:], v1alpha1.ReasonLimitExceeded) {
		if floor := protector.Spec.MinAvailable.IntValue(); floor != 7 {
			t.Errorf("%s has the floor %d, want 7", protector.Name, floor)
		}
	}
	// A user who lowers a floor that is held changes nothing for long.
	scale(all[1], 10)
	p.waitForProtector("deployment-web-1", "after scaling up again, nothing is pending", hasSettledFloor(7))
	p.confirm(all[2])
	p.waitForProtector("deployment-web-2", "the workload confirms it", hasSettledFloor(0))
}

func TestManySimultaneousOptOutsAreHeld(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	all := p.createProtectedDeployments(3, nil)
	for _, d := range all {
		edit(p, d, func(d *appsv1.Deployment) { d.Labels = nil })
	}
	p.waitUntilDecreasesHeld(all, v1alpha1.ReasonLimitExceeded)
	p.confirm(p.ownNamespace())
	for _, d := range all {
		p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-" + d.Name}})
	}
}

func TestDeletedPolicyDoesNotReleaseManyProtectorsAtOnce(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "all"}}
	policy.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	p.create(policy)
	all := p.createProtectedDeployments(3, func(d *appsv1.Deployment) { d.Labels = nil })
	p.delete(policy)
	p.waitUntilDecreasesHeld(all, v1alpha1.ReasonLimitExceeded)
	p.waitUntilDeleted(policy)
	// Without the policy the release is still wanted, and still held.
	for _, protector := range p.waitUntilDecreasesHeld(all, v1alpha1.ReasonLimitExceeded) {
		if c := meta.FindStatusCondition(protector.Status.Conditions, v1alpha1.ConditionTargetResolved); c.Reason != v1alpha1.ReasonPolicyDeleted {
			t.Errorf("%s: TargetResolved is %s, want %s", protector.Name, c.Reason, v1alpha1.ReasonPolicyDeleted)
		}
	}
	p.confirm(p.ownNamespace())
	for _, d := range all {
		p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-" + d.Name}})
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil || apierrors.IsNotFound(err) {
			t.Errorf("the Deployment: %v", err)
		}
	}
}

// While the quiet period lasts, the protector keeps the rule of a policy that no longer exists.
func TestLabelReplacesRuleOfDeletedPolicy(t *testing.T) {
	p := newFixture(t)
	p.startWith(p.accountWithBrake(), limitOfTwoDecreases())
	web, policy := p.unlabeledDeployment("web"), p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.MinReadySeconds = ptr.To[int32](60) })
	p.create(web)
	p.create(policy)
	p.waitForProtector("deployment-web", "the PodProtector is created", hasMinReady(60))
	p.delete(policy)
	p.waitUntilDeleted(policy)

	edit(p, web, func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelProtect] = "true" })
	p.waitForProtector("deployment-web", "the policy stays recorded as deleted", func(got *v1alpha1.PodProtector) bool {
		return isPendingWithReason(v1alpha1.ReasonQuietPeriod)(got) && hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyDeleted)(got)
	})
	p.waitForProtector("deployment-web", "the label decides", func(got *v1alpha1.PodProtector) bool { return hasMinReady(15)(got) && isSourceFound(got) })
}

// The source and its protector come by different watches: the cache may lack the source before the protector shows the reason.
func TestStaleCacheDoesNotTreatDeletedSourceAsVanished(t *testing.T) {
	p := newFixture(t)
	web, stale := p.createWebWithProtector()
	r := p.reconciler(nil)
	if err := r.retainer.conditions.announce(t.Context(), stale, *deletedCause(p.ref("web")).heldCondition); err != nil {
		t.Fatal(err)
	}
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
	p.delete(web)
	p.waitUntilDeleted(web)

	got, err := r.retainer.retainWithoutSource(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{stale})
	if err != nil || got != released {
		t.Errorf("retainWithoutSource() = %q, %v, want %q", got, err, released)
	}
	p.waitUntilDeleted(stale)
}
