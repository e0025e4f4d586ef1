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

func TestABadCommitIsRejectedAndTakesNoProtectionAway(t *testing.T) {
	for claim, test := range map[string]struct{ bad, says string }{
		"a floor in two ways, by CEL":   {webProtector + "  maxUnavailable: 1\n", "give either minAvailable or maxUnavailable"},
		"a floor of no kind, by schema": {strings.Replace(webProtector, "minAvailable: 3", "minAvailable: [3]", 1), "minAvailable"},
		"a field that there is not":     {webProtector + "  minimumAvailable: 1\n", "minimumAvailable"},
	} {
		t.Run(claim, func(t *testing.T) {
			before := protectors(t)
			// The same commit takes the other protector away: nothing of it may be done.
			must(t, stage.push(t.Context(), "A mistake", map[string]string{
				"protection/web-protector.yaml": test.bad, "protection/cart-protector.yaml": "",
			}))
			revision, err := stage.revision(t.Context())
			must(t, err)
			must(t, gitops.Await(t.Context(), "the commit to be rejected", func() string {
				k, err := stage.Kustomization(t.Context(), system, "protection")
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
			if diff := cmp.Diff(before, protectors(t)); diff != "" {
				t.Errorf("the protectors changed:\n%s", diff)
			}
			wantRefused(t)
			must(t, stage.push(t.Context(), "Mended", map[string]string{
				"protection/web-protector.yaml": webProtector, "protection/cart-protector.yaml": cartProtector,
			}), stage.awaitSync(t.Context()))
		})
	}
}

func TestACommitThatRemovesAProtectorRemovesIt(t *testing.T) {
	must(t, stage.push(t.Context(), "No cart any more", map[string]string{"protection/cart-protector.yaml": ""}), stage.awaitSync(t.Context()))
	must(t, gitops.Await(t.Context(), "the protector to be gone", func() string {
		if left := protectors(t); len(left) != 1 {
			return fmt.Sprintf("there are %v", left)
		}
		return ""
	}))
	must(t, stage.push(t.Context(), "Cart again", map[string]string{"protection/cart-protector.yaml": cartProtector}), stage.awaitSync(t.Context()))
}

// protectors are the specs of the protectors of the shop.
func protectors(t *testing.T) map[string]v1alpha1.PodProtectorSpec {
	t.Helper()
	var list v1alpha1.PodProtectorList
	must(t, stage.List(t.Context(), &list, client.InNamespace("shop")))
	specs := map[string]v1alpha1.PodProtectorSpec{}
	for _, p := range list.Items {
		specs[p.Name] = p.Spec
	}
	return specs
}
