package generator

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// readCRD reads a CustomResourceDefinition from testdata.
func (p *fixture) readCRD(plural string) *unstructured.Unstructured {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", plural+".yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	return p.parse(string(text))
}

func (p *fixture) parse(text string) *unstructured.Unstructured {
	p.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		p.t.Fatal(err)
	}
	return u
}

// installCRD makes the API server serve a kind until the test ends.
func (p *fixture) installCRD(plural string) *unstructured.Unstructured {
	p.t.Helper()
	definition := p.readCRD(plural)
	p.create(definition)
	p.t.Cleanup(func() { p.uninstallCRD(definition) })
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(objectAPIVersion(definition))
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	list.SetKind(kind + "List")
	p.eventually("the kind is served", func() string {
		if err := p.List(p.t.Context(), list, client.InNamespace(p.namespace)); err != nil {
			return err.Error()
		}
		return ""
	})
	return definition
}

// uninstallCRD removes a kind with all its objects and their finalizers, so that the next test can install it.
func (p *fixture) uninstallCRD(definition *unstructured.Unstructured) {
	ctx := context.Background()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(objectAPIVersion(definition))
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	list.SetKind(kind + "List")
	for {
		_ = p.Delete(ctx, definition)
		if err := p.List(ctx, list); err == nil {
			for i := range list.Items {
				list.Items[i].SetFinalizers(nil)
				_ = p.Update(ctx, &list.Items[i])
			}
		}
		if err := p.Get(ctx, client.ObjectKeyFromObject(definition), definition); apierrors.IsNotFound(err) {
			return
		}
	}
}

func objectAPIVersion(definition *unstructured.Unstructured) string {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	return group + "/" + version["name"].(string)
}

// rulesFor returns the generator's rules, and those for the kinds of a test.
func (p *fixture) rulesFor(resources ...string) []rbacv1.PolicyRule {
	p.t.Helper()
	var kinds []schema.GroupResource
	for _, resource := range resources {
		kinds = append(kinds, schema.ParseGroupResource(resource))
	}
	return p.rules(roles.Kinds("generator.sourceKinds", kinds...))
}

// object returns an object in the test's namespace.
func (p *fixture) object(text string) *unstructured.Unstructured {
	p.t.Helper()
	u := p.parse(text)
	u.SetNamespace(p.namespace)
	return u
}

func (p *fixture) rollout(replicas string) *unstructured.Unstructured {
	return p.object(`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web, labels: {team: shop}}, spec: {replicas: ` + replicas +
		`, minReadySeconds: 7, selector: {matchLabels: {app: web}}}}`)
}

// policyForKinds returns a policy for kinds.
func (p *fixture) policyForKinds(floor string, kinds ...v1alpha1.WorkloadKind) *v1alpha1.ProtectionPolicy {
	return p.policy("shop", floor, func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.Workloads.Kinds = kinds
		if floor == "" {
			pp.Spec.Floor = nil
		}
	})
}

func rolloutKind() v1alpha1.WorkloadKind {
	return v1alpha1.WorkloadKind{APIVersion: "argoproj.io/v1alpha1", Kind: "Rollout"}
}

func setMinReady(to int64) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, to, "spec", "minReadySeconds")
	}
}

func hasMinReady(seconds int32) func(*v1alpha1.PodProtector) bool {
	return func(got *v1alpha1.PodProtector) bool { return got.Spec.MinReadySeconds == seconds }
}

// hasPolicyAndShare checks the floor of a workload whose size only the cells know (rule 16).
func hasPolicyAndShare(policy, share string) func(*v1alpha1.PodProtector) bool {
	return func(got *v1alpha1.PodProtector) bool {
		value := cmp.Or(got.Spec.MinAvailable, got.Spec.MaxUnavailable)
		return value != nil && value.String() == share && got.Annotations[v1alpha1.AnnotationPolicy] == policy && isSourceFound(got)
	}
}

const rolloutProtector = "rollout.argoproj.io-web"

func TestRolloutIsASource(t *testing.T) {
	p := newFixture(t)
	p.installCRD("rollouts")
	p.startAs(p.account(p.rulesFor("rollouts.argoproj.io")))
	web := p.rollout("10")
	p.create(web)
	policy := p.policyForKinds("", rolloutKind())
	p.create(policy)
	got := p.waitForProtector(rolloutProtector, "a quarter of what the cells expect may be unavailable", hasPolicyAndShare("ProtectionPolicy/shop", "25%"))
	if got.Spec.MinReadySeconds != 7 || got.Spec.Selector.MatchLabels["app"] != "web" || !hasProtectorFinalizer(got) {
		t.Errorf("protector does not match the Rollout:\n%s", dump(got))
	}
	p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool { return s.Selected == 1 && s.Applied == 1 })
	edit(p, web, setMinReady(9))
	p.waitForProtector(rolloutProtector, "the protector follows the source", hasMinReady(9))
	edit(p, web, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/theirs"}) })
	p.eventually("a removed finalizer is restored", func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || len(web.GetFinalizers()) != 2 {
			return dump(web)
		}
		return ""
	})
	edit(p, web, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{v1alpha1.FinalizerSource}) })
	p.delete(web)
	p.waitUntilDeleted(got)
	p.waitUntilDeleted(web)
}

func TestCloneSetSelectorComesFromScale(t *testing.T) {
	p := newFixture(t)
	p.installCRD("clonesets")
	p.startAs(p.account(p.rulesFor("clonesets.apps.kruise.io")))
	p.create(p.policyForKinds("70%", v1alpha1.WorkloadKind{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet"}))
	set := p.object(`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: web}, spec: {replicas: 10}}`)
	p.create(set)
	p.waitForEvent("CloneSet/web Warning Refused: The PodProtector of this workload cannot be applied: it has neither a spec.selector")
	setSelector := func(selector string) { // the status alone
		p.eventually("the status is written", func() string {
			if err := p.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
				return err.Error()
			}
			_ = unstructured.SetNestedField(set.Object, selector, "status", "labelSelector")
			if err := p.Status().Update(t.Context(), set); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	setSelector("app=web,tier in (a,b)")
	got := p.waitForProtector("cloneset.apps.kruise.io-web", "the PodProtector is created", hasPolicyAndShare("ProtectionPolicy/shop", "70%"))
	if got.Spec.Selector.MatchLabels["app"] != "web" || len(got.Spec.Selector.MatchExpressions) != 1 {
		t.Errorf("protector does not have the selector of the scale subresource:\n%s", dump(got))
	}
	generation := set.GetGeneration()
	setSelector("app=web,tier=c")
	p.waitForProtector("cloneset.apps.kruise.io-web", "the selector follows the status", func(got *v1alpha1.PodProtector) bool {
		return got.Spec.Selector.MatchLabels["tier"] == "c"
	})
	if set.GetGeneration() != generation {
		t.Errorf("generation %d, want %d: the test must change the status alone", set.GetGeneration(), generation)
	}
}

// A ReplicaSet is a source unless its controller states the number of the pods of all its sets (rule 16).
func TestReplicaSetBelowRollout(t *testing.T) {
	p := newFixture(t)
	p.installCRD("rollouts")
	p.startAs(p.account(p.rulesFor("rollouts.argoproj.io")))
	rollout := p.rollout("4")
	p.create(rollout)
	_ = unstructured.SetNestedField(rollout.Object, "app=replaced", "status", "selector")
	if err := p.Status().Update(t.Context(), rollout); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"replaced", "other"} {
		set := p.replicaSet(name, 4)
		set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rollout, rollout.GroupVersionKind())}
		p.create(set)
	}
	p.waitForProtector("replicaset-other", "the Rollout does not select its pods", hasFloor(3))
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "replicaset-replaced"}})
}

func TestUnservedKindSetsCondition(t *testing.T) {
	p := newFixture(t)
	p.startAs(p.account(p.rulesFor("rollouts.argoproj.io")))
	p.create(p.unlabeledDeployment("web"))
	policy := p.policyForKinds("90%", rolloutKind(), v1alpha1.WorkloadKind{APIVersion: "apps/v1", Kind: "Deployment"})
	p.create(policy)
	p.waitForProtector("deployment-web", "the other kind has a PodProtector", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionKindsServed)
		return c != nil && c.Reason == v1alpha1.ReasonKindNotServed && strings.Contains(c.Message, "argoproj.io/v1alpha1 Rollout is not served")
	})
	p.waitForEvent("ProtectionPolicy/shop Warning KindNotServed: argoproj.io/v1alpha1 Rollout")
	p.installCRD("rollouts")
	p.create(p.rollout("10"))
	p.waitForProtector(rolloutProtector, "once the kind is served, the source has a PodProtector", hasPolicyAndShare("ProtectionPolicy/shop", "90%"))
	p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
		return meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionKindsServed) && s.Applied == 2
	})
}

func TestForbiddenKindSetsCondition(t *testing.T) {
	p := newFixture(t)
	p.installCRD("rollouts")
	p.start() // without the rights
	p.create(p.unlabeledDeployment("web"))
	policy := p.policyForKinds("90%", rolloutKind(), v1alpha1.WorkloadKind{APIVersion: "apps/v1", Kind: "Deployment"})
	p.create(policy)
	p.waitForProtector("deployment-web", "the other kind has a PodProtector", hasPolicyAndFloor("ProtectionPolicy/shop", 9))
	p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionKindsServed)
		return c != nil && c.Reason == v1alpha1.ReasonKindNotListed && strings.Contains(c.Message, "forbidden")
	})
}

// The API server deletes all objects of a kind whose CRD is deleted: no user requested the deletion of each of them.
func TestDeletedCRDReleasesNoProtector(t *testing.T) {
	p := newFixture(t)
	definition := p.installCRD("rollouts")
	g := p.startAs(p.account(p.rulesFor("rollouts.argoproj.io")))
	policy := p.policyForKinds("90%", rolloutKind())
	p.create(policy)
	web := p.rollout("10")
	p.create(web)
	before := p.waitForProtector(rolloutProtector, "the PodProtector is created", hasPolicyAndShare("ProtectionPolicy/shop", "90%"))

	p.delete(definition)
	p.waitUntilDeleted(definition) // the generator's finalizers do not keep it
	got := p.waitForProtector(rolloutProtector, "the condition reports it", isSourceVanished)
	if got.UID != before.UID || got.DeletionTimestamp != nil || got.Spec.MinAvailable.String() != "90%" || !hasProtectorFinalizer(got) {
		t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
	}
	p.waitForVanishedSources(g, 1)
	p.waitForPolicyStatus(policy, func(s v1alpha1.ProtectionPolicyStatus) bool {
		c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionKindsServed)
		return c != nil && c.Reason == v1alpha1.ReasonKindNotServed
	})

	p.installCRD("rollouts")
	again := p.rollout("20")
	setMinReady(9)(again)
	p.create(again)
	p.waitForProtector(rolloutProtector, "once the kind and the source exist again, the protector follows", func(got *v1alpha1.PodProtector) bool {
		return got.UID == before.UID && hasPolicyAndShare("ProtectionPolicy/shop", "90%")(got) && hasMinReady(9)(got)
	})
}

// A user who deletes the CRD of policies has not decided about each policy, regardless of its targetRemovalPolicy.
func TestDeletedPolicyCRDReleasesNoProtector(t *testing.T) {
	p := newFixture(t)
	var others v1alpha1.ProtectionPolicyList // of earlier tests, whose generators have stopped
	if err := p.List(t.Context(), &others); err != nil {
		t.Fatal(err)
	}
	for i := range others.Items {
		p.deleteWithFinalizers(&others.Items[i])
	}
	p.start()
	p.create(p.unlabeledDeployment("web"))
	policy := p.policy("shop", "90%", func(pp *v1alpha1.ProtectionPolicy) {
		pp.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
		pp.Finalizers = []string{"example.com/wait"} // so that the generator observes it while it is being deleted
	})
	p.create(policy)
	before := p.waitForProtector("deployment-web", "the PodProtector is created", hasPolicyAndFloor("ProtectionPolicy/shop", 9))

	text, err := crds.FS.ReadFile("breakwater.dev_protectionpolicies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := p.parse(string(text))
	t.Cleanup(func() {
		p.uninstallCRD(definition.DeepCopy())
		p.reinstallCRD(p.parse(string(text)))
	})
	p.delete(definition)
	got := p.waitForProtector("deployment-web", "the condition reports it", hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyVanished))
	if got.UID != before.UID || got.DeletionTimestamp != nil || got.Spec.MinAvailable.IntVal != 9 || !hasProtectorFinalizer(got) {
		t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
	}
	edit(p, policy, func(pp *v1alpha1.ProtectionPolicy) {
		pp.Finalizers = slices.DeleteFunc(pp.Finalizers, func(f string) bool { return f == "example.com/wait" })
	})
	p.waitUntilDeleted(definition.DeepCopy()) // the generator's finalizers do not keep it
	p.waitForProtector("deployment-web", "the condition still reports it", hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyVanished))
}

// reinstallCRD makes the API server serve a kind again, for later tests.
func (p *fixture) reinstallCRD(definition *unstructured.Unstructured) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(objectAPIVersion(definition))
	kind, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "kind")
	list.SetKind(kind + "List")
	if err := p.Create(context.Background(), definition); err != nil {
		p.t.Errorf("install the kind again: %v", err)
		return
	}
	for deadline := time.Now().Add(time.Minute); p.List(context.Background(), list) != nil; {
		if time.Now().After(deadline) {
			p.t.Error("the kind is not served again within a minute")
			return
		}
	}
}

// A kind that no policy names any more is still the source of protectors that were retained.
func TestRetainedProtectorFollowsSourceAfterRestart(t *testing.T) {
	p := newFixture(t)
	p.installCRD("rollouts")
	account := p.account(p.rulesFor("rollouts.argoproj.io"))
	first := p.startAs(account)
	policy, web := p.policyForKinds("90%", rolloutKind()), p.rollout("10")
	p.create(policy)
	p.create(web)
	p.waitForProtector(rolloutProtector, "the PodProtector is created", hasPolicyAndShare("ProtectionPolicy/shop", "90%"))
	p.delete(policy)
	p.waitUntilDeleted(policy)
	first.stop()
	p.startAs(account)
	edit(p, web, setMinReady(9))
	got := p.waitForProtector(rolloutProtector, "the protector follows the source", func(got *v1alpha1.PodProtector) bool {
		return hasMinReady(9)(got) && hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonPolicyDeleted)(got)
	})
	p.delete(web)
	p.waitUntilDeleted(got)
	p.waitUntilDeleted(web)
}

func TestFederationTemplateIsASourceForAllCells(t *testing.T) {
	p := newFixture(t)
	p.installCRD("federateddeployments")
	p.startAs(p.account(p.rulesFor("federateddeployments.types.kubefed.io")))
	p.create(p.policyForKinds("", v1alpha1.WorkloadKind{APIVersion: "types.kubefed.io/v1beta1", Kind: "FederatedDeployment", TemplatePath: "spec.template"}))
	web := p.object(`{apiVersion: types.kubefed.io/v1beta1, kind: FederatedDeployment, metadata: {name: web}, spec: {
		template: {spec: {replicas: 10, selector: {matchLabels: {app: web}}, strategy: {rollingUpdate: {maxUnavailable: 30%}}}},
		placement: {clusters: [{name: a}, {name: b}]}}}`)
	p.create(web)
	name := "federateddeployment.types.kubefed.io-web"
	protector := p.waitForProtector(name, "the cells report the size", func(got *v1alpha1.PodProtector) bool {
		return got.Spec.MaxUnavailable.String() == "30%" && got.Spec.ExpectedReplicas == nil
	})
	p.delete(web)
	p.waitUntilDeleted(protector)
	p.waitUntilDeleted(web)
}

func TestSourceWithSeveralProtectors(t *testing.T) {
	p := newFixture(t)
	p.installCRD("bundles")
	account := p.account(p.rulesFor("bundles.example.com"))
	first := p.startAs(account)
	p.create(p.policyForKinds("50%", v1alpha1.WorkloadKind{APIVersion: "example.com/v1", Kind: "Bundle", TemplatePath: "spec.workloads"}))
	bundle := p.object(`{apiVersion: example.com/v1, kind: Bundle, metadata: {name: web}, spec: {workloads: [
		{kind: Deployment, metadata: {name: front}, spec: {replicas: 10, selector: {matchLabels: {app: front}}}},
		{kind: StatefulSet, metadata: {name: back}, spec: {replicas: 4, selector: {matchLabels: {app: back}}}}],
		next: [{kind: Deployment, metadata: {name: next}, spec: {replicas: 10, selector: {matchLabels: {app: next}}}}]}}`)
	p.create(bundle)
	front := p.waitForProtector("bundle.example.com-web-front-5bb8e40a", "the first part has a PodProtector", hasPolicyAndFloor("ProtectionPolicy/shop", 5))
	back := p.waitForProtector("bundle.example.com-web-back-b0362f94", "the second part has a PodProtector", hasPolicyAndFloor("ProtectionPolicy/shop", 2))

	edit(p, back, func(got *v1alpha1.PodProtector) { got.Spec.MinAvailable = v1alpha1.Pods(0) })
	p.waitForProtector(back.Name, "drift of each PodProtector is corrected", hasPolicyAndFloor("ProtectionPolicy/shop", 2))
	edit(p, bundle, func(u *unstructured.Unstructured) {
		workloads, _, _ := unstructured.NestedSlice(u.Object, "spec", "workloads")
		_ = unstructured.SetNestedSlice(u.Object, workloads[1:], "spec", "workloads")
	})
	p.waitUntilDeleted(front)
	p.waitForProtector(back.Name, "the other PodProtector stays", hasPolicyAndFloor("ProtectionPolicy/shop", 2))

	first.stop()
	// The cache may show a policy by which the source has no such part, and which a user has reverted since.
	r := p.reconciler(&grantingBrake{})
	before := p.policyForKinds("50%", v1alpha1.WorkloadKind{APIVersion: "example.com/v1", Kind: "Bundle", TemplatePath: "spec.next"})
	before.Finalizers = []string{v1alpha1.FinalizerPolicy}
	r.policies.cache = stalePolicies{p.Client, *before}
	ref := policy.Ref{Group: "example.com", Kind: "Bundle", Namespace: p.namespace, Name: bundle.GetName()}
	if got, err := r.reconcileProtectors(t.Context(), ref, bundle, []*v1alpha1.PodProtector{back}); err != nil || got != outdated {
		t.Errorf("reconcileProtectors() with a policy of before = %q, %v, want %q", got, err, outdated)
	}
	p.waitForProtector(back.Name, "the PodProtector of the part stays", hasPolicyAndFloor("ProtectionPolicy/shop", 2))

	// If both are lost, as with an etcd, both protectors stay.
	lost := bundle.DeepCopy()
	p.delete(bundle)
	edit(p, bundle, func(u *unstructured.Unstructured) { u.SetFinalizers(nil) })
	p.waitUntilDeleted(bundle)
	p.startAs(account)
	p.waitForProtector(back.Name, "the PodProtector stays when its source vanishes", isSourceVanished)
	lost.SetResourceVersion("")
	lost.SetUID("")
	lost.SetFinalizers(nil)
	p.create(lost)
	p.waitForProtector(back.Name, "and belongs to its source again", hasPolicyAndFloor("ProtectionPolicy/shop", 2))
	p.delete(lost)
	p.waitUntilDeleted(back)
	p.waitUntilDeleted(lost)
}
