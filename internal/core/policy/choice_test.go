package policy

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// policy returns a held policy for all Deployments of namespace shop, or of all namespaces if its name begins with all.
func policy(name string, change func(*Policy)) *Policy {
	spec := &v1alpha1.ProtectionPolicySpec{}
	spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	p := &Policy{Namespace: "shop", Name: name, Held: true, Created: time.Unix(100, 0), Spec: spec}
	if name[:3] == "all" {
		p.Namespace = ""
	}
	if change != nil {
		change(p)
	}
	return p
}

func elsewhere(p *Policy) {
	p.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"no": "where"}}
}

func by(name string) *Origin { return &Origin{Policy: name} }

func TestChoose(t *testing.T) {
	releasing := func(p *Policy) { p.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease }
	both := func(changes ...func(*Policy)) func(*Policy) {
		return func(p *Policy) {
			for _, change := range changes {
				change(p)
			}
		}
	}
	deleted := func(p *Policy) { p.Deleted = true }
	for claim, c := range map[string]struct {
		policies []*Policy
		label    string
		last     *Origin
		want     Verdict
		wantBy   string
		reason   string
	}{
		"nothing asks":                                            {nil, "", nil, Release, "", ""},
		"its label alone":                                         {nil, "true", nil, Protect, "", ""},
		"its label was taken off":                                 {nil, "", &Origin{}, Release, "", ""},
		"a policy":                                                {[]*Policy{policy("web", nil)}, "", nil, Protect, "ProtectionPolicy/web", ""},
		"a policy before the label":                               {[]*Policy{policy("web", nil)}, "true", nil, Protect, "ProtectionPolicy/web", ""},
		"opted out of a policy":                                   {[]*Policy{policy("web", nil)}, "false", by("ProtectionPolicy/web"), Release, "", ""},
		"opted out of a policy that vanished":                     {nil, "false", by("ProtectionPolicy/web"), Release, "", ""},
		"a policy that is not held yet":                           {[]*Policy{policy("web", func(p *Policy) { p.Held = false })}, "true", nil, Protect, "", ""},
		"a policy of another namespace":                           {[]*Policy{policy("web", func(p *Policy) { p.Namespace = "bar" })}, "", nil, Release, "", ""},
		"a policy that is being deleted":                          {[]*Policy{policy("web", deleted)}, "true", nil, Protect, "", ""},
		"another policy takes over from one that is":              {[]*Policy{policy("one", deleted), policy("two", nil)}, "", by("ProtectionPolicy/one"), Protect, "ProtectionPolicy/two", ""},
		"another policy takes over from one that selects no more": {[]*Policy{policy("one", elsewhere), policy("two", nil)}, "", by("ProtectionPolicy/one"), Protect, "ProtectionPolicy/two", ""},
		"none takes over from one that vanished":                  {[]*Policy{policy("two", nil)}, "", by("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyVanished},
		"nor does the label":                                      {nil, "true", by("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyVanished},
		"nor does one of that name of the cluster":                {[]*Policy{policy("all", nil)}, "", by("ProtectionPolicy/all"), Retain, "ProtectionPolicy/all", v1alpha1.ReasonPolicyVanished},
		"nor does one of that name of another namespace":          {[]*Policy{policy("one", func(p *Policy) { p.Namespace = "bar" })}, "", by("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyVanished},
		"deleted, and retains":                                    {[]*Policy{policy("one", deleted)}, "", by("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyDeleted},
		"deleted, and releases":                                   {[]*Policy{policy("one", both(deleted, releasing))}, "", by("ProtectionPolicy/one"), Release, "", v1alpha1.ReasonPolicyDeleted},
		"deleted, and gone, and held since its release":           {nil, "", &Origin{Policy: "ProtectionPolicy/one", Removed: true, Record: Record{ProtectionRule: v1alpha1.ProtectionRule{TargetRemovalPolicy: v1alpha1.TargetRemovalRelease}}}, Release, "", v1alpha1.ReasonPolicyDeleted},
		"deleted, and gone, and retained since":                   {nil, "", &Origin{Policy: "ProtectionPolicy/one", Removed: true}, Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyDeleted},
		"the label takes over from one that is deleted":           {nil, "true", &Origin{Policy: "ProtectionPolicy/one", Removed: true}, Protect, "", ""},
		"selects no more, and retains":                            {[]*Policy{policy("one", elsewhere)}, "", by("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyLeft},
		"selects no more, and releases":                           {[]*Policy{policy("one", both(elsewhere, releasing))}, "", by("ProtectionPolicy/one"), Release, "", v1alpha1.ReasonPolicyLeft},
		"made anew, and not held yet":                             {[]*Policy{policy("one", both(releasing, func(p *Policy) { p.Held = false }))}, "", by("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyLeft},
	} {
		t.Run(claim, func(t *testing.T) {
			Rank(c.policies)
			labels := map[string]string{v1alpha1.LabelProtect: c.label}
			got := Choose(c.policies, Candidate{Ref: deploymentRef("web"), Labels: labels}, c.label == "true", c.last)
			if got.Verdict != c.want || got.Origin.Policy != c.wantBy || got.Reason != c.reason || (got.Message == "") != (c.want == Protect) {
				t.Errorf("Choose = %+v; want %s by %q, reason %q", got, c.want, c.wantBy, c.reason)
			}
		})
	}
}

func TestRank(t *testing.T) {
	older, high := func(p *Policy) { p.Created = time.Unix(50, 0) }, func(p *Policy) { p.Spec.Priority = 3 }
	want := []*Policy{policy("z-high", high), policy("y-older", older), policy("a-name", nil), policy("b-name", nil), policy("all-high", high), policy("all-low", nil)}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "order")
		Rank(got)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("place %d is %s, want %s", i, got[i], want[i])
			}
		}
	})
}

// A workload that had protectors by a policy is never released without an intended change (an opt-out, or an existing policy that
// says Release).
func TestNothingIsReleasedByAnAccident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var policies []*Policy
		for _, name := range []string{"one", "two", "all"} {
			if !rapid.Bool().Draw(t, name) {
				continue
			}
			policies = append(policies, policy(name, func(p *Policy) {
				p.Deleted, p.Held = rapid.Bool().Draw(t, "deleted"), rapid.Bool().Draw(t, "held")
				if rapid.Bool().Draw(t, "elsewhere") {
					elsewhere(p)
				}
				if name != "one" && rapid.Bool().Draw(t, "releases") {
					p.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
				}
			}))
		}
		Rank(policies)
		last := &Origin{Policy: "ProtectionPolicy/one", Removed: rapid.Bool().Draw(t, "removed")}
		optedIn := rapid.Bool().Draw(t, "opted in")
		got := Choose(policies, Candidate{Ref: deploymentRef("web")}, optedIn, last)
		there := find(policies, last, "shop") != nil
		switch {
		case got.Verdict == Release:
			t.Fatal("released")
		case !there && !last.Removed && (got.Verdict != Retain || got.Origin.Policy != last.Policy):
			t.Fatalf("its policy vanished, and the choice is %+v", got)
		}
	})
}

func TestPoliciesSelect(t *testing.T) {
	c := Candidate{Ref: deploymentRef("web"), Labels: map[string]string{"team": "shop"}, NamespaceLabels: map[string]string{"env": "prod"}}
	expression := func(key string, operator metav1.LabelSelectorOperator) *v1alpha1.PodSelector {
		return &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: key, Operator: operator}}}
	}
	for claim, tc := range map[string]struct {
		policy *Policy
		want   bool
	}{
		"its kind":                      {policy("web", nil), true},
		"its kind, in another version":  {policy("web", func(p *Policy) { p.Spec.Workloads.Kinds[0].APIVersion = "apps/v2" }), true},
		"another group's kind":          {policy("web", func(p *Policy) { p.Spec.Workloads.Kinds[0].APIVersion = "example.com/v1" }), false},
		"another kind":                  {policy("web", func(p *Policy) { p.Spec.Workloads.Kinds[0].Kind = "StatefulSet" }), false},
		"its labels":                    {policy("web", func(p *Policy) { p.Spec.Workloads.Selector = expression("team", "Exists") }), true},
		"other labels":                  {policy("web", func(p *Policy) { p.Spec.Workloads.Selector = expression("team", "DoesNotExist") }), false},
		"a selector that is malformed":  {policy("web", func(p *Policy) { p.Spec.Workloads.Selector = expression("team", "In") }), false},
		"its namespace":                 {policy("all", func(p *Policy) { p.Namespaces = expression("env", "Exists") }), true},
		"a namespace with other labels": {policy("all", func(p *Policy) { p.Namespaces = expression("env", "DoesNotExist") }), false},
		"all namespaces":                {policy("all", nil), true},
		"only those of another one":     {policy("web", func(p *Policy) { p.Namespace = "bar" }), false},
		"empty selectors choose them all": {policy("all", func(p *Policy) {
			p.Namespaces, p.Spec.Workloads.Selector = &v1alpha1.PodSelector{}, &v1alpha1.PodSelector{}
		}), true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := tc.policy.Selects(c); got != tc.want {
				t.Errorf("Selects = %v, want %v", got, tc.want)
			}
		})
	}
}
