package webhookconfig

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestProtectedBy(t *testing.T) {
	for annotation, want := range map[string]string{
		"":                     "",
		"a":                    "a",
		"b,a":                  "a,b",
		"b:releasing, a,,":     "a,b:releasing",
		"a:releasing,:relea":   ":relea,a:releasing",
		":releasing":           "",
		"a,a:releasing":        "a:releasing",
		"0f-1:releasing,0f-1a": "0f-1:releasing,0f-1a",
	} {
		if got := ParseProtectedBy(annotation).String(); got != want {
			t.Errorf("ParseProtectedBy(%q).String() = %q, want %q", annotation, got, want)
		}
	}
	if by := ParseProtectedBy("a,b:releasing"); !by["a"] || by["b"] || by["c"] {
		t.Errorf("ParseProtectedBy() = %v, want that only a needs the label", by)
	}
}

func TestEnforcesProtected(t *testing.T) {
	type policy = admissionregistrationv1.ValidatingAdmissionPolicy
	type binding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for claim, change := range map[string]func(*policy, *binding){
		"that keeps only the annotation": func(p *policy, _ *binding) {
			p.Spec.Validations[0].Expression = "object." + protectedAnnotation + " == oldObject." + protectedAnnotation
		},
		"that lets aggregators change all labels": func(p *policy, _ *binding) { p.Spec.Validations = p.Spec.Validations[:1] },
		"that exempts a group": func(p *policy, _ *binding) {
			p.Spec.Validations[0].Expression = "('admins' in request.userInfo.groups || request.userInfo.username in ['a']) || " + keepsLabel
		},
		"without the status": func(p *policy, _ *binding) {
			p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"namespaces"}
		},
		"on a condition": func(p *policy, _ *binding) { p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{}} },
		"that only warns": func(_ *policy, b *binding) {
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Warn"}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			p, b := ProtectedPolicy("c", []string{"a", "b"}), ProtectedBinding("c")
			if !EnforcesProtected(p, b) {
				t.Fatal("EnforcesProtected() of the generated policy = false, want true")
			}
			change(p, b)
			if EnforcesProtected(p, b) {
				t.Error("EnforcesProtected() = true, want false")
			}
		})
	}
	if EnforcesProtected(nil, ProtectedBinding("c")) || EnforcesProtected(ProtectedPolicy("c", nil), nil) {
		t.Error("EnforcesProtected() without a policy or binding = true, want false")
	}
}

func TestUserNamesCannotChangeThePolicy(t *testing.T) {
	for name, want := range map[string]bool{
		"system:serviceaccount:breakwater-system:breakwater-access": true, "arn:aws:iam::1:role/a": true, "": false, "a'] || true": false, "a\\": false,
	} {
		if got := IsAggregatorUser(name); got != want {
			t.Errorf("IsAggregatorUser(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestWeaknessesOfScopes(t *testing.T) {
	hook := func(change func(*admissionregistrationv1.ValidatingWebhook)) []admissionregistrationv1.ValidatingWebhookConfiguration {
		return []admissionregistrationv1.ValidatingWebhookConfiguration{removalConfiguration("worker-1", change)}
	}
	for claim, c := range map[string]struct {
		values  []string
		key     string
		depends bool
	}{
		"the label of protected namespaces": {[]string{"true"}, v1alpha1.LabelProtected, true},
		"another value":                     {[]string{"false"}, v1alpha1.LabelProtected, false},
		"another label":                     {[]string{"true"}, "guard", false},
	} {
		t.Run(claim, func(t *testing.T) {
			requirement := ProtectedRequirement()
			requirement.Key, requirement.Values = c.key, c.values
			configurations := hook(func(w *admissionregistrationv1.ValidatingWebhook) {
				w.NamespaceSelector.MatchExpressions = append(w.NamespaceSelector.MatchExpressions, requirement)
			})
			if weak, found := Weaknesses("worker-1", nil, configurations); !found || (len(weak) == 0) != c.depends {
				t.Errorf("Weaknesses() = %q, %v, want a weakness: %v", weak, found, !c.depends)
			}
			if got := DependsOnProtectedLabel("worker-1", configurations); got != c.depends {
				t.Errorf("DependsOnProtectedLabel() = %v, want %v", got, c.depends)
			}
		})
	}
}
