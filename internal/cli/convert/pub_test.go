package convert_test

import (
	"fmt"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestPodUnavailableBudgets(t *testing.T) {
	const (
		web   = `selector: {matchLabels: {app: web}}`
		all   = `operations: [Delete, Evict, Update]`
		based = "OneCluster PercentageBase Retained"
	)
	tests := map[string]conversionCase{
		"a number": {
			given: `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, ` + all + `}`, warnings: "OneCluster",
		},
		"a number that may be unavailable": {
			given: `{maxUnavailable: 1, ` + web + `}`, want: `{maxUnavailable: 1, ` + web + `, ` + all + `}`, warnings: based,
		},
		"maxUnavailable takes precedence over minAvailable": {
			given: `{maxUnavailable: 1, minAvailable: 50%, ` + web + `}`, want: `{maxUnavailable: 1, ` + web + `, ` + all + `}`, warnings: "Ignored " + based,
		},
		"a workload": {
			given:    `{minAvailable: 2, targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}`,
			want:     `{minAvailable: 2, targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}, ` + all + `}`,
			warnings: "OneCluster Retained",
		},
		"a workload takes precedence over a selector": {
			given:    `{maxUnavailable: 20%, ` + web + `, targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web}}`,
			want:     `{maxUnavailable: 20%, targetRef: {apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, name: web}, ` + all + `}`,
			warnings: "Ignored " + based,
		},
		"only evictions": {
			metadata: `annotations: {kruise.io/pub-protect-operations: EVICT}`,
			given:    `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, operations: [Evict]}`, warnings: "OneCluster",
		},
		"all operations, one of them twice": {
			metadata: `annotations: {kruise.io/pub-protect-operations: "RESIZE,UPDATE, EVICT,DELETE,DELETE,"}`,
			given:    `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, operations: [Delete, Evict, Resize, Update]}`, warnings: "OneCluster",
		},
		"no annotation that says something": {
			metadata: `annotations: {kruise.io/pub-protect-operations: "", pub.kruise.io/protect-total-replicas: ""}`,
			given:    `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, ` + all + `}`, warnings: "OneCluster",
		},
		"an unknown operation": {
			metadata: `annotations: {kruise.io/pub-protect-operations: "DELETE,RESTART"}`,
			given:    `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, operations: [Delete]}`, warnings: "Ignored OneCluster",
		},
		"no known operation": {
			metadata: `annotations: {kruise.io/pub-protect-operations: RESTART}`,
			given:    `{minAvailable: 2, ` + web + `}`, warnings: "ProtectsNothing!",
		},
		"expected replicas": {
			metadata: `annotations: {pub.kruise.io/protect-total-replicas: "15", note: mine}`,
			given:    `{maxUnavailable: 30%, ` + web + `}`, want: `{maxUnavailable: 30%, ` + web + `, expectedReplicas: 15, ` + all + `}`, warnings: "OneCluster",
		},
		"an invalid number of expected pods": {
			metadata: `annotations: {pub.kruise.io/protect-total-replicas: many}`,
			given:    `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, ` + all + `}`, warnings: "Ignored OneCluster",
		},
		"a number of expected pods below 0": {
			metadata: `annotations: {pub.kruise.io/protect-total-replicas: "-3"}`,
			given:    `{minAvailable: 2, ` + web + `}`, want: `{minAvailable: 2, ` + web + `, ` + all + `}`, warnings: "Ignored OneCluster",
		},
		"groups of pods":                     {given: `{minAvailable: 2, ` + web + `, podGroupPolicy: {groupLabelKey: group}}`, warnings: "NotPossible!"},
		"neither selector nor targetRef":     {given: `{minAvailable: 2}`, warnings: "ProtectsNothing!"},
		"no floor":                           {given: `{` + web + `}`, warnings: "ProtectsNothing!"},
		"an empty selector":                  {given: `{minAvailable: 2, selector: {}}`, warnings: "Malformed!"},
		"a selector that contradicts itself": {given: `{minAvailable: 1, selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}}`, warnings: "ProtectsNothing!"},
		"a workload without a version":       {given: `{minAvailable: 2, targetRef: {kind: Deployment, name: web}}`, warnings: "Malformed!"},
		"a workload of no kind":              {given: `{minAvailable: 2, targetRef: {apiVersion: apps/v1, kind: deployments, name: web}}`, warnings: "Malformed!"},
		"a workload of three groups":         {given: `{minAvailable: 2, targetRef: {apiVersion: a/b/v1, kind: Deployment, name: web}}`, warnings: "Malformed!"},
		"65 labels":                          {given: `{minAvailable: 1, selector: {matchLabels: {` + repeatFormat(65, "k%d: v, ") + `}}}`, warnings: "NotPossible!"},
	}
	wantConversions(t, "policy.kruise.io/v1alpha1", "PodUnavailableBudget", tests)
}

func TestPodUnavailableBudgetsOfV1beta1(t *testing.T) {
	const web = `selector: {matchLabels: {app: web}}`
	wantConversions(t, "policy.kruise.io/v1beta1", "PodUnavailableBudget", map[string]conversionCase{
		"fields in the place of annotations": {
			given:    `{maxUnavailable: 1, ` + web + `, protectOperations: [RESIZE, DELETE], protectTotalReplicas: 9, ignoredPodSelector: {matchLabels: {job: batch}}}`,
			want:     `{maxUnavailable: 1, ` + web + `, operations: [Delete, Resize], expectedReplicas: 9, exemptPodSelector: {matchLabels: {job: batch}}}`,
			warnings: "ExemptNotCounted OneCluster",
		},
		"fields before annotations": {
			metadata: `annotations: {kruise.io/pub-protect-operations: EVICT, pub.kruise.io/protect-total-replicas: "15"}`,
			given:    `{maxUnavailable: 1, ` + web + `, protectOperations: [DELETE], protectTotalReplicas: 9}`,
			want:     `{maxUnavailable: 1, ` + web + `, operations: [Delete], expectedReplicas: 9}`,
			warnings: "OneCluster",
		},
		"annotations where fields are missing": {
			metadata: `annotations: {kruise.io/pub-protect-operations: EVICT, pub.kruise.io/protect-total-replicas: "15"}`,
			given:    `{maxUnavailable: 1, ` + web + `}`,
			want:     `{maxUnavailable: 1, ` + web + `, operations: [Evict], expectedReplicas: 15}`,
			warnings: "OneCluster",
		},
		"the empty ignoredPodSelector exempts no pod": {
			given:    `{minAvailable: 1, ` + web + `, ignoredPodSelector: {}}`,
			want:     `{minAvailable: 1, ` + web + `, operations: [Delete, Evict, Update]}`,
			warnings: "OneCluster",
		},
		"an invalid ignoredPodSelector": {given: `{minAvailable: 1, ` + web + `, ignoredPodSelector: {matchLabels: {a: "b c"}}}`, warnings: "Malformed!"},
	})
}

// Test vectors of OpenKruise: the required number of available pods for an expected number.
func TestFloorsMatchOpenKruise(t *testing.T) {
	for claim, test := range map[string]struct {
		amount         string
		expected, want int
	}{
		"30% may be unavailable":    {"maxUnavailable: 30%", 10, 7},
		"30% of 15":                 {"maxUnavailable: 30%", 15, 10},
		"10% of 15":                 {"maxUnavailable: 10%", 15, 13},
		"none may be unavailable":   {"maxUnavailable: 0%", 10, 10},
		"all may be unavailable":    {"maxUnavailable: 100%", 10, 0},
		"more than there are":       {"maxUnavailable: 100", 10, 0},
		"a number is not clamped":   {"minAvailable: 100", 10, 100},
		"half must be available":    {"minAvailable: 50%", 10, 5},
		"80% must be available":     {"minAvailable: 80%", 10, 8},
		"30% of 100":                {"maxUnavailable: 30%", 100, 70},
		"half of 5 is more than it": {"minAvailable: 50%", 5, 3},
	} {
		t.Run(claim, func(t *testing.T) {
			result := convert.Convert([]convert.Source{source(t, fmt.Sprintf(`{apiVersion: policy.kruise.io/v1beta1, kind: PodUnavailableBudget,
				metadata: {name: web}, spec: {%s, protectTotalReplicas: %d, selector: {matchLabels: {app: web}}}}`, test.amount, test.expected))})
			if len(result.Protectors) != 1 {
				t.Fatalf("not converted: %v", result.Warnings)
			}
			if floor, known := quota.Floor(&result.Protectors[0].PodProtector); floor != test.want || !known {
				t.Errorf("floor %d (known: %v), want %d", floor, known, test.want)
			}
		})
	}
}
