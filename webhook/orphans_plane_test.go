package webhook_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// ownerKind is a kind of controllers in a test.
type ownerKind struct {
	kind schema.GroupVersionKind
	// clusterScoped reports whether objects have no namespace.
	clusterScoped bool
	// spec returns the spec of an object that selects pods with owner=name.
	spec func(name string) map[string]any
	// status is the status of an object.
	status func(name string) map[string]any
}

const ownerLabel = "owner"

func matchLabels(name string) map[string]any {
	return map[string]any{"matchLabels": map[string]any{ownerLabel: name}}
}

func template(name string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"labels": map[string]any{ownerLabel: name}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}},
	}
}

// ownerKinds are kinds with fixed pod names or others: those of Kubernetes, and of operators, each of which states its selector in another place.
func ownerKinds(group string) map[string]ownerKind {
	version := schema.GroupVersion{Group: group, Version: "v1"}
	return map[string]ownerKind{
		"sts": {kind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), spec: func(name string) map[string]any {
			return map[string]any{"selector": matchLabels(name), "template": template(name), "serviceName": ""}
		}},
		"rc": {kind: corev1.SchemeGroupVersion.WithKind("ReplicationController"), spec: func(name string) map[string]any {
			return map[string]any{"selector": map[string]any{ownerLabel: name}, "template": template(name)}
		}},
		"podset": {kind: version.WithKind("PodSet"), spec: func(name string) map[string]any { return map[string]any{"selector": matchLabels(name)} }},
		"scaled": {
			kind: version.WithKind("Scaled"), spec: func(string) map[string]any { return map[string]any{"replicas": int64(3)} },
			status: func(name string) map[string]any { return map[string]any{"selector": ownerLabel + "=" + name} },
		},
		"installation": {
			kind: version.WithKind("Installation"), clusterScoped: true,
			spec: func(name string) map[string]any { return map[string]any{"selector": matchLabels(name)} },
		},
	}
}

// serveOwnerKinds creates the definitions of the kinds of operators, and the right to read them.
func (l *fixture) serveOwnerKinds(group string) (rules []schema.GroupResource) {
	l.Helper()
	scheme := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		l.Fatal(err)
	}
	definitions, err := client.New(l.config, client.Options{Scheme: scheme})
	if err != nil {
		l.Fatal(err)
	}
	open := true
	for plural, scope := range map[string]apiextensionsv1.ResourceScope{
		"podsets": apiextensionsv1.NamespaceScoped, "scaleds": apiextensionsv1.NamespaceScoped, "installations": apiextensionsv1.ClusterScoped,
	} {
		kind := map[string]string{"podsets": "PodSet", "scaleds": "Scaled", "installations": "Installation"}[plural]
		version := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}},
		}
		if kind == "Scaled" {
			selector := ".status.selector"
			version.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{
				SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas", LabelSelectorPath: &selector,
			}
		}
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group}}
		definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: scope, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
		}
		if err := definitions.Create(l.Context(), definition); err != nil {
			l.Fatal(err)
		}
		rules = append(rules, schema.GroupResource{Group: group, Resource: plural})
	}
	return rules
}

// owner creates a controller of a kind, and waits until the API server serves the kind. It returns a reference to it.
func (l *fixture) owner(k ownerKind, name string, finalizers ...string) metav1.OwnerReference {
	l.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": k.spec(name)}}
	o.SetGroupVersionKind(k.kind)
	o.SetName(name)
	o.SetFinalizers(finalizers)
	if !k.clusterScoped {
		o.SetNamespace(l.namespace)
	}
	l.eventually(func() string { return errorText(l.client.Create(l.Context(), o)) })
	if k.status != nil {
		o.Object["status"] = k.status(name)
		if err := l.client.Status().Update(l.Context(), o); err != nil {
			l.Fatalf("set the status of %s %s: %v", k.kind.Kind, name, err)
		}
	}
	yes := true
	return metav1.OwnerReference{APIVersion: k.kind.GroupVersion().String(), Kind: k.kind.Kind, Name: name, UID: o.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}
}

// deleteOwner deletes a controller in the background.
func (l *fixture) deleteOwner(k ownerKind, name string) {
	l.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(k.kind)
	o.SetName(name)
	if !k.clusterScoped {
		o.SetNamespace(l.namespace)
	}
	// The default of ReplicationControllers is to orphan their pods, for which the API server sets a finalizer.
	if err := l.client.Delete(l.Context(), o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		l.Fatalf("delete %s %s: %v", k.kind.Kind, name, err)
	}
}

func ownedBy(owner metav1.OwnerReference, label string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}, owner}
		p.Labels[ownerLabel] = label
	}
}

// ownersOf returns the names of the owners of a pod, as UIDs.
func (l *fixture) ownersOf(pod string) (uids []string) {
	l.Helper()
	p := l.existing(pod)
	if p == nil {
		l.Fatalf("pod %s does not exist", pod)
	}
	for _, o := range p.OwnerReferences {
		uids = append(uids, string(o.UID))
	}
	return uids
}

// collect requests the deletion of a pod as the garbage collector.
func (l *fixture) collect(pod *corev1.Pod) error {
	l.Helper()
	config := rest.CopyConfig(l.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:generic-garbage-collector", Groups: []string{"system:masters"}}
	collector, err := client.New(config, client.Options{Scheme: l.scheme})
	if err != nil {
		l.Fatal(err)
	}
	return collector.Delete(l.Context(), pod.DeepCopy(), client.Preconditions{UID: &pod.UID})
}

// With the permissions that users grant it, the webhook releases the pods of controllers that were deleted and created again, at the floor, also
// those whose deletion the garbage collector has not requested, and no others (rule 15).
func TestPodsOfRecreatedControllersAreReleased(t *testing.T) {
	l := newFixture(t)
	group := l.namespace + ".example.com"
	kinds := ownerKinds(group)
	rights := testplane.User(l, "webhook-of-"+l.namespace, roles.Rules(l, "webhook.cell", roles.Kinds("webhook.ownerKinds", l.serveOwnerKinds(group)...)))
	l.protect("web", 100, 20) // it admits nothing
	l.serve(func(s *replicaOptions) { s.cell, s.retrier = rights, true }).guard()

	var kept []string // pods that no release may touch, with their owners
	keep := func(pod *corev1.Pod) {
		wantDenied(t, l.collect(pod))
		kept = append(kept, pod.Name+" "+fmt.Sprint(l.ownersOf(pod.Name)))
	}
	sts := kinds["sts"]
	alive := l.owner(sts, "alive")
	keep(l.pod("alive-0", ownedBy(alive, "alive")))
	gone := l.owner(sts, "gone")
	l.deleteOwner(sts, "gone")
	keep(l.pod("gone-0", ownedBy(gone, "gone")))
	terminating := l.owner(sts, "terminating", metav1.FinalizerDeleteDependents)
	l.deleteOwner(sts, "terminating")
	keep(l.pod("terminating-0", ownedBy(terminating, "terminating")))
	other := l.owner(sts, "other")
	l.deleteOwner(sts, "other")
	l.owner(sts, "other")
	keep(l.pod("other-0", ownedBy(other, "relabeled")))
	mixed := l.owner(sts, "mixed")
	l.pod("mixed-1", ownedBy(mixed, "mixed"))
	l.deleteOwner(sts, "mixed")
	l.owner(sts, "mixed")
	keep(l.pod("mixed-0", ownedBy(mixed, "relabeled"))) // its sibling is released all the same

	released := []string{"mixed-1"}
	for name, k := range kinds {
		name = name + "-" + l.namespace // names of cluster-scoped objects are those of the whole plane
		old := l.owner(k, name)
		asked, silent := l.pod(name+"-0", ownedBy(old, name)), l.pod(name+"-1", ownedBy(old, name))
		l.deleteOwner(k, name)
		wantDenied(t, l.collect(asked))
		if got := l.ownersOf(asked.Name); len(got) != 2 {
			t.Errorf("pod %s has the owners %v before its controller is created again, want both", asked.Name, got)
		}
		l.owner(k, name)
		released = append(released, asked.Name, silent.Name)
	}
	l.eventually(func() string {
		var waiting []string
		for _, pod := range released {
			if got := l.ownersOf(pod); !slices.Equal(got, []string{"other"}) {
				waiting = append(waiting, fmt.Sprintf("%s still has the owners %v", pod, got))
			}
		}
		return strings.Join(waiting, "; ")
	})
	for _, want := range kept {
		pod, _, _ := strings.Cut(want, " ")
		if got := pod + " " + fmt.Sprint(l.ownersOf(pod)); got != want {
			t.Errorf("pod with owners %s, want them kept: %s", got, want)
		}
	}
	l.wantReleaseEvents(released)

	// The accident of foreground deletion: the user removes the finalizer, and creates the StatefulSet again.
	l.eventually(func() string {
		set := &appsv1.StatefulSet{}
		if err := l.client.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: "terminating"}, set); err != nil {
			return errorText(client.IgnoreNotFound(err))
		}
		set.Finalizers = nil
		return errorText(l.client.Update(l.Context(), set))
	})
	l.owner(sts, "terminating")
	l.eventually(func() string {
		if got := l.ownersOf("terminating-0"); !slices.Equal(got, []string{"other"}) {
			return fmt.Sprintf("pod terminating-0 still has the owners %v", got)
		}
		return ""
	})
}

// wantReleaseEvents checks that each released pod, and each successor, has an event.
func (l *fixture) wantReleaseEvents(pods []string) {
	l.Helper()
	l.eventually(func() string {
		about := map[string]bool{}
		for _, namespace := range []string{l.namespace, metav1.NamespaceDefault} {
			events := &corev1.EventList{}
			if err := l.client.List(l.Context(), events, client.InNamespace(namespace)); err != nil {
				return err.Error()
			}
			for i := range events.Items {
				if e := &events.Items[i]; e.Reason == "ReleasedToSuccessor" {
					about[e.InvolvedObject.Kind+" "+e.InvolvedObject.Name] = true
				}
			}
		}
		for _, pod := range pods {
			if !about["Pod "+pod] {
				return fmt.Sprintf("no event on pod %s, but on %v", pod, about)
			}
		}
		if !about["StatefulSet sts-"+l.namespace] || !about["Installation installation-"+l.namespace] {
			return fmt.Sprintf("no event on the successors, but on %v", about)
		}
		return ""
	})
}
