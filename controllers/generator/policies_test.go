package generator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// policy returns a policy in the test's namespace, with a percentage as its floor.
func (p *plane) policy(name, floor string, change func(*v1alpha1.ProtectionPolicy)) *v1alpha1.ProtectionPolicy {
	share := intstr.Parse(floor)
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	policy.Spec.Floor = &v1alpha1.FloorRule{PodShare: v1alpha1.PodShare{MinAvailable: &share}}
	if change != nil {
		change(policy)
	}
	return policy
}

// clusterPolicy returns a policy that selects only the test's namespace, by a label. The test deletes it at its end.
func (p *plane) clusterPolicy(name, floor string) *v1alpha1.ClusterProtectionPolicy {
	p.t.Helper()
	edit(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, func(n *corev1.Namespace) { n.Labels["test"] = p.namespace })
	policy := &v1alpha1.ClusterProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + p.namespace}}
	policy.Spec.ProtectionPolicySpec = p.policy(name, floor, nil).Spec
	policy.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"test": p.namespace}}
	p.t.Cleanup(func() { p.erase(policy) })
	return policy
}

// erase deletes an object and its finalizers.
func (p *plane) erase(object client.Object) {
	ctx := p.t.Context()
	if ctx.Err() != nil {
		ctx = newContext()
	}
	for {
		_ = p.Delete(ctx, object)
		err := p.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return
		}
		object.SetFinalizers(nil)
		_ = p.Update(ctx, object)
	}
}

// plain returns a Deployment without the label that requests protection.
func (p *plane) plain(name string) *appsv1.Deployment {
	return p.deployment(name, func(d *appsv1.Deployment) { d.Labels = map[string]string{"team": "shop"} })
}

// held waits until the generator holds a policy: from then on it observes the policy's deletion.
func (p *plane) held(policy client.Object) {
	p.t.Helper()
	p.eventually("the policy is held", func() string {
		if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err.Error()
		}
		if slices.Contains(policy.GetFinalizers(), v1alpha1.FinalizerPolicy) {
			return ""
		}
		return dump(policy)
	})
}

// isBy returns a predicate for a protector that has that floor by that policy.
func isBy(policy string, floor int32) func(*v1alpha1.PodProtector) bool {
	return func(got *v1alpha1.PodProtector) bool {
		c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionTargetResolved)
		told := c != nil && (policy == "" || strings.Contains(c.Message, policy))
		return hasFloor(floor)(got) && got.Annotations[v1alpha1.AnnotationPolicy] == policy && sourceFound(got) && told
	}
}

func TestAPolicyGivesWorkloadsTheirProtectors(t *testing.T) {
	p := newPlane(t)
	g := p.start()
	web, db := p.plain("web"), p.statefulSet("db", 4)
	db.Labels = map[string]string{"team": "shop"}
	other := p.deployment("other", func(d *appsv1.Deployment) { d.Labels = nil })
	p.create(web)
	p.create(db)
	p.create(other)
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "shop"}}
		pp.Spec.Criterion = v1alpha1.CriterionReady
		pp.Spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
		pp.Spec.MinReadySeconds = ptr.To(int32(1))
		pp.Spec.AdmissionHistory = &v1alpha1.AdmissionHistoryTuning{MaxConcurrentLag: ptr.To(int32(2))}
	})
	p.create(policy)

	got := p.protector("deployment-web", "90 % of 10", isBy("ProtectionPolicy/shop", 9))
	if got.Spec.Spread == nil || !got.Spec.Spread.TolerateDomainLoss || got.Spec.Spread.TopologyKey != v1alpha1.TopologyKeyCell {
		t.Errorf("the protector's spread is %+v", got.Spec.Spread)
	}
	if got.Spec.Criterion != v1alpha1.CriterionReady || got.Spec.MinReadySeconds != 1 || got.Spec.AdmissionHistory.MaxConcurrentLag != 2 {
		t.Errorf("the policy's other wishes are not there:\n%s", dump(got))
	}
	p.protector("statefulset-db", "90 % of 4, rounded up", isBy("ProtectionPolicy/shop", 4))
	p.expectStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
		return s.Selected == 2 && s.Applied == 2 && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) &&
			meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionKindsServed) && s.ObservedGeneration == policy.Generation
	})
	p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-other"}})

	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 })
	p.protector("deployment-web", "an explicit scale-down lowers it", isBy("ProtectionPolicy/shop", 0))
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.protector("deployment-web", "and a scale-up raises it", isBy("ProtectionPolicy/shop", 18))

	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Criterion, pp.Spec.AdmissionHistory, pp.Spec.Spread = "", nil, nil
		pp.Spec.Floor = &v1alpha1.FloorRule{Bands: []v1alpha1.FloorBand{
			{UpToReplicas: ptr.To(int32(10)), PodShare: v1alpha1.PodShare{MaxUnavailable: ptr.To(intstr.FromInt32(1))}},
			{PodShare: v1alpha1.PodShare{MinAvailable: ptr.To(intstr.FromString("50%"))}}}}
	})
	got = p.protector("deployment-web", "the band of large ones", isBy("ProtectionPolicy/shop", 10))
	if got.Spec.Spread != nil {
		t.Errorf("the policy says nothing of a spread any more, and the protector's is %+v", got.Spec.Spread)
	}
	if got.Spec.Criterion != v1alpha1.CriterionAvailable || got.Spec.AdmissionHistory.MaxConcurrentLag != 0 {
		t.Errorf("what the policy says no more is still there:\n%s", dump(got))
	}
	p.protector("statefulset-db", "the band of small ones", isBy("ProtectionPolicy/shop", 3))

	p.delete(web)
	p.gone(web)
	p.gone(got)
	if vanished := g.metric(t, "breakwater_generator_vanished_sources", ""); vanished != 0 {
		t.Errorf("%v vanished sources after a deletion on purpose", vanished)
	}
}

func (p *plane) expectStatus(policy client.Object, holds func(v1alpha1.ProtectionPolicyStatus) bool) {
	p.t.Helper()
	p.eventually("the status of the policy", func() string {
		if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err.Error()
		}
		if holds(*statusOf(policy)) {
			return ""
		}
		return dump(policy)
	})
}

func TestPrecedenceIsDefinedAndShown(t *testing.T) {
	p := newPlane(t)
	p.start()
	p.create(p.deployment("web", nil)) // opted in by its label
	p.protector("deployment-web", "the label alone is the last", isBy("", 7))
	cluster := p.clusterPolicy("all", "30%")
	p.create(cluster)
	name := "ClusterProtectionPolicy/" + cluster.Name
	p.protector("deployment-web", "a policy of the cluster comes before the label", isBy(name, 3))
	low := p.policy("low", "50%", nil)
	p.create(low)
	p.protector("deployment-web", "one of the namespace comes before that of the cluster", isBy("ProtectionPolicy/low", 5))
	high := p.policy("high", "60%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.Priority = 1 })
	p.create(high)
	p.protector("deployment-web", "the higher priority comes first", isBy("ProtectionPolicy/high", 6))
	for _, policy := range []client.Object{cluster, low} {
		p.expectStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
			return s.Selected == 1 && s.Applied == 0 && s.Overruled == 1 && len(s.OverruledWorkloads) == 1 &&
				s.OverruledWorkloads[0].By == "ProtectionPolicy/high" && s.OverruledWorkloads[0].Name == "web"
		})
	}
	p.delete(high)
	p.gone(high)
	p.protector("deployment-web", "without it the next one applies", isBy("ProtectionPolicy/low", 5))

	web := p.deployment("web", nil)
	edit(p, web, func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelProtect] = "false" })
	p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web"}})
	p.expectStatus(low, func(s v1alpha1.ProtectionPolicyStatus) bool {
		return s.Selected == 1 && s.OptedOut == 1 && s.Applied == 0
	})
}

func TestANamespaceThatIsChosenLaterHasItsProtectors(t *testing.T) {
	p := newPlane(t)
	p.start()
	p.create(p.plain("web"))
	cluster := p.clusterPolicy("all", "30%")
	cluster.Spec.NamespaceSelector.MatchLabels["later"] = "true"
	p.create(cluster)
	p.expectStatus(cluster, func(s v1alpha1.ProtectionPolicyStatus) bool { return len(s.Conditions) > 0 && s.Selected == 0 })
	edit(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, func(n *corev1.Namespace) { n.Labels["later"] = "true" })
	p.protector("deployment-web", "it is made", isBy("ClusterProtectionPolicy/"+cluster.Name, 3))
}

func TestAPolicyThatIsDeletedOnPurposeReleasesAsItSays(t *testing.T) {
	p := newPlane(t)
	p.start()
	p.create(p.plain("web"))
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease })
	p.create(policy)
	protector := p.protector("deployment-web", "it is made", isBy("ProtectionPolicy/shop", 9))
	p.delete(policy)
	p.gone(protector)
	p.gone(policy)
	web := p.plain("web")
	p.eventually("the Deployment is let go", func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || len(web.Finalizers) > 0 {
			return fmt.Sprint(err, dump(web))
		}
		return ""
	})
}

func TestAPolicyThatIsDeletedRetainsUnlessItSaysOtherwise(t *testing.T) {
	p := newPlane(t)
	g := p.start()
	web := p.plain("web")
	p.create(web)
	policy := p.policy("shop", "90%", nil)
	p.create(policy)
	before := p.protector("deployment-web", "it is made", isBy("ProtectionPolicy/shop", 9))
	p.delete(policy)
	p.gone(policy)
	got := p.protector("deployment-web", "it says so", isResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyDeleted))
	if got.UID != before.UID || got.Spec.MinAvailable.IntVal != 9 || got.DeletionTimestamp != nil {
		t.Errorf("it is not in force as it was:\n%s", dump(got))
	}
	p.announced("PodProtector/deployment-web Warning PolicyDeleted: ProtectionPolicy/shop was deleted")
	p.eventually("the metric", func() string {
		if count := g.metric(t, "breakwater_generator_retained_sources", ""); count != 1 {
			return fmt.Sprint(count)
		}
		return ""
	})
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.protector("deployment-web", "it goes on following its workload by the policy's rule", hasFloor(18))
	edit(p, web, func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelProtect] = "false" })
	p.gone(got)
}

func TestAPolicyThatVanishesLowersNoFloor(t *testing.T) {
	for claim, release := range map[string]v1alpha1.TargetRemovalPolicy{"of one that retains": "", "of one that releases": v1alpha1.TargetRemovalRelease} {
		t.Run(claim, func(t *testing.T) {
			p := newPlane(t)
			account := p.account(ClusterRules())
			first := p.startAs(account)
			p.create(p.deployment("web", nil)) // its label would give it a floor of 7
			weaker := p.policy("weaker", "20%", nil)
			p.create(weaker)
			policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
				pp.Spec.TargetRemovalPolicy, pp.Spec.Priority = release, 5
			})
			p.create(policy)
			before := p.protector("deployment-web", "it is made", isBy("ProtectionPolicy/shop", 9))
			first.stop()
			p.erase(policy)

			second := p.startAs(account)
			got := p.protector("deployment-web", "it says so", isResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyVanished))
			if got.UID != before.UID || got.Spec.MinAvailable.IntVal != 9 || got.DeletionTimestamp != nil {
				t.Errorf("it is not in force as it was:\n%s", dump(got))
			}
			web := p.deployment("web", nil)
			edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
			p.protector("deployment-web", "it goes on following its workload", hasFloor(18))
			second.stop()

			p.startAs(account)
			p.create(p.policy("shop", "80%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.Priority = 5 }))
			p.protector("deployment-web", "a policy of that name takes it up again", isBy("ProtectionPolicy/shop", 16))
		})
	}
}

func TestAVanishedPolicyCanBeGivenUpOnPurpose(t *testing.T) {
	p := newPlane(t)
	account := p.account(ClusterRules())
	first := p.startAs(account)
	p.create(p.deployment("web", nil))
	policy := p.policy("shop", "90%", nil)
	p.create(policy)
	protector := p.protector("deployment-web", "it is made", isBy("ProtectionPolicy/shop", 9))
	first.stop()
	p.erase(policy)
	p.startAs(account)
	p.protector("deployment-web", "it says so", isResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyVanished))
	edit(p, protector, func(got *v1alpha1.PodProtector) { delete(got.Annotations, v1alpha1.AnnotationPolicy) })
	p.protector("deployment-web", "the label counts", isBy("", 7))
}

func TestAPolicyThatSelectsAWorkloadNoMoreKeepsItsProtector(t *testing.T) {
	for claim, c := range map[string]struct {
		removal v1alpha1.TargetRemovalPolicy
		kept    bool
	}{"retain": {"", true}, "release": {v1alpha1.TargetRemovalRelease, false}} {
		t.Run(claim, func(t *testing.T) {
			p := newPlane(t)
			p.start()
			web := p.plain("web")
			p.create(web)
			p.create(p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
				pp.Spec.TargetRemovalPolicy = c.removal
				pp.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "shop"}}
			}))
			protector := p.protector("deployment-web", "it is made", isBy("ProtectionPolicy/shop", 9))
			edit(p, web, func(d *appsv1.Deployment) { d.Labels = nil })
			if !c.kept {
				p.gone(protector)
				return
			}
			got := p.protector("deployment-web", "it says so", isResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyLeft))
			if got.UID != protector.UID || got.Spec.MinAvailable.IntVal != 9 {
				t.Errorf("it is not in force as it was:\n%s", dump(got))
			}
		})
	}
}

// Stopping the generator simulates a crash between the steps; the next generator must finish the rest.
func TestTheDeletionOfAPolicyWaitsForTheGenerator(t *testing.T) {
	p := newPlane(t)
	account := p.account(ClusterRules())
	first := p.startAs(account)
	p.create(p.plain("web"))
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease })
	p.create(policy)
	protector := p.protector("deployment-web", "it is made", isBy("ProtectionPolicy/shop", 9))
	first.stop()
	p.delete(policy)
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
		t.Fatalf("it did not wait: %v", err)
	}
	p.startAs(account)
	p.gone(protector)
	p.gone(policy)
}

func TestAFinalizerOfAPolicyThatAHandRemovedComesBack(t *testing.T) {
	p := newPlane(t)
	p.start()
	policy := p.policy("shop", "90%", nil)
	p.create(policy)
	p.held(policy)
	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) { pp.Finalizers = []string{"example.com/theirs"} })
	p.held(policy)
	if !slices.Contains(policy.Finalizers, "example.com/theirs") {
		t.Errorf("the other finalizer is gone: %v", policy.Finalizers)
	}
	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) { pp.Finalizers = []string{v1alpha1.FinalizerPolicy} })
	p.delete(policy)
	p.gone(policy)
}
