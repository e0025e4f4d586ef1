package convert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

func TestPodDisruptionBudgets(t *testing.T) {
	const always = "EvictionsOnly OneCluster"
	wantConversions(t, "policy/v1", "PodDisruptionBudget", map[string]conversionCase{
		"a number": {
			given:    `{minAvailable: 2, selector: {matchLabels: {app: web}}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 2, selector: {matchLabels: {app: web}}}`,
			warnings: always + " UnhealthyPods",
		},
		"pods that are not ready may always be removed, in both": {
			given:    `{minAvailable: 2, selector: {matchLabels: {app: web}}, unhealthyPodEvictionPolicy: AlwaysAllow}`,
			want:     `{operations: [Delete, Evict], minAvailable: 2, selector: {matchLabels: {app: web}}}`,
			warnings: always,
		},
		"pods that are not ready may be removed if enough others are ready": {
			given:    `{minAvailable: 2, selector: {matchLabels: {app: web}}, unhealthyPodEvictionPolicy: IfHealthyBudget}`,
			want:     `{operations: [Delete, Evict], minAvailable: 2, selector: {matchLabels: {app: web}}}`,
			warnings: always + " UnhealthyPods",
		},
		"a percentage, and all operators": {
			given: `{maxUnavailable: 30%, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchExpressions: [{key: a, operator: In, values: [b, b]},
				{key: a, operator: NotIn, values: [c]}, {key: d, operator: Exists}, {key: e, operator: DoesNotExist}]}}`,
			want: `{operations: [Delete, Evict], maxUnavailable: 30%, selector: {matchExpressions: [{key: a, operator: In, values: [b, b]},
				{key: a, operator: NotIn, values: [c]}, {key: d, operator: Exists}, {key: e, operator: DoesNotExist}]}}`,
			warnings: always + " PercentageBase",
		},
		"a percentage with leading zeros": {
			given:    `{minAvailable: 0050%, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 50%, selector: {}}`,
			warnings: always + " PercentageBase",
		},
		"none may be unavailable": {
			given:    `{maxUnavailable: 0, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: web}}}`,
			want:     `{operations: [Delete, Evict], maxUnavailable: 0, selector: {matchLabels: {app: web}}}`,
			warnings: always + " NothingToSpare PercentageBase",
		},
		"all must be available": {
			given:    `{minAvailable: 100%, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: web}}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 100%, selector: {matchLabels: {app: web}}}`,
			warnings: always + " NothingToSpare PercentageBase",
		},
		"no floor denies everything, in both": {
			given:    `{unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {app: web}}}`,
			want:     `{operations: [Delete, Evict], maxUnavailable: 0, selector: {matchLabels: {app: web}}}`,
			warnings: always + " NothingToSpare NothingToSpare PercentageBase",
		},
		"the empty selector chooses all pods": {
			given:    `{minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 1, selector: {}}`,
			warnings: always,
		},
		"64 labels": {
			given:    `{minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {` + repeatFormat(64, "k%d: v, ") + `}}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 1, selector: {matchLabels: {` + repeatFormat(64, "k%d: v, ") + `}}}`,
			warnings: always,
		},
		"1000 values": {
			given:    `{minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchExpressions: [{key: a, operator: In, values: [` + repeatFormat(1000, "v%d, ") + `]}]}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 1, selector: {matchExpressions: [{key: a, operator: In, values: [` + repeatFormat(1000, "v%d, ") + `]}]}}`,
			warnings: always,
		},
		"a field of a later Kubernetes version": {
			given:    `{minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {}, fromTheFuture: 1}`,
			want:     `{operations: [Delete, Evict], minAvailable: 1, selector: {}}`,
			warnings: always + " Ignored",
		},
		"an object with a controller": {
			metadata: `ownerReferences: [{apiVersion: kafka.strimzi.io/v1, kind: Kafka, name: k, uid: u, controller: true}]`,
			given:    `{minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 1, selector: {}}`,
			warnings: "DoesNotFollow " + always,
		},
		"the primary of a database": {
			given:    `{minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {cluster: orders, role: primary}}}`,
			want:     `{operations: [Delete, Evict], minAvailable: 1, selector: {matchLabels: {cluster: orders, role: primary}}}`,
			warnings: always + " LabelsMove",
		},
		"no selector":                         {given: `{minAvailable: 1}`, warnings: "ProtectsNothing!"},
		"a selector that contradicts itself":  {given: `{minAvailable: 1, selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}}`, warnings: "ProtectsNothing!"},
		"the empty selector of v1beta1 in v1": {given: `{minAvailable: 1, selector: {matchExpressions: [{key: pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match, operator: Exists}]}}`, warnings: "ProtectsNothing!"},
		"65 labels":                           {given: `{minAvailable: 1, selector: {matchLabels: {` + repeatFormat(65, "k%d: v, ") + `}}}`, warnings: "NotPossible!"},
		"65 expressions":                      {given: `{minAvailable: 1, selector: {matchExpressions: [` + repeatFormat(65, "{key: k%d, operator: Exists}, ") + `]}}`, warnings: "NotPossible!"},
		"1001 values":                         {given: `{minAvailable: 1, selector: {matchExpressions: [{key: a, operator: In, values: [` + repeatFormat(1001, "v%d, ") + `]}]}}`, warnings: "NotPossible!"},
		"an invalid label":                    {given: `{minAvailable: 1, selector: {matchLabels: {a: "b c"}}}`, warnings: "Malformed!"},
		"an invalid operator":                 {given: `{minAvailable: 1, selector: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}}`, warnings: "Malformed!"},
		"both minAvailable and maxUnavailable": {
			given: `{minAvailable: 1, maxUnavailable: 1, selector: {matchLabels: {app: web}}}`, warnings: "Malformed!"},
		"a number below 0":        {given: `{minAvailable: -1, selector: {}}`, warnings: "Malformed!"},
		"more than 100%":          {given: `{minAvailable: 101%, selector: {}}`, warnings: "Malformed!"},
		"a number as text":        {given: `{minAvailable: "2", selector: {}}`, warnings: "Malformed!"},
		"a signed percentage":     {given: `{minAvailable: +5%, selector: {}}`, warnings: "Malformed!"},
		"a fraction of a pod":     {given: `{minAvailable: 1.5, selector: {}}`, warnings: "Malformed!"},
		"a number that overflows": {given: `{minAvailable: 3000000000, selector: {}}`, warnings: "Malformed!"},
		"an invalid spec":         {given: `text`, warnings: "Malformed!"},
		"an invalid selector":     {given: `{minAvailable: 1, selector: app=web}`, warnings: "Malformed!"},
	})
}

// Their webhooks never deny a removal there.
func TestBudgetsOfExemptNamespaces(t *testing.T) {
	for namespace, exempt := range map[string]bool{"kube-system": true, "kube-public": true, "kube-node-lease": true, "breakwater-system": true, "shop": false} {
		result := convert.Convert([]convert.Source{source(t, fmt.Sprintf("{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: dns, namespace: %s}, "+
			"spec: {minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow, selector: {matchLabels: {k8s-app: dns}}}}", namespace))})
		at := slices.IndexFunc(result.Warnings, func(w convert.Warning) bool { return w.Reason == convert.ExemptNamespace })
		if at >= 0 != exempt || len(result.Protectors) != 1 {
			t.Errorf("%s: %d protectors and warnings %v, want one protector and a warning that the namespace is exempt: %v", namespace, len(result.Protectors), result.Warnings, exempt)
		} else if exempt && !strings.Contains(result.Warnings[at].Message, "keep the PodDisruptionBudget") {
			t.Errorf("%s: warning %q, want advice to keep the budget", namespace, result.Warnings[at].Message)
		}
	}
}

func TestPodDisruptionBudgetsOfOtherVersions(t *testing.T) {
	for _, version := range []string{"policy/v1beta1", "policy/v2"} {
		wantConversions(t, version, "PodDisruptionBudget", map[string]conversionCase{
			version: {given: `{minAvailable: 2, selector: {matchLabels: {app: web}}}`, warnings: "Malformed!"},
		})
	}
}
