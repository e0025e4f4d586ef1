package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestProtectionPolicyValidation(t *testing.T) {
	c, namespace := testplane.Client(t), testplane.Namespace(t)
	for claim, tc := range map[string]struct{ spec, denial string }{
		"an empty spec selects Deployments and StatefulSets with their strategies": {`{}`, ""},
		"all fields": {`{workloads: {kinds: [{apiVersion: argoproj.io/v1alpha1, kind: Rollout}, {apiVersion: v1, kind: ReplicationController}],
			selector: {matchLabels: {team: shop}}}, priority: 5, minReadySeconds: 3, criterion: Ready, operations: [Delete],
			exemptPodSelector: {matchLabels: {a: b}}, admissionHistory: {maxConcurrentLag: 5}, targetRemovalPolicy: Release, coreOutage: LocalShare,
			floor: {bands: [{upToReplicas: 3, maxUnavailable: 1}, {upToReplicas: 10, minAvailable: 50%}, {minAvailable: 70%}]}}`, ""},
		"a template":                 {`{workloads: {kinds: [{apiVersion: types.kubefed.io/v1beta1, kind: FederatedDeployment, templatePath: spec.template}]}}`, ""},
		"the strategy":               {`{floor: {fromStrategy: {}}}`, ""},
		"an empty floor":             {`{floor: {}}`, "give one of"},
		"two floors":                 {`{floor: {minAvailable: 1, fromStrategy: {}}}`, "give one of"},
		"a floor of 101 %":           {`{floor: {minAvailable: 101%}}`, "0% to 100%"},
		"a floor below 0":            {`{floor: {maxUnavailable: -1}}`, "0% to 100%"},
		"a band with two":            {`{floor: {bands: [{minAvailable: 1, maxUnavailable: 1}]}}`, "give either minAvailable or maxUnavailable"},
		"no open band":               {`{floor: {bands: [{upToReplicas: 3, minAvailable: 1}]}}`, "the last band, and no other"},
		"an open band in the middle": {`{floor: {bands: [{minAvailable: 1}, {upToReplicas: 3, minAvailable: 1}]}}`, "the last band, and no other"},
		"two open bands":             {`{floor: {bands: [{minAvailable: 1}, {minAvailable: 1}]}}`, "the last band, and no other"},
		"descending bands":           {`{floor: {bands: [{upToReplicas: 5, minAvailable: 1}, {upToReplicas: 3, minAvailable: 1}, {minAvailable: 1}]}}`, "must rise"},
		"equal bands":                {`{floor: {bands: [{upToReplicas: 5, minAvailable: 1}, {upToReplicas: 5, minAvailable: 1}, {minAvailable: 1}]}}`, "must rise"},
		"one kind in two versions":   {`{workloads: {kinds: [{apiVersion: a.io/v1, kind: A}, {apiVersion: a.io/v2, kind: A}]}}`, "may be named once"},
		"no kinds":                   {`{workloads: {kinds: []}}`, "at least 1 items"},
		"an invalid path":            {`{workloads: {kinds: [{apiVersion: a.io/v1, kind: A, templatePath: "spec..b"}]}}`, "templatePath"},
		"an invalid selector":        {`{workloads: {selector: {matchExpressions: [{key: a, operator: In}]}}}`, "values must hold at least one"},
		"an unknown operation":       {`{operations: [Scale]}`, "Unsupported value"},
		"an unknown criterion":       {`{criterion: Fine}`, "Unsupported value"},
		"an unknown coreOutage":      {`{coreOutage: Allow}`, "Unsupported value"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantVerdict(t, c, object(t, "ProtectionPolicy", namespace, `{spec: `+tc.spec+`}`), tc.denial)
			cluster := strings.Replace(tc.spec, "{", "{namespaceSelector: {matchLabels: {a: b}}, ", 1)
			wantVerdict(t, c, object(t, "ClusterProtectionPolicy", "", `{spec: `+cluster+`}`), tc.denial)
		})
	}
}

func TestProtectionPolicyHasNoOtherDefaults(t *testing.T) {
	c := testplane.Client(t)
	u := object(t, "ProtectionPolicy", testplane.Namespace(t), `{spec: {admissionHistory: {maxConcurrentLag: 1}}}`)
	if err := c.Create(t.Context(), u, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"criterion", "operations", "targetRemovalPolicy", "minReadySeconds", "floor", "coreOutage"} {
		if value, there, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", field); there {
			t.Errorf("spec.%s = %v, want no default", field, value)
		}
	}
	if tuned, _, _ := unstructured.NestedMap(u.Object, "spec", "admissionHistory"); len(tuned) != 1 {
		t.Errorf("spec.admissionHistory = %v, want the given value", tuned)
	}
	if kinds, _, _ := unstructured.NestedSlice(u.Object, "spec", "workloads", "kinds"); len(kinds) != 2 {
		t.Errorf("spec.workloads.kinds = %v, want Deployment and StatefulSet", kinds)
	}
}
