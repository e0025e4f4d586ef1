package rootguard

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

func workloadKinds(kinds ...string) map[schema.GroupKind]bool {
	all := map[schema.GroupKind]bool{}
	for _, kind := range kinds {
		all[schema.GroupKind{Group: "apps", Kind: kind}] = true
	}
	return all
}

func ownedBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: uid}}
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{appsv1.SchemeGroupVersion, corev1.SchemeGroupVersion})
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		m.Add(appsv1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	m.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return m
}

// ownerChain returns a reader of a Deployment that a ConfigMap owns, which a Node owns, which a Secret owns.
func ownerChain() client.Reader {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", OwnerReferences: ownedBy("ConfigMap", "app", "1")}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lonely"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "web", OwnerReferences: ownedBy("ConfigMap", "app", "9")}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", OwnerReferences: ownedBy("ConfigMap", "app", "old")}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "app", UID: "1", OwnerReferences: ownedBy("Node", "top", "2")}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "top", UID: "2", OwnerReferences: ownedBy("Secret", "unread", "3")}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "unread", UID: "3", OwnerReferences: ownedBy("Node", "higher", "4")}},
	).Build()
}

// uidsOf returns the found owners, by workload.
func uidsOf(found sourceOwners) map[string]string {
	all := map[string]string{}
	for source, owners := range found {
		text := ""
		for _, owner := range owners {
			text += fmt.Sprintf("%s %s,", owner.Kind.Kind, owner.UID)
		}
		all[source.String()+" in "+source.Namespace] = text
	}
	return all
}

func TestOwnersAreFound(t *testing.T) {
	configured := []schema.GroupResource{{Resource: "configmaps"}, {Resource: "nodes"}}
	for claim, c := range map[string]struct {
		namespace string
		kinds     []schema.GroupResource
		want      map[string]string
	}{
		// An owner with another UID is another object: its owners do not own the workload.
		"up to a kind that is not configured": {"shop", configured, map[string]string{
			"Deployment web in shop": "ConfigMap 1,Node 2,Secret 3,", "StatefulSet db in shop": "ConfigMap old,",
		}},
		"in all namespaces": {"", configured, map[string]string{
			"Deployment web in shop": "ConfigMap 1,Node 2,Secret 3,", "StatefulSet db in shop": "ConfigMap old,", "Deployment web in bank": "ConfigMap 9,",
		}},
		"direct ones of a kind that is not configured": {"shop", configured[1:], map[string]string{
			"Deployment web in shop": "ConfigMap 1,", "StatefulSet db in shop": "ConfigMap old,",
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			o := newOwnerFinder(ownerChain(), mapper(), c.kinds...)
			found, err := o.ofSources(t.Context(), c.namespace, workloadKinds("Deployment", "StatefulSet"))
			if diff := cmp.Diff(c.want, uidsOf(found)); diff != "" || err != nil {
				t.Errorf("error %v, owners (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestOwnersReturnPartialResultAfterError(t *testing.T) {
	reader := &failingReader{Reader: ownerChain(), kind: "StatefulSet"}
	o := newOwnerFinder(reader, mapper(), schema.GroupResource{Resource: "configmaps"})
	found, err := o.ofSources(t.Context(), "shop", workloadKinds("Deployment", "StatefulSet", "Unserved"))
	if err == nil || len(found[policy.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}]) == 0 {
		t.Errorf("error %v and owners %v, want an error, and those of Deployments", err, found)
	}
	before := reader.lists
	if _, err := o.ofSources(t.Context(), "shop", workloadKinds("Deployment", "StatefulSet", "Unserved")); err == nil || reader.lists == before {
		t.Errorf("error %v after %d lists, want the failed kind listed again", err, reader.lists-before)
	}
}

func TestOwnersAreReadOnceForAMassDeletion(t *testing.T) {
	reader, now := &failingReader{Reader: ownerChain()}, time.Unix(1000, 0)
	o := newOwnerFinder(reader, mapper(), schema.GroupResource{Resource: "configmaps"})
	o.now = func() time.Time { return now }
	read := func(namespace string) int {
		t.Helper()
		before := reader.lists
		if _, err := o.ofSources(t.Context(), namespace, workloadKinds("Deployment")); err != nil {
			t.Fatal(err)
		}
		return reader.lists - before
	}
	if got := []int{read("shop"), read("shop"), read("bank"), read("shop")}; !cmp.Equal(got, []int{1, 0, 1, 0}) {
		t.Errorf("lists %v, want one for each namespace", got)
	}
	now = now.Add(lookupTTL)
	if got := read("shop"); got != 1 {
		t.Errorf("%d lists after %s, want 1", got, lookupTTL)
	}
	if len(o.lookups) != 1 {
		t.Errorf("%d lookups kept, want only the last", len(o.lookups))
	}
}
