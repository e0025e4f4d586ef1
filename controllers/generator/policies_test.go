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
func (p *fixture) policy(name, floor string, change func(*v1alpha1.ProtectionPolicy)) *v1alpha1.ProtectionPolicy {
	share := intstr.Parse(floor)
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	policy.Spec.Floor = &v1alpha1.FloorRule{PodShare: v1alpha1.PodShare{MinAvailable: &share}}
	if change != nil {
		change(policy)
	}
	return policy
}

// clusterPolicy returns a policy that selects only the test's namespace, by a label. The test deletes it at its end.
func (p *fixture) clusterPolicy(name, floor string) *v1alpha1.ClusterProtectionPolicy {
	p.t.Helper()
	edit(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, func(n *corev1.Namespace) { n.Labels["test"] = p.namespace })
	policy := &v1alpha1.ClusterProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + p.namespace}}
	policy.Spec.ProtectionPolicySpec = p.policy(name, floor, nil).Spec
	policy.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"test": p.namespace}}
	p.t.Cleanup(func() { p.deleteWithFinalizers(policy) })
	return policy
}

// deleteWithFinalizers deletes an object and its finalizers.
func (p *fixture) deleteWithFinalizers(object client.Object) {
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

// unlabeledDeployment returns a Deployment without the label that requests protection.
func (p *fixture) unlabeledDeployment(name string) *appsv1.Deployment {
	return p.deployment(name, func(d *appsv1.Deployment) { d.Labels = map[string]string{"team": "shop"} })
}

// waitForPolicyFinalizer waits until the generator holds a policy: from then on it observes the policy's deletion.
func (p *fixture) waitForPolicyFinalizer(policy client.Object) {
	p.t.Helper()
	p.eventually("the policy has its finalizer", func() string {
		if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err.Error()
		}
		if slices.Contains(policy.GetFinalizers(), v1alpha1.FinalizerPolicy) {
			return ""
		}
		return dump(policy)
	})
}

// hasPolicyAndFloor returns a predicate for a protector that has that floor by that policy.
func hasPolicyAndFloor(policy string, floor int32) func(*v1alpha1.PodProtector) bool {
	return func(got *v1alpha1.PodProtector) bool {
		c := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionTargetResolved)
		isRecorded := c != nil && (policy == "" || strings.Contains(c.Message, policy))
		return hasFloor(floor)(got) && got.Annotations[v1alpha1.AnnotationPolicy] == policy && isSourceFound(got) && isRecorded
	}
}

func TestPolicyProtectsSelectedWorkloads(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	web, db := p.unlabeledDeployment("web"), p.statefulSet("db", 4)
	db.Labels = map[string]string{"team": "shop"}
	other := p.deployment("other", func(d *appsv1.Deployment) { d.Labels = nil })
	p.create(web)
	p.create(db)
	p.create(other)
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "shop"}}
		pp.Spec.Criterion, pp.Spec.CoreOutage = v1alpha1.CriterionReady, v1alpha1.CoreOutageLocalShare
		pp.Spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
		pp.Spec.MinReadySeconds = ptr.To(int32(1))
		pp.Spec.AdmissionHistory = &v1alpha1.AdmissionHistoryTuning{MaxConcurrentLag: ptr.To(int32(2))}
	})
	p.create(policy)

	got := p.waitForProtector("deployment-web", "90 % of 10", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	if got.Spec.Spread == nil || !got.Spec.Spread.TolerateDomainLoss || got.Spec.Spread.TopologyKey != v1alpha1.TopologyKeyCell {
		t.Errorf("got the spread %+v", got.Spec.Spread)
	}
	if got.Spec.Criterion != v1alpha1.CriterionReady || got.Spec.MinReadySeconds != 1 || got.Spec.AdmissionHistory.MaxConcurrentLag != 2 {
		t.Errorf("protector lacks other fields of the policy:\n%s", dump(got))
	}
	if got.Spec.CoreOutage != v1alpha1.CoreOutageLocalShare {
		t.Errorf("coreOutage %q, want that of the policy", got.Spec.CoreOutage)
	}
	edit(p, got, func(p *v1alpha1.PodProtector) { p.Spec.CoreOutage = v1alpha1.CoreOutageDeny })
	p.waitForProtector("deployment-web", "a change of what the policy sets is reverted", func(p *v1alpha1.PodProtector) bool {
		return p.Spec.CoreOutage == v1alpha1.CoreOutageLocalShare
	})
	p.waitForProtector("statefulset-db", "90 % of 4, rounded up", hasPolicyAndFloor("ProtectionPolicy/shop", 4))
	p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
		return s.Selected == 2 && s.Applied == 2 && meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) &&
			meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionKindsServed) && s.ObservedGeneration == policy.Generation
	})
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-other"}})

	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 })
	p.waitForProtector("deployment-web", "an explicit scale-down lowers the floor", hasPolicyAndFloor("ProtectionPolicy/shop", 0))
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.waitForProtector("deployment-web", "a scale-up raises the floor", hasPolicyAndFloor("ProtectionPolicy/shop", 18))

	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Criterion, pp.Spec.CoreOutage, pp.Spec.AdmissionHistory, pp.Spec.Spread = "", "", nil, nil
		pp.Spec.Floor = &v1alpha1.FloorRule{Bands: []v1alpha1.FloorBand{
			{UpToReplicas: ptr.To(int32(10)), PodShare: v1alpha1.PodShare{MaxUnavailable: ptr.To(intstr.FromInt32(1))}},
			{PodShare: v1alpha1.PodShare{MinAvailable: ptr.To(intstr.FromString("50%"))}}}}
	})
	got = p.waitForProtector("deployment-web", "the rule for large workloads applies", hasPolicyAndFloor("ProtectionPolicy/shop", 10))
	if got.Spec.Spread != nil {
		t.Errorf("got the spread %+v, want none: the policy no longer sets it", got.Spec.Spread)
	}
	if got.Spec.Criterion != v1alpha1.CriterionAvailable || got.Spec.CoreOutage != v1alpha1.CoreOutageDeny || got.Spec.AdmissionHistory.MaxConcurrentLag != 0 {
		t.Errorf("protector has fields that the policy no longer sets:\n%s", dump(got))
	}
	p.waitForProtector("statefulset-db", "the rule for small workloads applies", hasPolicyAndFloor("ProtectionPolicy/shop", 3))

	p.delete(web)
	p.waitUntilDeleted(web)
	p.waitUntilDeleted(got)
	if vanished := g.metric(t, "breakwater_generator_vanished_sources", ""); vanished != 0 {
		t.Errorf("metric shows %v vanished sources after a deletion, want 0", vanished)
	}
}

func (p *fixture) waitForPolicyStatus(policy client.Object, holds func(v1alpha1.ProtectionPolicyStatus) bool) {
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

func TestPolicyPrecedenceIsReportedInStatus(t *testing.T) {
	p := newFixture(t)
	p.start()
	p.create(p.deployment("web", nil)) // opted in by its label
	p.waitForProtector("deployment-web", "the label alone has the lowest precedence", hasPolicyAndFloor("", 7))
	cluster := p.clusterPolicy("all", "30%")
	p.create(cluster)
	name := "ClusterProtectionPolicy/" + cluster.Name
	p.waitForProtector("deployment-web", "a ClusterProtectionPolicy takes precedence over the label", hasPolicyAndFloor(name, 3))
	low := p.policy("low", "50%", nil)
	p.create(low)
	p.waitForProtector("deployment-web", "a ProtectionPolicy takes precedence over a ClusterProtectionPolicy", hasPolicyAndFloor("ProtectionPolicy/low", 5))
	high := p.policy("high", "60%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.Priority = 1 })
	p.create(high)
	p.waitForProtector("deployment-web", "the higher priority takes precedence", hasPolicyAndFloor("ProtectionPolicy/high", 6))
	for _, policy := range []client.Object{cluster, low} {
		p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
			return s.Selected == 1 && s.Applied == 0 && s.Overruled == 1 && len(s.OverruledWorkloads) == 1 &&
				s.OverruledWorkloads[0].By == "ProtectionPolicy/high" && s.OverruledWorkloads[0].Name == "web"
		})
	}
	p.delete(high)
	p.waitUntilDeleted(high)
	p.waitForProtector("deployment-web", "without that policy, the next one applies", hasPolicyAndFloor("ProtectionPolicy/low", 5))

	web := p.deployment("web", nil)
	edit(p, web, func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelProtect] = "false" })
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web"}})
	p.waitForPolicyStatus(low, func(s v1alpha1.ProtectionPolicyStatus) bool {
		return s.Selected == 1 && s.OptedOut == 1 && s.Applied == 0
	})
}

func TestNamespaceSelectedLaterGetsProtectors(t *testing.T) {
	p := newFixture(t)
	p.start()
	p.create(p.unlabeledDeployment("web"))
	cluster := p.clusterPolicy("all", "30%")
	cluster.Spec.NamespaceSelector.MatchLabels["later"] = "true"
	p.create(cluster)
	p.waitForPolicyStatus(cluster, func(s v1alpha1.ProtectionPolicyStatus) bool { return len(s.Conditions) > 0 && s.Selected == 0 })
	edit(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}, func(n *corev1.Namespace) { n.Labels["later"] = "true" })
	p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ClusterProtectionPolicy/"+cluster.Name, 3))
}

func TestDeletedPolicyReleasesProtectors(t *testing.T) {
	p := newFixture(t)
	p.start()
	p.create(p.unlabeledDeployment("web"))
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease })
	p.create(policy)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	p.delete(policy)
	p.waitUntilDeleted(protector)
	p.waitUntilDeleted(policy)
	web := p.unlabeledDeployment("web")
	p.eventually("the Deployment loses its finalizer", func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || len(web.Finalizers) > 0 {
			return fmt.Sprint(err, dump(web))
		}
		return ""
	})
}

func TestDeletedPolicyRetainsProtectorsByDefault(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	web := p.unlabeledDeployment("web")
	p.create(web)
	policy := p.policy("shop", "90%", nil)
	p.create(policy)
	before := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	p.delete(policy)
	p.waitUntilDeleted(policy)
	got := p.waitForProtector("deployment-web", "the condition reports it", hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyDeleted))
	if got.UID != before.UID || got.Spec.MinAvailable.IntVal != 9 || got.DeletionTimestamp != nil {
		t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
	}
	p.waitForEvent("PodProtector/deployment-web Warning PolicyDeleted: ProtectionPolicy/shop was deleted")
	p.eventually("the metric", func() string {
		if count := g.metric(t, "breakwater_generator_retained_sources", ""); count != 1 {
			return fmt.Sprint(count)
		}
		return ""
	})
	edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.waitForProtector("deployment-web", "the floor still follows the workload by the rule of the policy", hasFloor(18))
	edit(p, web, func(d *appsv1.Deployment) { d.Labels[v1alpha1.LabelProtect] = "false" })
	p.waitUntilDeleted(got)
}

func TestVanishedPolicyLowersNoFloor(t *testing.T) {
	for claim, release := range map[string]v1alpha1.TargetRemovalPolicy{"policy that retains": "", "policy that releases": v1alpha1.TargetRemovalRelease} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			account := p.account(p.rules())
			first := p.startAs(account)
			p.create(p.deployment("web", nil)) // its label would give it a floor of 7
			weaker := p.policy("weaker", "20%", nil)
			p.create(weaker)
			policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
				pp.Spec.TargetRemovalPolicy, pp.Spec.Priority = release, 5
			})
			p.create(policy)
			before := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
			first.stop()
			p.deleteWithFinalizers(policy)

			second := p.startAs(account)
			got := p.waitForProtector("deployment-web", "the condition reports it", hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyVanished))
			if got.UID != before.UID || got.Spec.MinAvailable.IntVal != 9 || got.DeletionTimestamp != nil {
				t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
			}
			web := p.deployment("web", nil)
			edit(p, web, func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
			p.waitForProtector("deployment-web", "the floor still follows the workload", hasFloor(18))
			second.stop()

			p.startAs(account)
			p.create(p.policy("shop", "80%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.Priority = 5 }))
			p.waitForProtector("deployment-web", "a new policy of that name owns the PodProtector", hasPolicyAndFloor("ProtectionPolicy/shop", 16))
		})
	}
}

func TestUserCanReleaseProtectorOfVanishedPolicy(t *testing.T) {
	p := newFixture(t)
	account := p.account(p.rules())
	first := p.startAs(account)
	p.create(p.deployment("web", nil))
	policy := p.policy("shop", "90%", nil)
	p.create(policy)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	first.stop()
	p.deleteWithFinalizers(policy)
	p.startAs(account)
	p.waitForProtector("deployment-web", "the condition reports it", hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyVanished))
	edit(p, protector, func(got *v1alpha1.PodProtector) { delete(got.Annotations, v1alpha1.AnnotationPolicy) })
	p.waitForProtector("deployment-web", "the label counts", hasPolicyAndFloor("", 7))
}

func TestDeselectedWorkloadFollowsRemovalPolicy(t *testing.T) {
	for claim, c := range map[string]struct {
		removal v1alpha1.TargetRemovalPolicy
		kept    bool
	}{"retain": {"", true}, "release": {v1alpha1.TargetRemovalRelease, false}} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			p.start()
			web := p.unlabeledDeployment("web")
			p.create(web)
			p.create(p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
				pp.Spec.TargetRemovalPolicy = c.removal
				pp.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"team": "shop"}}
			}))
			protector := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
			edit(p, web, func(d *appsv1.Deployment) { d.Labels = nil })
			if !c.kept {
				p.waitUntilDeleted(protector)
				return
			}
			got := p.waitForProtector("deployment-web", "the condition reports it", hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyLeft))
			if got.UID != protector.UID || got.Spec.MinAvailable.IntVal != 9 {
				t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
			}
		})
	}
}

// Stopping the generator simulates a crash between the steps; the next generator must finish the rest.
func TestPolicyDeletionWaitsForGenerator(t *testing.T) {
	p := newFixture(t)
	account := p.account(p.rules())
	first := p.startAs(account)
	p.create(p.unlabeledDeployment("web"))
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) { pp.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease })
	p.create(policy)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	first.stop()
	p.delete(policy)
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
		t.Fatalf("policy deletion did not wait for its protectors: %v", err)
	}
	p.startAs(account)
	p.waitUntilDeleted(protector)
	p.waitUntilDeleted(policy)
}

func TestRemovedPolicyFinalizerIsRestored(t *testing.T) {
	p := newFixture(t)
	p.start()
	policy := p.policy("shop", "90%", nil)
	p.create(policy)
	p.waitForPolicyFinalizer(policy)
	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) { pp.Finalizers = []string{"example.com/theirs"} })
	p.waitForPolicyFinalizer(policy)
	if !slices.Contains(policy.Finalizers, "example.com/theirs") {
		t.Errorf("finalizer of another client was removed: %v", policy.Finalizers)
	}
	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) { pp.Finalizers = []string{v1alpha1.FinalizerPolicy} })
	p.delete(policy)
	p.waitUntilDeleted(policy)
}
