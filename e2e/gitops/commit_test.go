package gitops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/gitops"
)

func TestInvalidCommitIsRejectedAndKeepsProtection(t *testing.T) {
	for claim, test := range map[string]struct{ bad, says string }{
		"both minAvailable and maxUnavailable, rejected by CEL": {webProtector + "  maxUnavailable: 1\n", "give either minAvailable or maxUnavailable"},
		"a floor of an invalid type, rejected by the schema":    {strings.Replace(webProtector, "minAvailable: 3", "minAvailable: [3]", 1), "minAvailable"},
		"an unknown field": {webProtector + "  minimumAvailable: 1\n", "minimumAvailable"},
	} {
		t.Run(claim, func(t *testing.T) {
			before := shopProtectors(t)
			// The same commit removes the other protector. Flux must not apply any part of it.
			noErrors(t, fixture.pushCommit(t.Context(), "A mistake", map[string]string{
				"protection/web-protector.yaml": test.bad, "protection/cart-protector.yaml": "",
			}))
			revision, err := fixture.revision(t.Context())
			noErrors(t, err)
			noErrors(t, gitops.WaitUntil(t.Context(), "the rejection of the commit", func() string {
				k, err := fixture.Kustomization(t.Context(), systemNamespace, "protection")
				if err != nil {
					return err.Error()
				}
				attempted, _ := k.Object["status"].(map[string]any)["lastAttemptedRevision"].(string)
				ready := gitops.Condition(k, "Ready")
				if attempted != revision || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, test.says) {
					return fmt.Sprintf("attempted %q, want %q; Ready: %+v", attempted, revision, ready)
				}
				return ""
			}))
			if diff := cmp.Diff(before, shopProtectors(t)); diff != "" {
				t.Errorf("the protectors changed:\n%s", diff)
			}
			expectDenied(t)
			noErrors(t, fixture.pushCommit(t.Context(), "Fixed", map[string]string{
				"protection/web-protector.yaml": webProtector, "protection/cart-protector.yaml": cartProtector,
			}), fixture.waitForSync(t.Context()))
		})
	}
}

func TestCommitThatRemovesProtectorDeletesIt(t *testing.T) {
	noErrors(t, fixture.pushCommit(t.Context(), "No cart any more", map[string]string{"protection/cart-protector.yaml": ""}), fixture.waitForSync(t.Context()))
	noErrors(t, gitops.WaitUntil(t.Context(), "the deletion of the protector", func() string {
		if left := shopProtectors(t); len(left) != 1 {
			return fmt.Sprintf("there are %v", left)
		}
		return ""
	}))
	noErrors(t, fixture.pushCommit(t.Context(), "Cart again", map[string]string{"protection/cart-protector.yaml": cartProtector}), fixture.waitForSync(t.Context()))
}

// shopProtectors returns the specs of the protectors of the namespace shop, by name.
func shopProtectors(t *testing.T) map[string]v1alpha1.PodProtectorSpec {
	t.Helper()
	var list v1alpha1.PodProtectorList
	noErrors(t, fixture.List(t.Context(), &list, client.InNamespace("shop")))
	specs := map[string]v1alpha1.PodProtectorSpec{}
	for _, p := range list.Items {
		specs[p.Name] = p.Spec
	}
	return specs
}
