package status_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

func TestGapsOf(t *testing.T) {
	type c = metav1.Condition
	guarded, matched := v1alpha1.ConditionGuarded, v1alpha1.ConditionPodsMatched
	for claim, test := range map[string]struct {
		conditions []metav1.Condition
		want       []status.Gap
	}{
		"no condition":                     {nil, nil},
		"guarded again, and with pods":     {[]c{{Type: guarded, Status: "True"}, {Type: matched, Status: "True"}}, nil},
		"unguarded":                        {[]c{{Type: guarded, Status: "False"}}, []status.Gap{status.GapUnguarded}},
		"unknown whether it is guarded":    {[]c{{Type: guarded, Status: "Unknown"}}, []status.Gap{status.GapGuardUnknown}},
		"no pod":                           {[]c{{Type: matched, Status: "False", Reason: v1alpha1.ReasonNoPodMatches}}, []status.Gap{status.GapNoPods}},
		"scaled to 0":                      {[]c{{Type: matched, Status: "False", Reason: v1alpha1.ReasonScaledToZero}}, []status.Gap{status.GapScaledToZero}},
		"unguarded, and without pods, too": {[]c{{Type: matched, Status: "False"}, {Type: guarded, Status: "False"}}, []status.Gap{status.GapUnguarded, status.GapNoPods}},
		"a misspelt annotation":            {[]c{{Type: v1alpha1.ConditionTargetResolved, Status: "True", Reason: v1alpha1.ReasonUnknownKey}}, []status.Gap{status.GapMisspelt}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := &v1alpha1.PodProtector{}
			p.Status.Conditions = test.conditions
			if got := status.GapsOf(p); !slices.Equal(got, test.want) {
				t.Errorf("GapsOf() = %v, want %v", got, test.want)
			}
		})
	}
}
