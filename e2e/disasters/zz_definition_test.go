package disasters_test

import (
	"os/exec"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
)

// The tests of this file run last in the package, because they affect the protectors of all other tests.

const protectorCRDName = "podprotectors.breakwater.dev"

// crdClient returns a client for the CRDs of the core.
func (l fixture) crdClient() apiextensions.Interface {
	l.Helper()
	kinds, err := apiextensions.NewForConfig(l.core().RESTConfig())
	l.Must(err)
	return kinds
}

func (l fixture) getCRD() *apiextensionsv1.CustomResourceDefinition {
	l.Helper()
	crd, err := l.crdClient().ApiextensionsV1().CustomResourceDefinitions().Get(l.Context(), protectorCRDName, metav1.GetOptions{})
	l.Must(err)
	return crd
}

// createCRD recreates a CRD, and waits until the API server serves it.
func (l fixture) createCRD(crd *apiextensionsv1.CustomResourceDefinition) {
	l.Helper()
	recreated := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Annotations: crd.Annotations}, Spec: crd.Spec}
	crds := l.crdClient().ApiextensionsV1().CustomResourceDefinitions()
	_, err := crds.Create(l.Context(), recreated, metav1.CreateOptions{})
	l.Must(err)
	l.Eventually(func() string {
		return e2e.ErrorText(l.Core.List(l.Context(), &v1alpha1.PodProtectorList{}))
	})
}

func TestCRDDeletedFromCoreEtcd(t *testing.T) {
	claim(t, "no removal is admitted while the API server serves no protectors, and protection resumes unchanged afterwards", func(l fixture) {
		l.createCountedProtector(6, 8)
		v := l.startPodWatch(6)
		before, crd := l.getProtector("web"), l.getCRD()
		l.deleteFromEtcd(l.core(), 1, "apiextensions.k8s.io/customresourcedefinitions/"+protectorCRDName)
		l.Eventually(func() string {
			if err := l.Core.List(l.Context(), &v1alpha1.PodProtectorList{}); !apierrors.IsNotFound(err) {
				return "protectors are still served: " + errorText(err)
			}
			return ""
		})
		end := v.startAttack()
		l.expectDenialsInAllCells("/web")
		end()
		v.waitForAvailable(8)

		l.createCRD(crd)
		v.waitForExhaustedBudget("/web")
		if now := l.getProtector("web"); now.UID != before.UID {
			l.Errorf("the protector was recreated: %+v", now.ObjectMeta)
		}
	})
}

func TestCRDDeleted(t *testing.T) {
	claim(t, "finalizers keep all protectors in force until a user removes them", func(l fixture) {
		l.createCountedProtector(6, 8)
		v := l.startPodWatch(6)
		crd := l.getCRD()
		crds := l.crdClient().ApiextensionsV1().CustomResourceDefinitions()
		l.Must(crds.Delete(l.Context(), protectorCRDName, metav1.DeleteOptions{}))
		l.waitForEvent("web", v1alpha1.ReasonKindDeleted)
		v.waitForExhaustedBudget("/web")
		if p := l.getProtector("web"); p.DeletionTimestamp == nil {
			l.Errorf("the protector was not deleted: %+v", p.ObjectMeta)
		}

		l.waitForAllProtectorsDeleted()
		v.stopAndJudge() // the pods are unprotected from here until the protector exists again
		out, err := exec.CommandContext(l.Context(), l.Program(), "release", "--kubeconfig", l.core().Kubeconfig(), "-A", "--deleted", "--yes").CombinedOutput()
		l.Logf("breakwater release:\n%s", out)
		l.Must(err)
		l.Eventually(func() string {
			if _, err := crds.Get(l.Context(), protectorCRDName, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return "the CRD still exists: " + errorText(err)
			}
			return ""
		})
		l.createCRD(crd)
		l.CreateProtector(4)
		l.WaitForSummary(e2e.AllAvailable(6))
		l.waitForWebhooks()
		l.startPodWatch(4).waitForExhaustedBudget("/web")
	})
}

// waitForAllProtectorsDeleted waits until the API server has marked all protectors as deleted. It deletes them one namespace after the
// other.
func (l fixture) waitForAllProtectorsDeleted() {
	l.Helper()
	l.Eventually(func() string {
		all := &v1alpha1.PodProtectorList{}
		l.Must(l.Core.List(l.Context(), all))
		for i := range all.Items {
			if p := &all.Items[i]; p.DeletionTimestamp == nil {
				return "not deleted yet: " + p.Namespace + "/" + p.Name
			}
		}
		return ""
	})
}
