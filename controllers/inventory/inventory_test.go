package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a real core cluster with the two inventories, each in a namespace of its own, and a real worker. The controller has exactly the
// permissions that it declares, in these namespaces only.
type fixture struct {
	*testing.T
	client.Client
	argocd, profiles, secrets string
	// worker and rotated are accounts of the worker, and core one of the core itself, with a token each.
	worker, rotated, core *rest.Config
}

const clusterProfileCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusterprofiles.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/issues/4322"}
spec:
  group: multicluster.x-k8s.io
  names: {kind: ClusterProfile, listKind: ClusterProfileList, plural: clusterprofiles, singular: clusterprofile}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, Client: testplane.Client(t), argocd: testplane.Namespace(t), profiles: testplane.Namespace(t), secrets: testplane.Namespace(t)}
	crd := &unstructured.Unstructured{}
	f.must(yaml.Unmarshal([]byte(clusterProfileCRD), crd))
	f.must(f.Create(t.Context(), crd))
	f.eventually(func() string {
		if err := f.List(t.Context(), &metav1.PartialObjectMetadataList{TypeMeta: newClusterProfile().TypeMeta}); err != nil {
			return err.Error()
		}
		return ""
	})
	f.worker = testplane.AsServiceAccount(t, testplane.Second(t), "default", f.secrets, "cluster-admin")
	f.rotated = testplane.AsServiceAccount(t, testplane.Second(t), "default", f.secrets+"-rotated", "cluster-admin")
	f.core = testplane.AsServiceAccount(t, testplane.Config(t), f.secrets, "core", "cluster-admin")
	cluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: f.secrets}, Rules: append(roles.Rules(t, "topology.core"), roles.Rules(t, "inventory.core")...)}
	f.must(f.Create(t.Context(), cluster))
	account := testplane.AsServiceAccount(t, testplane.Config(t), f.secrets, "inventory", cluster.Name)
	for namespace, rules := range map[string][]rbacv1.PolicyRule{
		f.argocd: roles.Rules(t, "inventory.argocd"), f.profiles: roles.Rules(t, "inventory.clusterProfiles"), f.secrets: roles.Rules(t, "inventory.secrets"),
	} {
		f.must(f.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inventory"}, Rules: rules}))
		f.must(f.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "inventory"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "inventory"},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.secrets, Name: "inventory"}},
		}))
	}
	selector := labels.SelectorFromSet(labels.Set{"enroll": "yes"})
	testplane.StartManager(t, account, func(_ context.Context, mgr manager.Manager) error {
		return Setup(mgr, Options{
			ArgoCD: Inventory{Namespace: f.argocd, Selector: selector}, ClusterProfiles: Inventory{Namespace: f.profiles, Selector: selector}, SecretNamespace: f.secrets,
		})
	})
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) eventually(unmet func() string) { f.Helper(); testplane.Eventually(f, unmet) }

// argoCDSecret returns a cluster Secret for the worker, with a token.
func (f *fixture) argoCDSecret(name, cell, token string) *corev1.Secret {
	f.Helper()
	config, err := json.Marshal(map[string]any{"bearerToken": token, "tlsClientConfig": map[string]any{"caData": f.worker.CAData}})
	f.must(err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.argocd, Name: name, Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster", "enroll": "yes"}},
		Data:       map[string][]byte{"name": []byte(cell), "server": []byte(f.worker.Host), "config": config},
	}
}

// createProfile creates a ClusterProfile, with a Secret of the core's kubeconfig.
func (f *fixture) createProfile(name string) {
	f.Helper()
	profile := &unstructured.Unstructured{}
	profile.SetGroupVersionKind(clusterProfileKind())
	profile.SetNamespace(f.profiles)
	profile.SetName(name)
	profile.SetLabels(map[string]string{"enroll": "yes"})
	f.must(f.Create(f.Context(), profile))
	f.must(f.Create(f.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.profiles, Name: name + "-access", Labels: map[string]string{labelConsumer: consumer, labelProfile: name}},
		Data:       map[string][]byte{keyConfig: testplane.KubeconfigOf(f, f.core)},
	}))
}

// awaitListed waits until a Cell has the condition Listed with that reason.
func (f *fixture) awaitListed(name, reason string) *v1alpha1.Cell {
	f.Helper()
	cell := &v1alpha1.Cell{}
	f.eventually(func() string {
		if err := f.Get(f.Context(), client.ObjectKey{Name: name}, cell); err != nil {
			return err.Error()
		}
		if listed := meta.FindStatusCondition(cell.Status.Conditions, v1alpha1.ConditionListed); listed == nil || listed.Reason != reason {
			return fmt.Sprintf("condition Listed of Cell %s is %+v, want reason %s", name, listed, reason)
		}
		return ""
	})
	return cell
}

func (f *fixture) awaitEvent(object, reason string) {
	f.Helper()
	f.eventually(func() string {
		all := &eventsv1.EventList{}
		f.must(f.List(f.Context(), all))
		for _, event := range all.Items {
			if event.Regarding.Name == object && event.Reason == reason {
				return ""
			}
		}
		return fmt.Sprintf("no event %s on %s", reason, object)
	})
}

func (f *fixture) kubeconfig(cell string) string {
	f.Helper()
	secret := &corev1.Secret{}
	f.must(f.Get(f.Context(), client.ObjectKey{Namespace: f.secrets, Name: "cell-" + cell}, secret))
	return string(secret.Data[kubeconfigKey])
}

func TestInventoriesProvideCells(t *testing.T) {
	f := newFixture(t)
	t.Run("creates a Cell of an Argo CD cluster, whose kubeconfig works", func(t *testing.T) {
		f.must(f.Create(t.Context(), f.argoCDSecret("cluster-a", "prod-a", f.worker.BearerToken)))
		cell := f.awaitListed("prod-a", v1alpha1.ReasonEntryFound)
		if _, _, err := clusters.Connect(t.Context(), f, cell, "test"); err != nil {
			t.Error(err)
		}
	})
	t.Run("creates a Cell of a ClusterProfile, whose kubeconfig works", func(t *testing.T) {
		f.createProfile("prod-b")
		cell := f.awaitListed("prod-b", v1alpha1.ReasonEntryFound)
		if _, _, err := clusters.Connect(t.Context(), f, cell, "test"); err != nil {
			t.Error(err)
		}
	})
	t.Run("updates the kubeconfig when the token changes", func(t *testing.T) {
		f.must(f.Update(t.Context(), f.argoCDSecret("cluster-a", "prod-a", f.rotated.BearerToken)))
		f.eventually(func() string {
			if got := f.kubeconfig("prod-a"); !strings.Contains(got, "token: "+f.rotated.BearerToken) {
				return "kubeconfig does not have the new token"
			}
			return ""
		})
	})
	t.Run("does not let a second entry change a Cell", func(t *testing.T) {
		f.must(f.Create(t.Context(), f.argoCDSecret("cluster-b", "prod-b", "another")))
		f.awaitListed("prod-b", v1alpha1.ReasonEntryConflict)
		f.awaitEvent("cluster-b", v1alpha1.ReasonEntryConflict)
		if strings.Contains(f.kubeconfig("prod-b"), "another") {
			t.Error("the second entry changed the kubeconfig")
		}
	})
	t.Run("does not take over a Cell of another client", func(t *testing.T) {
		own := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
		f.must(f.Create(t.Context(), own))
		f.must(f.Create(t.Context(), f.argoCDSecret("cluster-by-hand", "by-hand", "t")))
		f.awaitEvent("cluster-by-hand", v1alpha1.ReasonManagedElsewhere)
		now := &v1alpha1.Cell{}
		f.must(f.Get(t.Context(), client.ObjectKeyFromObject(own), now))
		if now.ResourceVersion != own.ResourceVersion {
			t.Errorf("Cell was changed: %+v", now)
		}
	})
	t.Run("rejects names and credentials that Cells cannot have", func(t *testing.T) {
		f.must(f.Create(t.Context(), f.argoCDSecret("cluster-slash", "prod/eu", "t")))
		program := f.argoCDSecret("cluster-exec", "prod-exec", "t")
		program.Data["config"] = []byte(`{"execProviderConfig":{"command":"argocd-k8s-auth"}}`)
		f.must(f.Create(t.Context(), program))
		f.awaitEvent("cluster-slash", v1alpha1.ReasonEntryNameInvalid)
		f.awaitEvent("cluster-exec", v1alpha1.ReasonEntryUnusable)
	})
	t.Run("keeps the Cell and the kubeconfig when the entry vanishes", func(t *testing.T) {
		before := f.kubeconfig("prod-a")
		f.must(f.Delete(t.Context(), f.argoCDSecret("cluster-a", "", "")))
		f.awaitListed("prod-a", v1alpha1.ReasonEntryMissing)
		f.awaitEvent("prod-a", v1alpha1.ReasonEntryMissing)
		if f.kubeconfig("prod-a") != before {
			t.Error("the kubeconfig changed")
		}
	})
	// Pods that count in two Cells break floors.
	t.Run("does not create a second Cell of a cluster", func(t *testing.T) {
		f.must(f.Create(t.Context(), f.argoCDSecret("cluster-renamed", "prod-renamed", f.worker.BearerToken)))
		f.awaitEvent("cluster-renamed", v1alpha1.ReasonEntryUnusable)
		f.must(f.Delete(t.Context(), f.argoCDSecret("cluster-renamed", "", "")))
	})
	t.Run("does not create a deleted Cell again", func(t *testing.T) {
		f.must(f.Delete(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "prod-a"}}))
		f.must(f.Create(t.Context(), f.argoCDSecret("cluster-a", "prod-a", f.worker.BearerToken)))
		f.awaitEvent("cluster-a", v1alpha1.ReasonCellDeleted)
	})
	cells := &v1alpha1.CellList{}
	f.must(f.List(t.Context(), cells))
	got := map[string]bool{}
	for _, cell := range cells.Items {
		got[cell.Name] = true
	}
	if want := map[string]bool{"prod-b": true, "by-hand": true}; !maps.Equal(got, want) {
		t.Errorf("got Cells %v, want %v", got, want)
	}
	if err := f.Get(t.Context(), client.ObjectKey{Namespace: f.secrets, Name: "cell-prod-exec"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("got error %v of the Secret of a rejected entry, want NotFound", err)
	}
}
