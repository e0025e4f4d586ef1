package scheduling_test

import (
	"encoding/json"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// testingT has the common methods of tests and benchmarks.
type testingT interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// jsonOf converts YAML in the format that users write.
func jsonOf(t testingT, text string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return raw
}

// policyOf returns a policy of namespace shop, which selects all pods unless the spec says otherwise. If its name begins with all, it
// is a cluster policy for all namespaces.
func policyOf(t testingT, name, spec string) *scheduling.Policy {
	t.Helper()
	var p *scheduling.Policy
	var err error
	if strings.HasPrefix(name, "all") {
		object := &v1alpha1.ClusterPodSchedulingPolicy{}
		object.Name, object.Spec.NamespaceSelector = name, &v1alpha1.PodSelector{}
		unmarshalStrict(t, jsonOf(t, spec), &object.Spec)
		setDefaultSelectors(&object.Spec.PodSchedulingPolicySpec)
		p, err = scheduling.Compile("core", object)
	} else {
		object := &v1alpha1.PodSchedulingPolicy{}
		object.Name, object.Namespace = name, "shop"
		unmarshalStrict(t, jsonOf(t, spec), &object.Spec)
		setDefaultSelectors(&object.Spec)
		p, err = scheduling.Compile("core", object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func unmarshalStrict(t testingT, raw []byte, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

func setDefaultSelectors(spec *v1alpha1.PodSchedulingPolicySpec) {
	if spec.PodSelector == nil && spec.ProtectorSelector == nil {
		spec.PodSelector = &v1alpha1.PodSelector{}
	}
	if len(spec.Targets) == 0 {
		spec.Targets = []v1alpha1.SchedulingTarget{v1alpha1.TargetPods}
	}
}

// podKind is the kind of pods.
func podKind() schema.GroupKind { return schema.GroupKind{Kind: "Pod"} }

// pod returns a pod of namespace shop with a spec.
func pod(t testingT, spec string) []byte {
	t.Helper()
	return jsonOf(t, `{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, labels: {app: web}}, spec: `+spec+`}`)
}

func readObject(t testingT, kind schema.GroupKind, update bool, raw []byte) *scheduling.Object {
	t.Helper()
	o, err := scheduling.Read(kind, update, raw)
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return o
}

// mergePolicies returns an object with policies added, and the result.
func mergePolicies(t testingT, kind schema.GroupKind, raw []byte, policies []*scheduling.Policy, protectors ...scheduling.Protector) ([]byte, scheduling.Result) {
	t.Helper()
	result, err := scheduling.Merge(readObject(t, kind, false, raw), policies, protectors)
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return applyPatch(t, raw, result.Patch), result
}

// applyPatch applies a patch as an API server does.
func applyPatch(t testingT, raw, patch []byte) []byte {
	t.Helper()
	if patch == nil {
		return raw
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatalf("%v in %s", err, patch)
	}
	after, err := decoded.Apply(raw)
	if err != nil {
		t.Fatalf("apply patch: %v: patch %s of %s", err, patch, raw)
	}
	return after
}

// valueOf parses JSON.
func valueOf(t testingT, raw []byte) map[string]any {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return value
}

// conflicts returns the fields with a conflict in any of the policies.
func conflicts(result scheduling.Result) (in []string) {
	for _, outcome := range result.Outcomes {
		for _, c := range outcome.Conflicts {
			in = append(in, c.Field)
		}
	}
	return in
}
