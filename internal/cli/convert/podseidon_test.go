package convert_test

import "testing"

func TestPodseidonProtectors(t *testing.T) {
	const web = `selector: {matchLabels: {app: web}}`
	wantConversions(t, "podseidon.kubewharf.io/v1alpha1", "PodProtector", map[string]conversionCase{
		"required fields only": {
			given: `{minAvailable: 7, minReadySeconds: 15, ` + web + `}`, want: `{minAvailable: 7, minReadySeconds: 15, ` + web + `}`,
		},
		"a floor of 0": {
			given: `{minAvailable: 0, minReadySeconds: 0, ` + web + `}`, want: `{minAvailable: 0, ` + web + `}`,
		},
		"all settings": {
			given: `{minAvailable: 7, ` + web + `, admissionHistoryConfig: {maxConcurrentLag: 5, compactThreshold: 100, aggregationRateMillis: 2000}}`,
			want:  `{minAvailable: 7, ` + web + `, admissionHistory: {maxConcurrentLag: 5, compactThreshold: 100, aggregationRateMillis: 2000}}`,
		},
		"zero differs from an omitted field": {
			given: `{minAvailable: 7, ` + web + `, admissionHistoryConfig: {maxConcurrentLag: 0, compactThreshold: 0, aggregationRateMillis: 0}}`,
			want:  `{minAvailable: 7, ` + web + `, admissionHistory: {compactThreshold: 0, aggregationRateMillis: 0}}`,
		},
		"numbers out of range": {
			given:    `{minAvailable: 7, minReadySeconds: -5, ` + web + `, admissionHistoryConfig: {maxConcurrentLag: -1, compactThreshold: 1001, aggregationRateMillis: 3600001}}`,
			want:     `{minAvailable: 7, ` + web + `, admissionHistory: {compactThreshold: 1000, aggregationRateMillis: 3600000}}`,
			warnings: "OutOfRange OutOfRange OutOfRange",
		},
		"more pods are counted than protected": {
			given: `{minAvailable: 7, selector: {matchLabels: {app: web, tier: front}}, aggregationSelector: {matchLabels: {app: web}}}`,
			want:  `{minAvailable: 7, selector: {matchLabels: {app: web, tier: front}}, aggregationSelector: {matchLabels: {app: web}}}`,
		},
		"fewer pods are counted than protected": {
			given: `{minAvailable: 7, ` + web + `, aggregationSelector: {matchLabels: {app: web, tier: front}}}`, warnings: "NotPossible!",
		},
		"an invalid aggregationSelector": {
			given: `{minAvailable: 7, ` + web + `, aggregationSelector: {matchLabels: {app: "a b"}}}`, warnings: "Malformed!",
		},
		"a duplicate key": {
			given: `{minAvailable: 7, selector: {matchExpressions: [{key: a, operator: In, values: [a, a]}, {key: a, operator: Exists}]}}`,
			want:  `{minAvailable: 7, selector: {matchExpressions: [{key: a, operator: In, values: [a, a]}, {key: a, operator: Exists}]}}`,
		},
		"a protector of its generator": {
			metadata: `finalizers: [podseidon.kubewharf.io/generator], labels: {podseidon.kubewharf.io/source-name: web, podseidon.kubewharf.io/source-kind: Deployment}`,
			given:    `{minAvailable: 7, ` + web + `}`, want: `{minAvailable: 7, ` + web + `}`, warnings: "DoesNotFollow",
		},
		"no floor":         {given: `{` + web + `}`, warnings: "Malformed!"},
		"a floor below 0":  {given: `{minAvailable: -1, ` + web + `}`, warnings: "Malformed!"},
		"a percentage":     {given: `{minAvailable: 50%, ` + web + `}`, warnings: "Malformed!"},
		"no selector":      {given: `{minAvailable: 7}`, warnings: "Malformed!"},
		"no pod can match": {given: `{minAvailable: 7, selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: NotIn, values: [b]}]}}`, warnings: "ProtectsNothing!"},
	})
}
