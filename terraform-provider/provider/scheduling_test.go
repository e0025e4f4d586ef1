package provider_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// sharedScheduling is a policy to which Terraform and other field managers add fields.
type sharedScheduling struct {
	*terraform.Dir
	client    client.Client
	namespace string
}

// apply applies the policy with Terraform, with additional fields.
func (s *sharedScheduling) apply(more string) {
	s.Helper()
	s.Write("policy.tf", fmt.Sprintf("resource \"breakwater_pod_scheduling_policy\" \"it\" {\n  namespace = %q\n  name = \"it\"\n"+
		"  pod_selector = { match_labels = {} }\n  node_selector = { pool = \"web\" }\n  %s\n}\n", s.namespace, more))
	s.Run("apply", "-auto-approve")
	s.unchanged()
}

func (s *sharedScheduling) unchanged() {
	s.Helper()
	if out, err := s.Try("plan", "-detailed-exitcode"); err != nil {
		s.Fatalf("the plan is not empty: %v\n%s", err, out)
	}
}

// applyAsOther applies the spec as another field manager.
func (s *sharedScheduling) applyAsOther(spec string) {
	s.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte("{spec: {"+spec+"}}"), &object.Object); err != nil {
		s.Fatal(err)
	}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodSchedulingPolicy"))
	object.SetNamespace(s.namespace)
	object.SetName("it")
	if err := s.client.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl")); err != nil {
		s.Fatal(err)
	}
}

// wantConstraints checks that the policy has the fields of the other managers, and exactly these constraints.
func (s *sharedScheduling) wantConstraints(constraints ...v1alpha1.TopologySpreadConstraint) {
	s.Helper()
	live := &v1alpha1.PodSchedulingPolicy{}
	if err := s.client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "it"}, live); err != nil {
		s.Fatal(err)
	}
	want := v1alpha1.SchedulingCriteria{
		NodeSelector: v1alpha1.NodeLabels{"pool": "web", "spot": "true"},
		Affinity: &v1alpha1.Affinity{NodeAffinity: &v1alpha1.NodeAffinity{Required: &v1alpha1.NodeSelector{Terms: []v1alpha1.NodeSelectorTerm{
			{MatchExpressions: []v1alpha1.NodeLabelRequirement{{Key: "gpu", Operator: "DoesNotExist"}}}}}}},
		TopologySpreadConstraints: constraints,
	}
	byKind := cmpopts.SortSlices(func(a, b v1alpha1.TopologySpreadConstraint) bool { return a.WhenUnsatisfiable < b.WhenUnsatisfiable })
	if diff := cmp.Diff(want, live.Spec.SchedulingCriteria, byKind); diff != "" {
		s.Errorf("constraints of the policy (-want +got):\n%s", diff)
	}
	if targets := live.Spec.Targets; len(targets) != 2 {
		s.Errorf("targets = %v, want both", targets)
	}
}

func TestSchedulingElementsOfOtherManagersStay(t *testing.T) {
	const constraint = `topology_spread_constraints = [{ max_skew = %d, topology_key = "zone", when_unsatisfiable = "ScheduleAnyway" }]`
	forEachProgram(t, func(t *testing.T) {
		s := &sharedScheduling{Dir: workingDir(t, configured(t, "")), client: testplane.Client(t), namespace: testplane.Namespace(t)}
		s.apply(fmt.Sprintf(constraint, 1))
		s.applyAsOther(`targets: [PodTemplates], nodeSelector: {spot: "true"}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
			{nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: DoesNotExist}]}]}}},
			topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`)
		s.unchanged()

		theirs := v1alpha1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "DoNotSchedule"}
		s.apply(fmt.Sprintf(constraint, 2))
		s.wantConstraints(theirs, v1alpha1.TopologySpreadConstraint{MaxSkew: 2, TopologyKey: "zone", WhenUnsatisfiable: "ScheduleAnyway"})
		s.apply("")
		s.wantConstraints(theirs)
	})
}
