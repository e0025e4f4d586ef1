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
		return "Breakwater: deleting " + what + " affects 1 floor that keeps 3 pods available; "
	}
	annotate := func(what string) string { return "kubectl annotate " + what + " breakwater.dev/confirm-release=true" }
	own := fmt.Sprintf("confirm an intended release: "+annotate("-n %s podprotector deployment-web"), p.namespace)

	p.wantWarned(p.getNamespace(),
		head(fmt.Sprintf("Namespace %q", p.namespace))+"it stays in force until you confirm: "+annotate("namespace "+p.namespace))
	p.wantWarned(web, head(fmt.Sprintf("Deployment %q", p.namespace+"/web"))+own)
	p.wantWarned(protector, head(fmt.Sprintf("PodProtector %q", p.namespace+"/deployment-web"))+own)
	p.wantWarned(definition("podprotectors.breakwater.dev"),
		head(`CustomResourceDefinition "podprotectors.breakwater.dev"`)+"confirm an intended release: "+annotate("crd podprotectors.breakwater.dev"))
	p.create(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: p.cell}})
	p.wantWarned(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: p.cell}}, head(fmt.Sprintf("Cell %q", p.cell))+"the pods of the cell no longer count")

	// The ReplicaSet has pods, but its Deployment owns it, so the API server does not send the review.
	p.create(replicaSet(p.namespace, "web-1", web))
	p.wantWarned(replicaSet(p.namespace, "web-1", nil))
	// A ReplicaSet without an owner is reviewed.
	p.create(replicaSet(p.namespace, "web-2", nil))
	p.wantWarned(replicaSet(p.namespace, "web-2", nil), head(fmt.Sprintf("ReplicaSet %q", p.namespace+"/web-2"))+
		"it stays in force, and the webhook denies removals of pods beyond the budget")

	p.wantWarned(p.deployment("other"))
	p.wantWarned(definition("podschedulingpolicies.breakwater.dev"))
	p.wantWarned(p.deployment("idle", func(d *appsv1.Deployment) {
		d.Spec.Replicas, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = ptr.To[int32](0), map[string]string{"app": "web"}, map[string]string{"app": "web"}
	}))
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

	p.wantDenied(p.dryRunDelete(p.getNamespace()), "Breakwater denies the deletion of Namespace", "1 floor that keeps 3 pods available depends on it",
		"kubectl annotate namespace "+p.namespace+" breakwater.dev/confirm-release=true")
	p.wantDenied(p.dryRunDelete(web), "kubectl annotate -n "+p.namespace+" deployment web breakwater.dev/confirm-release=true, or scale it to 0 first")
	p.wantDenied(p.dryRunDelete(definition("cells.breakwater.dev")), "kubectl annotate crd cells.breakwater.dev")
	p.wantDenied(p.DeleteAllOf(p.Context(), &appsv1.Deployment{}, client.InNamespace(p.namespace)), fmt.Sprintf("Deployment %q", p.namespace+"/web"))
	p.wantWarned(p.deployment("other"))

	p.annotate(web, "2020-01-01")
	p.wantDenied(p.dryRunDelete(web), "confirm it")
	p.annotate(web, "true")
	p.wantWarned(web)
	p.annotate(web, "no")

	before := web.DeepCopy()
	web.Spec.Replicas = ptr.To[int32](0)
	if err := p.Patch(p.Context(), web, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.wantWarned(web)
	web.Spec.Replicas = ptr.To[int32](4)
	web.ResourceVersion = ""
	if err := p.Update(p.Context(), web); err != nil {
		t.Fatal(err)
	}
	p.wantDenied(p.dryRunDelete(web), "confirm it")

	p.annotate(p.getNamespace(), "true")
	p.wantWarned(p.getNamespace())
	p.wantWarned(web)
	if err := p.DeleteAllOf(p.Context(), &appsv1.Deployment{}, client.InNamespace(p.namespace)); err != nil {
		t.Errorf("deletecollection in a confirmed namespace: %v", err)
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
	p.wantWarned(web)
	p.wantWarned(p.getNamespace())
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
	tail := " affects 1 floor that keeps 3 pods available (4 available pods run in this cluster); it stays in force, and the webhook denies removals of pods beyond the budget"
	p.wantWarned(p.getNamespace(), fmt.Sprintf("Breakwater: deleting Namespace %q", p.namespace)+tail)
	p.wantWarned(web, fmt.Sprintf("Breakwater: deleting Deployment %q", p.namespace+"/web")+tail)
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
		p.wantWarned(m, fmt.Sprintf("Breakwater: deleting ConfigMap %q affects 1 floor that keeps 3 pods available; it stays in force until you confirm: "+
			"kubectl annotate -n %s configmap %s breakwater.dev/confirm-release=true", p.namespace+"/"+m.Name, p.namespace, m.Name))
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
