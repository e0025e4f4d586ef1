package charts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
)

func TestUninstallLeavesNothingBehind(t *testing.T) {
	single.Claim(t, "no webhook remains, and deletions complete", func(l *e2e.Fixture) {
		policy := createPolicy(l)
		l.Must(l.Core.Create(l.Context(), policy))
		createDeployment(l, 4)
		protector := waitForProtector(l, "deployment-web", 3)
		byHand := applyConfigurationByHand(l)
		if out, err := installed.Helm(l.Context(), "uninstall", "breakwater", "--wait"); err != nil {
			l.Fatalf("%v\n%s\n%v", err, out, installed.Problems())
		}
		if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(byHand), byHand); !apierrors.IsNotFound(err) {
			t.Errorf("get of the configuration that no release owns: %v, want it deleted: it denies all removals", err)
		}
		if left := remainingObjects(l); len(left) > 0 {
			t.Errorf("remaining objects: %q", left)
		}
		// The objects that define protection and cells are kept for another release, and they have no finalizers.
		web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: installed.Cluster.Name()}}
		kept := []client.Object{policy, protector, web, cell}
		for _, object := range kept {
			l.Must(l.Core.Get(l.Context(), client.ObjectKeyFromObject(object), object))
			if len(object.GetFinalizers()) > 0 || object.GetDeletionTimestamp() != nil {
				t.Errorf("%T %s: deleted %v, finalizers %q", object, object.GetName(), object.GetDeletionTimestamp(), object.GetFinalizers())
			}
			l.Must(l.Core.Delete(l.Context(), object))
		}
		l.Eventually(func() string {
			for _, object := range kept {
				if err := l.Core.Get(l.Context(), client.ObjectKeyFromObject(object), object); client.IgnoreNotFound(err) != nil || err == nil {
					return fmt.Sprintf("%T %s still exists (error %v), with finalizers %q", object, object.GetName(), err, object.GetFinalizers())
				}
			}
			if n := l.CountExistingPods(); n > 0 {
				return fmt.Sprintf("%d pods remain", n)
			}
			return ""
		})
		deleteCRDs(l)
	})
}

// applyConfigurationByHand creates the configuration that earlier versions of webhook-config printed: without labels, under a name of its own.
func applyConfigurationByHand(l *e2e.Fixture) *admissionregistrationv1.ValidatingWebhookConfiguration {
	l.Helper()
	ofChart := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: "breakwater-cell-" + installed.Cluster.Name()}, ofChart))
	byHand := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Webhooks: ofChart.Webhooks}
	l.Must(l.Core.Create(l.Context(), byHand))
	return byHand
}

// deleteCRDs deletes the CRDs as docs/how-to/upgrade.md describes, because a release does not delete them, and checks that they are
// deleted.
func deleteCRDs(l *e2e.Fixture) {
	l.Helper()
	output, err := doctest.Mentioned("../..", "docs/how-to/upgrade.md", "kubectl delete crd ")
	l.Must(err)
	if out, err := installed.Helm(l.Context(), "uninstall", "breakwater-crds"); err != nil {
		l.Fatalf("%v\n%s", err, out)
	}
	definitions := &metav1.PartialObjectMetadataList{}
	definitions.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	left := func() (left []string) {
		l.Must(l.Core.List(l.Context(), definitions))
		for i := range definitions.Items {
			if name := definitions.Items[i].Name; strings.HasSuffix(name, v1alpha1.GroupVersion.Group) {
				left = append(left, name)
			}
		}
		return left
	}
	if len(left()) == 0 {
		l.Fatal("the CRDs were deleted with the release, and all protectors with them")
	}
	e2e.RunTool(l.Context(), l, "kubectl", installed.Cluster.Kubeconfig(), strings.Fields(output)[1:]...)
	l.Eventually(func() string { return strings.Join(left(), ", ") })
}

// TestQuickstart runs docs/tutorials/quickstart.md in the cluster after the release was uninstalled. e2e/kind runs the whole page.
func TestQuickstart(t *testing.T) {
	page, err := doctest.Read("../..", "docs/tutorials/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	single.Claim(t, "a reader installs, labels, deletes, and is refused", func(l *e2e.Fixture) {
		uninstallAll(l)
		for _, step := range page.Steps {
			if step.Run != nil && step.Run.Environment == doctest.Kind {
				t.Logf("line %d of the page is skipped: no kubelet needs an image here, the pods of Breakwater are processes", step.Line)
			}
		}
		// The folder of a release, as far as the page needs it.
		folder, home := t.TempDir(), t.TempDir()
		pack, err := release.Helm(l.Context(), home, "package", "../../charts/breakwater", "--destination", filepath.Join(folder, "charts"))
		l.Must(err)
		if out, err := pack.CombinedOutput(); err != nil {
			l.Fatalf("%v\n%s", err, out)
		}
		page.Run(t, doctest.Options{
			Environments: []doctest.Environment{doctest.Cluster}, Folder: folder, Timeout: 2 * time.Minute,
			Variables: []string{
				"PATH=" + os.Getenv(local.BinariesVariable) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home,
				"KUBECONFIG=" + installed.Cluster.Kubeconfig(),
			},
		})
	})
}

// uninstallAll deletes the releases, if there are any, the CRDs, and with them all protectors and Cells.
func uninstallAll(l *e2e.Fixture) {
	l.Helper()
	for _, name := range []string{"breakwater", "breakwater-crds"} {
		if out, err := installed.Helm(l.Context(), "uninstall", name, "--ignore-not-found", "--wait"); err != nil {
			l.Fatalf("%v\n%s", err, out)
		}
	}
	e2e.RunTool(l.Context(), l, "kubectl", installed.Cluster.Kubeconfig(), "delete", "crd", "-l", "app.kubernetes.io/part-of=breakwater")
}

// remainingObjects returns the objects of the release that still exist.
func remainingObjects(l *e2e.Fixture) []string {
	l.Helper()
	var left []string
	for _, kind := range []schema.GroupVersionKind{
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfiguration"},
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Group: "batch", Version: "v1", Kind: "Job"},
		{Version: "v1", Kind: "ServiceAccount"}, {Version: "v1", Kind: "Service"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "Role"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1", Kind: "FlowSchema"},
	} {
		l.Eventually(func() string { // Helm does not wait for objects with finalizers
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(kind)
			l.Must(l.Core.List(context.Background(), list, client.MatchingLabels{"app.kubernetes.io/instance": "breakwater"}))
			for _, object := range list.Items {
				if object.GetDeletionTimestamp() != nil {
					return fmt.Sprintf("%s %s still exists, with finalizers %q", kind.Kind, object.GetName(), object.GetFinalizers())
				}
				left = append(left, kind.Kind+" "+object.GetName())
			}
			return ""
		})
	}
	return left
}
