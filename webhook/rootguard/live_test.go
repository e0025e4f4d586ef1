package rootguard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	core "github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/webhook/rootguard"
)

// place is the cluster as a core and as the cluster of a cell.
func (p *fixture) place() core.ClusterIdentity {
	return core.ClusterIdentity{Core: "core", Cells: []string{p.cell}}
}

func (p *fixture) getNamespace() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
}

// definition returns a CustomResourceDefinition by name. It is unstructured because the client's scheme does not have
// the kind.
func definition(name string) *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	crd.SetName(name)
	return crd
}

// wantWarned tries a deletion and checks that the client gets exactly these warnings.
func (p *fixture) wantWarned(object client.Object, want ...string) {
	p.Helper()
	p.takeWarnings()
	err := p.dryRunDelete(object)
	if got := p.takeWarnings(); err != nil || !slices.Equal(got, want) {
		p.Errorf("deleting %T %s: error %v and warnings %q, want %q", object, object.GetName(), err, got, want)
	}
}

// wantDenied checks that an error is a denial whose message contains the parts.
func (p *fixture) wantDenied(err error, parts ...string) {
	p.Helper()
	if !apierrors.IsForbidden(err) {
		p.Errorf("error %v, want a denial with 403", err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			p.Errorf("message %q, want it to contain %q", err, part)
		}
	}
}

func TestClientsAreWarned(t *testing.T) {
	p := newFixture(t, core.Warn)
	web := p.deployment("web")
	protector := p.generated("web")
	p.configure(p.place())
	head := func(what string) string {
		return "Breakwater: 1 floor that keeps 3 pods available (now 4) depends on " + what + ": "
	}
	annotate := func(what string) string { return "kubectl annotate " + what + " breakwater.dev/confirm-release=true" }

	p.wantWarned(p.getNamespace(),
		head(fmt.Sprintf("Namespace %q", p.namespace))+"it stays in force until you confirm: "+annotate("namespace "+p.namespace))
	p.wantWarned(web, head(fmt.Sprintf("Deployment %q", p.namespace+"/web"))+
		"it is released after a quiet period, unless too many floors fall at once; confirm: "+annotate("-n "+p.namespace+" podprotector deployment-web"))
	p.wantWarned(protector, head(fmt.Sprintf("PodProtector %q", p.namespace+"/deployment-web"))+
		"it stays in force until the workload is deleted, or labeled breakwater.dev/protect=false")
	p.wantWarned(definition("podprotectors.breakwater.dev"), head(`CustomResourceDefinition "podprotectors.breakwater.dev"`)+
		`it stays in force, and no other can be created, until you run "breakwater release --all-namespaces --deleted"`)
	p.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: p.cell}})
	p.wantWarned(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: p.cell}},
		head(fmt.Sprintf("Cell %q", p.cell))+"it stays in force, but the pods of the cells no longer count")

	// The ReplicaSet has pods, but its Deployment owns it, so the API server does not send the review.
	p.create(replicaSet(p.namespace, "web-1", web))
	p.wantWarned(replicaSet(p.namespace, "web-1", nil))
	// A ReplicaSet without an owner is reviewed.
	p.create(replicaSet(p.namespace, "web-2", nil))
	p.wantWarned(replicaSet(p.namespace, "web-2", nil), head(fmt.Sprintf("ReplicaSet %q", p.namespace+"/web-2"))+
		"it stays in force, and the webhook denies removals of pods beyond the budget")

	p.wantWarned(p.deployment("other"))
	p.wantWarned(definition("podschedulingpolicies.breakwater.dev"))
	idle := p.deployment("idle", func(d *appsv1.Deployment) {
		d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = ptr.To[int32](0), map[string]string{"app": "web"}, map[string]string{"app": "web"}
	})
	p.wantWarned(idle, head(fmt.Sprintf("Deployment %q", p.namespace+"/idle"))+"it stays in force, and the webhook denies removals of pods beyond the budget")
	if err := p.Delete(t.Context(), idle); err != nil || p.takeWarnings() != nil {
		t.Errorf("deletion of a workload with 0 replicas: error %v, or a warning; want neither", err)
	}
}

// replicaSet returns a ReplicaSet with pods of the Deployment web.
func replicaSet(namespace, name string, owner *appsv1.Deployment) *appsv1.ReplicaSet {
	r := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if owner != nil {
		r.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	}
	labels := map[string]string{"app": "web", "of": name}
	r.Spec.Replicas, r.Spec.Selector = ptr.To[int32](4), &metav1.LabelSelector{MatchLabels: labels}
	r.Spec.Template.Labels = labels
	r.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	return r
}

func TestConfirmationsLiftDenials(t *testing.T) {
	p := newFixture(t, core.Deny)
	web := p.deployment("web")
	p.generated("web")
	p.configure(p.place())

	p.wantDenied(p.dryRunDelete(p.getNamespace()), "Breakwater denies the deletion of Namespace", "1 floor that keeps 3 pods available (now 4) depends on it",
		"kubectl annotate namespace "+p.namespace+" breakwater.dev/confirm-release=true")
	p.wantDenied(p.dryRunDelete(web), "kubectl annotate -n "+p.namespace+" deployment web breakwater.dev/confirm-release=true, or scale it to 0 first")
	p.wantDenied(p.dryRunDelete(definition("cells.breakwater.dev")), "kubectl annotate crd cells.breakwater.dev")
	p.wantDenied(p.DeleteAllOf(p.Context(), &appsv1.Deployment{}, client.InNamespace(p.namespace)), fmt.Sprintf("Deployment %q", p.namespace+"/web"))
	p.wantWarned(p.deployment("other"))

	p.annotate(web, "2020-01-01")
	p.wantDenied(p.dryRunDelete(web), "confirm it")
	released := func(what string) string {
		return "Breakwater: 1 floor that keeps 3 pods available (now 4) depends on " + what + ": it is released at once, because a user confirmed it"
	}
	p.annotate(web, "true")
	p.wantWarned(web, released(fmt.Sprintf("Deployment %q", p.namespace+"/web")))
	p.annotate(web, "no")

	before := web.DeepCopy()
	web.Spec.Replicas = ptr.To[int32](0)
	if err := p.Patch(p.Context(), web, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if p.takeWarnings(); p.dryRunDelete(web) != nil || len(p.takeWarnings()) != 1 {
		t.Error("the dry run of a deletion of a workload with 0 replicas is denied, or gets no answer")
	}
	web.Spec.Replicas = ptr.To[int32](4)
	web.ResourceVersion = ""
	if err := p.Update(p.Context(), web); err != nil {
		t.Fatal(err)
	}
	p.wantDenied(p.dryRunDelete(web), "confirm it")

	p.annotate(p.getNamespace(), "true")
	p.wantWarned(p.getNamespace(), released(fmt.Sprintf("Namespace %q", p.namespace)))
	p.wantWarned(web, released(fmt.Sprintf("Deployment %q", p.namespace+"/web")))
	err := p.DeleteAllOf(p.Context(), &appsv1.Deployment{}, client.InNamespace(p.namespace))
	if got := p.takeWarnings(); err != nil || got != nil {
		t.Errorf("deletecollection in a confirmed namespace: error %v and warnings %q, want none", err, got)
	}
}

func TestAReleaseIsConfirmedOnThePodProtector(t *testing.T) {
	p := newFixture(t, core.Deny)
	web := p.deployment("web")
	protector := p.generated("web")
	p.configure(p.place())
	p.wantDenied(p.dryRunDelete(web), "confirm it")
	p.annotate(protector, "2099-01-01T00:00:00Z")
	p.awaitCached(protector)
	for what, object := range map[string]client.Object{
		fmt.Sprintf("Deployment %q", p.namespace+"/web"): web, fmt.Sprintf("Namespace %q", p.namespace): p.getNamespace(),
	} {
		p.wantWarned(object, "Breakwater: 1 floor that keeps 3 pods available (now 4) depends on "+what+": it is released at once, because a user confirmed it")
	}
}

// A dry run of a deletion answers which floors depend on the object, what they keep, and whether they would be held or released.
func TestDryRunCountsFloors(t *testing.T) {
	p := newFixture(t, core.Warn)
	p.deployment("api")
	web := p.deployment("web")
	covered := p.generated("web", func(of *v1alpha1.PodProtector) {
		of.Annotations[v1alpha1.AnnotationPolicy] = "ClusterProtectionPolicy/all"
		of.Annotations[v1alpha1.AnnotationPolicyRule] = "{}"
	})
	p.generated("api")
	hand := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "hand"}}
	hand.Spec.Selector, hand.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "cache"}}, v1alpha1.Pods(2)
	p.create(hand)
	p.count(p.Client, hand)
	p.configure(p.place())
	const confirm = "kubectl annotate %s breakwater.dev/confirm-release=true"
	inNamespace := func(name string) string { return fmt.Sprintf("%q", p.namespace+"/"+name) }

	p.wantWarned(p.getNamespace(), fmt.Sprintf("Breakwater: 3 floors that keep 8 pods available (now 12) depend on Namespace %q: "+
		"they stay in force until you confirm: "+confirm, p.namespace, "namespace "+p.namespace))
	p.wantWarned(web, "Breakwater: 1 floor that keeps 3 pods available (now 4) depends on Deployment "+inNamespace("web")+
		": it is released after a quiet period, unless too many floors fall at once; confirm: "+fmt.Sprintf(confirm, "-n "+p.namespace+" podprotector deployment-web"))
	p.wantWarned(definition("podprotectors.breakwater.dev"), `Breakwater: 3 floors that keep 8 pods available (now 12) depend on CustomResourceDefinition `+
		`"podprotectors.breakwater.dev": they stay in force, and no other can be created, until you run "breakwater release --all-namespaces --deleted"`)
	p.wantWarned(hand, "Breakwater: 1 floor that keeps 2 pods available (now 4) depends on PodProtector "+inNamespace("hand")+
		": it is released after a quiet period, unless too many floors fall at once; confirm: "+fmt.Sprintf(confirm, "-n "+p.namespace+" podprotector hand"))

	p.annotate(hand, "true")
	p.awaitCached(hand)
	p.wantWarned(hand, "Breakwater: 1 floor that keeps 2 pods available (now 4) depends on PodProtector "+inNamespace("hand")+
		": it is released at once, because a user confirmed it")
	p.wantWarned(p.getNamespace(), fmt.Sprintf("Breakwater: 3 floors that keep 8 pods available (now 12) depend on Namespace %q: "+
		"2 stay in force until you confirm, 1 is released at once, because a user confirmed it; confirm: "+confirm, p.namespace, "namespace "+p.namespace))
	for _, object := range []client.Object{p.getNamespace(), web, covered, hand} {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() != nil {
			t.Errorf("%s after its dry run: error %v, deleted %v; want it unchanged", object.GetName(), err, object.GetDeletionTimestamp())
		}
	}
}

func TestDeleteCollectionWarnsForEachObject(t *testing.T) {
	p := newFixture(t, core.Warn)
	for _, name := range []string{"one", "two", "three"} {
		p.deployment(name)
	}
	p.generated("one")
	p.generated("two")
	p.configure(p.place())
	if err := p.DeleteAllOf(p.Context(), &appsv1.Deployment{}, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
	got := p.takeWarnings()
	slices.Sort(got)
	if len(got) != 2 || !strings.Contains(got[0], "/one") || !strings.Contains(got[1], "/two") {
		t.Errorf("warnings %q, want one for object one and one for object two", got)
	}
}

func TestDeletingObjectIsNotReviewed(t *testing.T) {
	p := newFixture(t, core.Deny)
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/hold"} })
	p.generated("web")
	p.annotate(web, "true")
	p.configure(p.place())
	if err := p.Delete(p.Context(), web); err != nil {
		t.Fatal(err)
	}
	p.annotate(web, "no")
	if err := p.Delete(p.Context(), web); err != nil {
		t.Errorf("deleting it again: %v", err)
	}
	before := web.DeepCopy()
	web.Finalizers = nil
	if err := p.Patch(p.Context(), web, client.MergeFrom(before)); err != nil {
		t.Errorf("remove its finalizer: %v", err)
	}
}

func TestSystemClientsAreDeniedAndNotWarned(t *testing.T) {
	collector := rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:generic-garbage-collector", Groups: []string{"system:serviceaccounts:kube-system", "system:masters"},
	}
	for mode, check := range map[core.Mode]func(p *fixture, err error){
		core.Warn: func(p *fixture, err error) {
			if got := p.takeWarnings(); err != nil || got != nil {
				p.Errorf("error %v and warnings %q, want none", err, got)
			}
		},
		core.Deny: func(p *fixture, err error) { p.wantDenied(err, "confirm it") },
	} {
		t.Run(string(mode), func(t *testing.T) {
			p := newFixture(t, mode)
			web := p.deployment("web")
			p.generated("web")
			p.configure(p.place())
			check(p, p.impersonate(collector).Delete(t.Context(), web, client.DryRunAll))
		})
	}
}

// Breakwater itself deletes PodProtectors when they are released.
func TestBreakwaterItselfIsExempt(t *testing.T) {
	p := newFixture(t, core.Deny)
	protector := p.generated("web")
	p.configure(p.place())
	p.wantDenied(p.dryRunDelete(protector), "PodProtector")
	generator := p.impersonate(rest.ImpersonationConfig{
		UserName: "system:serviceaccount:breakwater-system:breakwater-generator", Groups: []string{"system:serviceaccounts:breakwater-system", "system:masters"},
	})
	if err := generator.Delete(t.Context(), protector, client.DryRunAll); err != nil {
		t.Errorf("deletion by the generator: %v, want it allowed", err)
	}
}

func TestWorkerCountsOnlyItsOwnPods(t *testing.T) {
	p := newFixture(t, core.Warn)
	web := p.deployment("web")
	protector := p.generated("web")
	p.configure(core.ClusterIdentity{Cells: []string{p.cell}})
	const text = "Breakwater: 1 floor that keeps 3 pods available (now 4, 4 of them in this cluster) depends on %s %q: " +
		"it stays in force, and the webhook denies removals of pods beyond the budget"
	p.wantWarned(p.getNamespace(), fmt.Sprintf(text, "Namespace", p.namespace))
	p.wantWarned(web, fmt.Sprintf(text, "Deployment", p.namespace+"/web"))
	p.wantWarned(protector)
	p.wantWarned(definition("podprotectors.breakwater.dev"))
	p.wantWarned(p.deployment("other"))
}

func TestDeletionOfSourceOwnersIsReviewed(t *testing.T) {
	p := newFixture(t, core.Warn)
	owned := func(object client.Object, by ...*corev1.ConfigMap) {
		for _, owner := range by {
			object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
		}
	}
	owner := func(name string, by ...*corev1.ConfigMap) *corev1.ConfigMap {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
		owned(m, by...)
		p.create(m)
		return m
	}
	top := owner("top")
	app := owner("app", top)
	p.deployment("web", func(d *appsv1.Deployment) { owned(d, app) })
	p.deployment("lonely")
	p.generated("web")
	p.configure(p.place())
	for _, m := range []*corev1.ConfigMap{app, top} {
		p.wantWarned(m, fmt.Sprintf("Breakwater: 1 floor that keeps 3 pods available (now 4) depends on ConfigMap %q: it stays in force until you confirm: "+
			"kubectl annotate -n %s podprotector deployment-web breakwater.dev/confirm-release=true", p.namespace+"/"+m.Name, p.namespace))
	}
	p.wantWarned(owner("stranger"))
}

func TestAuditModeWarnsInsteadOfDenying(t *testing.T) {
	p := newFixture(t, core.Deny, func(o *rootguard.Options) { o.Audit = true })
	web := p.deployment("web")
	p.generated("web")
	p.configure(p.place())
	p.takeWarnings()
	if err := p.dryRunDelete(web); err != nil || len(p.takeWarnings()) != 1 {
		t.Errorf("error %v, want only a warning", err)
	}
}
