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

// The tests of this file are the last of the package, since they strike the protectors of all others too.

const definition = "podprotectors.breakwater.dev"

// kinds are the CRDs of the core.
func (l lab) kinds() apiextensions.Interface {
	l.Helper()
	kinds, err := apiextensions.NewForConfig(l.core().RESTConfig())
	l.Must(err)
	return kinds
}

func (l lab) definition() *apiextensionsv1.CustomResourceDefinition {
	l.Helper()
	crd, err := l.kinds().ApiextensionsV1().CustomResourceDefinitions().Get(l.Context(), definition, metav1.GetOptions{})
	l.Must(err)
	return crd
}

// define puts a CRD back, as it is in the release.
func (l lab) define(crd *apiextensionsv1.CustomResourceDefinition) {
	l.Helper()
	anew := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Annotations: crd.Annotations}, Spec: crd.Spec}
	crds := l.kinds().ApiextensionsV1().CustomResourceDefinitions()
	_, err := crds.Create(l.Context(), anew, metav1.CreateOptions{})
	l.Must(err)
	l.Eventually(func() string {
		return e2e.Word(l.Core.List(l.Context(), &v1alpha1.PodProtectorList{}))
	})
}

func TestTheDefinitionIsErasedFromTheCore(t *testing.T) {
	claim(t, "nothing is admitted while nobody serves protectors, and all go on as they were when somebody does", func(l lab) {
		l.protect(6, 8)
		v := l.watch(6)
		before, crd := l.protector("web"), l.definition()
		l.erase(l.core(), 1, "apiextensions.k8s.io/customresourcedefinitions/"+definition)
		l.Eventually(func() string {
			if err := l.Core.List(l.Context(), &v1alpha1.PodProtectorList{}); !apierrors.IsNotFound(err) {
				return "protectors are still served: " + errorText(err)
			}
			return ""
		})
		end := v.siege()
		l.wantRefusalsEverywhere("/web")
		end()
		v.awaitAvailable(8)

		l.define(crd)
		v.wantExhausted("/web")
		if now := l.protector("web"); now.UID != before.UID {
			l.Errorf("the protector is another one: %+v", now.ObjectMeta)
		}
	})
}

func TestTheDefinitionIsDeleted(t *testing.T) {
	claim(t, "finalizers keep all protectors in force until somebody lets go of them on purpose", func(l lab) {
		l.protect(6, 8)
		v := l.watch(6)
		crd := l.definition()
		crds := l.kinds().ApiextensionsV1().CustomResourceDefinitions()
		l.Must(crds.Delete(l.Context(), definition, metav1.DeleteOptions{}))
		l.awaitEvent("web", v1alpha1.ReasonKindDeleted)
		v.wantExhausted("/web")
		if p := l.protector("web"); p.DeletionTimestamp == nil {
			l.Errorf("the protector was not deleted: %+v", p.ObjectMeta)
		}

		l.awaitAllDeleted()
		v.conclude() // nobody protects the pods from here until the protector is back
		out, err := exec.CommandContext(l.Context(), l.Program(), "release", "--kubeconfig", l.core().Kubeconfig(), "-A", "--deleted", "--yes").CombinedOutput()
		l.Logf("breakwater release:\n%s", out)
		l.Must(err)
		l.Eventually(func() string {
			if _, err := crds.Get(l.Context(), definition, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return "the CRD is still there: " + errorText(err)
			}
			return ""
		})
		l.define(crd)
		l.Protect(4)
		l.AwaitSummary(e2e.AllAvailable(6))
		l.awaitHeard()
		l.watch(4).wantExhausted("/web")
	})
}

// awaitAllDeleted waits until the apiserver has deleted all protectors, which it does one namespace after the other.
func (l lab) awaitAllDeleted() {
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
