package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// testPolicy returns a held policy for all Deployments of namespace shop, or of all namespaces if its name begins with all.
func testPolicy(name string, change func(*Policy)) *Policy {
	spec := &v1alpha1.ProtectionPolicySpec{}
	spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	p := &Policy{Namespace: "shop", Name: name, HasFinalizer: true, Created: time.Unix(100, 0), Spec: spec}
	if name[:3] == "all" {
		p.Namespace = ""
	}
	if change != nil {
		change(p)
	}
	return p
}

func selectOtherWorkloads(p *Policy) {
	p.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"no": "where"}}
}

func originOf(name string) *Origin { return &Origin{Policy: name} }

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
		"no label and no policy":                                             {nil, "", nil, Release, "", ""},
		"the label without a policy":                                         {nil, "true", nil, Protect, "", ""},
		"the label was removed":                                              {nil, "", &Origin{}, Release, "", ""},
		"a policy":                                                           {[]*Policy{testPolicy("web", nil)}, "", nil, Protect, "ProtectionPolicy/web", ""},
		"a policy before the label":                                          {[]*Policy{testPolicy("web", nil)}, "true", nil, Protect, "ProtectionPolicy/web", ""},
		"opted out of a policy":                                              {[]*Policy{testPolicy("web", nil)}, "false", originOf("ProtectionPolicy/web"), Release, "", ""},
		"opted out of a policy that vanished":                                {nil, "false", originOf("ProtectionPolicy/web"), Release, "", ""},
		"a policy without the finalizer":                                     {[]*Policy{testPolicy("web", func(p *Policy) { p.HasFinalizer = false })}, "true", nil, Protect, "", ""},
		"a policy of another namespace":                                      {[]*Policy{testPolicy("web", func(p *Policy) { p.Namespace = "bar" })}, "", nil, Release, "", ""},
		"a policy that is being deleted":                                     {[]*Policy{testPolicy("web", deleted)}, "true", nil, Protect, "", ""},
		"another policy replaces a deleted one":                              {[]*Policy{testPolicy("one", deleted), testPolicy("two", nil)}, "", originOf("ProtectionPolicy/one"), Protect, "ProtectionPolicy/two", ""},
		"another policy replaces one that no longer selects":                 {[]*Policy{testPolicy("one", selectOtherWorkloads), testPolicy("two", nil)}, "", originOf("ProtectionPolicy/one"), Protect, "ProtectionPolicy/two", ""},
		"no policy replaces one that vanished":                               {[]*Policy{testPolicy("two", nil)}, "", originOf("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyVanished},
		"the label does not replace a policy that vanished":                  {nil, "true", originOf("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyVanished},
		"a cluster policy of the same name does not replace it":              {[]*Policy{testPolicy("all", nil)}, "", originOf("ProtectionPolicy/all"), Retain, "ProtectionPolicy/all", v1alpha1.ReasonPolicyVanished},
		"a policy of the same name in another namespace does not replace it": {[]*Policy{testPolicy("one", func(p *Policy) { p.Namespace = "bar" })}, "", originOf("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyVanished},
		"deleted, and retains":                                               {[]*Policy{testPolicy("one", deleted)}, "", originOf("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyDeleted},
		"deleted, and releases":                                              {[]*Policy{testPolicy("one", both(deleted, releasing))}, "", originOf("ProtectionPolicy/one"), Release, "", v1alpha1.ReasonPolicyDeleted},
		"deleted with policy Release, and held by the brake":                 {nil, "", &Origin{Policy: "ProtectionPolicy/one", Removed: true, Record: Record{ProtectionRule: v1alpha1.ProtectionRule{TargetRemovalPolicy: v1alpha1.TargetRemovalRelease}}}, Release, "", v1alpha1.ReasonPolicyDeleted},
		"deleted with policy Retain, and retained":                           {nil, "", &Origin{Policy: "ProtectionPolicy/one", Removed: true}, Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyDeleted},
		"the label replaces a deleted policy":                                {nil, "true", &Origin{Policy: "ProtectionPolicy/one", Removed: true}, Protect, "", ""},
		"no longer selects, and retains":                                     {[]*Policy{testPolicy("one", selectOtherWorkloads)}, "", originOf("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyLeft},
		"no longer selects, and releases":                                    {[]*Policy{testPolicy("one", both(selectOtherWorkloads, releasing))}, "", originOf("ProtectionPolicy/one"), Release, "", v1alpha1.ReasonPolicyLeft},
		"created again, and without the finalizer":                           {[]*Policy{testPolicy("one", both(releasing, func(p *Policy) { p.HasFinalizer = false }))}, "", originOf("ProtectionPolicy/one"), Retain, "ProtectionPolicy/one", v1alpha1.ReasonPolicyLeft},
	} {
		t.Run(claim, func(t *testing.T) {
			SortByPrecedence(c.policies)
			labels := map[string]string{v1alpha1.LabelProtect: c.label}
			got := Choose(c.policies, Candidate{Ref: deploymentRef("web"), Labels: labels}, c.label == "true", c.last)
			if got.Verdict != c.want || got.Origin.Policy != c.wantBy || got.Reason != c.reason || (got.Message == "") != (c.want == Protect) {
				t.Errorf("Choose() = %+v, want %s by %q, reason %q", got, c.want, c.wantBy, c.reason)
			}
		})
	}
}

// The deletion of a policy may be part of a cascade, whatever takes its place.
func TestChoiceNamesDeletedPolicy(t *testing.T) {
	owner := []metav1.OwnerReference{{Kind: "Application", Name: "shop"}}
	deleted := testPolicy("one", func(p *Policy) {
		p.Deleted, p.OwnerReferences, p.Spec.TargetRemovalPolicy = true, owner, v1alpha1.TargetRemovalRelease
	})
	last := *originOf("ProtectionPolicy/one")
	last.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	removed, ofCluster := last, *originOf("ClusterProtectionPolicy/all")
	removed.Removed, ofCluster.Removed, ofCluster.TargetRemovalPolicy = true, true, v1alpha1.TargetRemovalRelease
	for claim, c := range map[string]struct {
		policies []*Policy
		label    string
		last     Origin
		want     metav1.Object
	}{
		"it is released":                      {[]*Policy{deleted}, "", last, &metav1.ObjectMeta{Namespace: "shop", Name: "one", OwnerReferences: owner}},
		"another policy takes its place":      {[]*Policy{deleted, testPolicy("two", nil)}, "", last, &metav1.ObjectMeta{Namespace: "shop", Name: "one", OwnerReferences: owner}},
		"the label takes its place":           {[]*Policy{deleted}, "true", last, &metav1.ObjectMeta{Namespace: "shop", Name: "one", OwnerReferences: owner}},
		"it does not exist any more":          {nil, "", removed, &metav1.ObjectMeta{Namespace: "shop", Name: "one"}},
		"a policy of the cluster was deleted": {nil, "", ofCluster, &metav1.ObjectMeta{Name: "all"}},
		"a user opts out":                     {[]*Policy{deleted}, "false", last, nil},
		"it exists":                           {[]*Policy{testPolicy("one", nil)}, "", last, nil},
	} {
		got := Choose(c.policies, Candidate{Ref: deploymentRef("web"), Labels: map[string]string{v1alpha1.LabelProtect: c.label}}, c.label == "true", &c.last)
		if diff := cmp.Diff(c.want, got.Deleted); diff != "" {
			t.Errorf("%s: Choose() names another deleted policy (-want +got):\n%s", claim, diff)
		}
	}
}

func TestSortByPrecedence(t *testing.T) {
	older, high := func(p *Policy) { p.Created = time.Unix(50, 0) }, func(p *Policy) { p.Spec.Priority = 3 }
	want := []*Policy{testPolicy("z-high", high), testPolicy("y-older", older), testPolicy("a-name", nil), testPolicy("b-name", nil), testPolicy("all-high", high), testPolicy("all-low", nil)}
	rapid.Check(t, func(t *rapid.T) {
		got := rapid.Permutation(want).Draw(t, "order")
		SortByPrecedence(got)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("policy at index %d = %s, want %s", i, got[i], want[i])
			}
		}
	})
}

// A workload that had protectors by a policy is never released without an intended change (an opt-out, or an existing policy that
// says Release).
func TestChooseNeverReleasesAfterAnAccident(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var policies []*Policy
		for _, name := range []string{"one", "two", "all"} {
			if !rapid.Bool().Draw(t, name) {
				continue
			}
			policies = append(policies, testPolicy(name, func(p *Policy) {
				p.Deleted, p.HasFinalizer = rapid.Bool().Draw(t, "deleted"), rapid.Bool().Draw(t, "held")
				if rapid.Bool().Draw(t, "elsewhere") {
					selectOtherWorkloads(p)
				}
				if name != "one" && rapid.Bool().Draw(t, "releases") {
					p.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
				}
			}))
		}
		SortByPrecedence(policies)
		last := &Origin{Policy: "ProtectionPolicy/one", Removed: rapid.Bool().Draw(t, "removed")}
		optedIn := rapid.Bool().Draw(t, "opted in")
		got := Choose(policies, Candidate{Ref: deploymentRef("web")}, optedIn, last)
		there := policyOf(policies, last, "shop") != nil
		switch {
		case got.Verdict == Release:
			t.Fatal("released")
		case !there && !last.Removed && (got.Verdict != Retain || got.Origin.Policy != last.Policy):
			t.Fatalf("Choose() after the policy vanished = %+v, want Retain", got)
		}
	})
}

func TestPolicySelects(t *testing.T) {
	c := Candidate{Ref: deploymentRef("web"), Labels: map[string]string{"team": "shop"}, NamespaceLabels: map[string]string{"env": "prod"}}
	expression := func(key string, operator metav1.LabelSelectorOperator) *v1alpha1.PodSelector {
		return &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: key, Operator: operator}}}
	}
	for claim, tc := range map[string]struct {
		policy *Policy
		want   bool
	}{
		"its kind":                        {testPolicy("web", nil), true},
		"its kind, in another version":    {testPolicy("web", func(p *Policy) { p.Spec.Workloads.Kinds[0].APIVersion = "apps/v2" }), true},
		"another group's kind":            {testPolicy("web", func(p *Policy) { p.Spec.Workloads.Kinds[0].APIVersion = "example.com/v1" }), false},
		"another kind":                    {testPolicy("web", func(p *Policy) { p.Spec.Workloads.Kinds[0].Kind = "StatefulSet" }), false},
		"its labels":                      {testPolicy("web", func(p *Policy) { p.Spec.Workloads.Selector = expression("team", "Exists") }), true},
		"other labels":                    {testPolicy("web", func(p *Policy) { p.Spec.Workloads.Selector = expression("team", "DoesNotExist") }), false},
		"a selector that is malformed":    {testPolicy("web", func(p *Policy) { p.Spec.Workloads.Selector = expression("team", "In") }), false},
		"its namespace":                   {testPolicy("all", func(p *Policy) { p.Namespaces = expression("env", "Exists") }), true},
		"a namespace with other labels":   {testPolicy("all", func(p *Policy) { p.Namespaces = expression("env", "DoesNotExist") }), false},
		"all namespaces":                  {testPolicy("all", nil), true},
		"only those of another namespace": {testPolicy("web", func(p *Policy) { p.Namespace = "bar" }), false},
		"empty selectors select all": {testPolicy("all", func(p *Policy) {
			p.Namespaces, p.Spec.Workloads.Selector = &v1alpha1.PodSelector{}, &v1alpha1.PodSelector{}
		}), true},
	} {
		t.Run(claim, func(t *testing.T) {
			if got := tc.policy.Selects(c); got != tc.want {
				t.Errorf("Selects() = %v, want %v", got, tc.want)
			}
		})
	}
}
