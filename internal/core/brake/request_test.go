package brake

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestBudgetOf(t *testing.T) {
	made := func(policy, rule string) *v1alpha1.PodProtector {
		return &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{
			v1alpha1.AnnotationPolicy: policy, v1alpha1.AnnotationPolicyRule: rule,
		}}}
	}
	for claim, c := range map[string]struct {
		protector *v1alpha1.PodProtector
		budget    string
		count     int
		onCascade v1alpha1.CascadePolicy
	}{
		"no policy":                          {&v1alpha1.PodProtector{}, CoreBudget, 5, v1alpha1.CascadeHold},
		"a policy without limits":            {made("ProtectionPolicy/all", `{}`), CoreBudget, 5, v1alpha1.CascadeHold},
		"a policy that releases cascades":    {made("ProtectionPolicy/all", `{"largeDecreases": {"onCascade": "Release"}}`), CoreBudget, 5, v1alpha1.CascadeRelease},
		"a policy with limits":               {made("ProtectionPolicy/all", `{"largeDecreases": {"count": 9}}`), "ProtectionPolicy.shop.all", 9, v1alpha1.CascadeHold},
		"a policy of the cluster":            {made("ClusterProtectionPolicy/all", `{"largeDecreases": {"count": 0}}`), "ClusterProtectionPolicy.all", 0, v1alpha1.CascadeHold},
		"a malformed record":                 {made("ProtectionPolicy/all", `{`), CoreBudget, 5, v1alpha1.CascadeHold},
		"a window creates a separate budget": {made("ProtectionPolicy/all", `{"largeDecreases": {"window": "1h"}}`), "ProtectionPolicy.shop.all", 5, v1alpha1.CascadeHold},
	} {
		t.Run(claim, func(t *testing.T) {
			budget, limits := BudgetOf(c.protector, DefaultLimits())
			if budget != c.budget || limits.Count != c.count || limits.OnCascade != c.onCascade {
				t.Errorf("BudgetOf() = %s, %+v, want %s, count %d, %s", budget, limits, c.budget, c.count, c.onCascade)
			}
		})
	}
}

func TestMessagesExplainHowToConfirm(t *testing.T) {
	p := protector("8")
	p.Namespace, p.Name = "shop", "deployment-web"
	r := Request{Protector: p, Cause: "Deployment web was deleted", Effect: "release the floor of 8"}
	for reason, words := range map[string][]string{
		v1alpha1.ReasonQuietPeriod:   {"Deployment web was deleted", "release the floor of 8", "5s"},
		v1alpha1.ReasonLimitExceeded: {"5, or 5 % of the protectors", "10m0s", "kubectl breakwater release --pending -n shop deployment-web"},
		v1alpha1.ReasonCascade:       {`namespace "shop" is being deleted`, "kubectl annotate namespace shop breakwater.dev/confirm-release=true"},
	} {
		message := Message(r, reason, DefaultLimits(), `namespace "shop" is being deleted`)
		for _, word := range words {
			if !strings.Contains(message, word) {
				t.Errorf("Message(%s) = %q, want it to contain %q", reason, message, word)
			}
		}
	}
}
