package provider_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// list lists objects of a kind and consumes take of them, or all if take is 0.
func (s *protocolClient) list(kind string, config values, limit int64, whole bool, take int) []tfprotov6.ListResourceResult {
	s.t.Helper()
	stream, err := s.ProviderServer.(tfprotov6.ListResourceServer).ListResource(s.t.Context(), &tfprotov6.ListResourceRequest{
		TypeName: kind, Config: s.object(s.schemas.ListResourceSchemas[kind], config), Limit: limit, IncludeResource: whole,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	var all []tfprotov6.ListResourceResult
	for result := range stream.Results {
		if all = append(all, result); len(all) == take {
			break
		}
	}
	return all
}

func shownNames(t *testing.T, all []tfprotov6.ListResourceResult) []string {
	t.Helper()
	list := make([]string, len(all))
	for i, result := range all {
		if len(result.Diagnostics) > 0 {
			t.Fatal(diagnosticText(result.Diagnostics))
		}
		list[i] = result.DisplayName
	}
	slices.Sort(list)
	return list
}

// oneOfEach returns one object of each kind, keyed by resource name.
func oneOfEach(namespace string) map[string]client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"team": "shop"}}
	wide := metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"team": "shop"}}
	rule := v1alpha1.ProtectionPolicySpec{ProtectionRule: v1alpha1.ProtectionRule{Floor: &v1alpha1.FloorRule{PodShare: v1alpha1.PodShare{MinAvailable: v1alpha1.Pods(2)}},
		ExemptPodSelector: &v1alpha1.PodSelector{}, LargeDecreases: &v1alpha1.DecreaseLimits{}}}
	scheduling := v1alpha1.PodSchedulingPolicySpec{PodSelector: &v1alpha1.PodSelector{}, SchedulingCriteria: v1alpha1.SchedulingCriteria{
		Tolerations: []v1alpha1.Toleration{{Key: "pool", Value: "web"}},
		TopologySpreadConstraints: []v1alpha1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: "ScheduleAnyway", LabelSelector: &v1alpha1.PodSelector{}}},
	}}
	return map[string]client.Object{
		"breakwater_pod_protector": &v1alpha1.PodProtector{ObjectMeta: meta, Spec: v1alpha1.PodProtectorSpec{
			Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: v1alpha1.Pods(3), MinReadySeconds: 7}},
		"breakwater_protection_policy":         &v1alpha1.ProtectionPolicy{ObjectMeta: meta, Spec: rule},
		"breakwater_cluster_protection_policy": &v1alpha1.ClusterProtectionPolicy{ObjectMeta: wide, Spec: v1alpha1.ClusterProtectionPolicySpec{ProtectionPolicySpec: rule}},
		"breakwater_cell":                      &v1alpha1.Cell{ObjectMeta: wide, Spec: v1alpha1.CellSpec{Namespaces: []string{"shop"}}},
		"breakwater_cluster_ring": &v1alpha1.ClusterRing{ObjectMeta: wide, Spec: v1alpha1.ClusterRingSpec{Resources: []v1alpha1.RingResource{{
			GroupResource: v1alpha1.GroupResource{Resource: "configmaps"}, ControlledResources: []v1alpha1.GroupResource{{Resource: "secrets"}}}}}},
		"breakwater_pod_scheduling_policy": &v1alpha1.PodSchedulingPolicy{ObjectMeta: meta, Spec: scheduling},
		"breakwater_cluster_pod_scheduling_policy": &v1alpha1.ClusterPodSchedulingPolicy{ObjectMeta: wide, Spec: v1alpha1.ClusterPodSchedulingPolicySpec{
			NamespaceSelector: &v1alpha1.PodSelector{}, PodSchedulingPolicySpec: scheduling}},
	}
}

func TestListMatchesImport(t *testing.T) {
	namespace := testplane.Namespace(t)
	objects := oneOfEach(namespace)
	s, c := newProtocolClientFor(t, testplane.Kubeconfig(t)), testplane.Client(t)
	for kind, object := range objects {
		t.Run(kind, func(t *testing.T) {
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
			config, id := values{"label_selector": stringArgument("team=shop")}, object.GetName()
			if object.GetNamespace() != "" {
				config["namespace"], id = stringArgument(namespace), namespace+"/web"
			}
			all := s.list(kind, config, 0, true, 0)
			if diff := cmp.Diff([]string{id}, shownNames(t, all)); diff != "" {
				t.Fatal(diff)
			}
			schema := s.schemas.ResourceSchemas[kind]
			imported, identity := s.imported(kind, id)
			if diff := cmp.Diff(imported, s.read(schema, all[0].Resource)); diff != "" {
				t.Errorf("import has another state than list: %s", diff)
			}
			if diff := cmp.Diff(identity.IdentityData, all[0].Identity.IdentityData); diff != "" {
				t.Errorf("import has another identity than list: %s", diff)
			}
			if bare := s.list(kind, config, 0, false, 0); bare[0].Resource != nil || bare[0].Identity == nil {
				t.Errorf("list without the resource = %+v", bare[0])
			}
		})
	}
}

// imported returns the state of an object after an import.
func (s *protocolClient) imported(kind, id string) (tftypes.Value, *tfprotov6.ResourceIdentityData) {
	s.t.Helper()
	taken, err := s.ImportResourceState(s.t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: kind, ID: id})
	if err != nil {
		s.t.Fatal(err)
	}
	s.wantNoDiagnostics(taken.Diagnostics)
	one := taken.ImportedResources[0]
	read, err := s.ReadResource(s.t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: kind, CurrentState: one.State, CurrentIdentity: one.Identity, Private: one.Private,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.wantNoDiagnostics(read.Diagnostics)
	return s.read(s.schemas.ResourceSchemas[kind], read.NewState), read.NewIdentity
}

func TestListStopsAtLimit(t *testing.T) {
	namespace := testplane.Namespace(t)
	createProtectors(t, namespace, 1200, map[string]string{"test": namespace})
	for name, c := range map[string]struct {
		limit       int64
		take        int
		want, pages int
		last        string
	}{
		"all":                    {0, 0, 1200, 3, "500"},
		"a few":                  {3, 0, 3, 1, "3"},
		"a page":                 {500, 0, 500, 1, "500"},
		"a page and one":         {501, 0, 501, 2, "1"},
		"more than exist":        {5000, 0, 1200, 3, "500"},
		"until the caller stops": {0, 7, 7, 1, "500"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := newRecordingProxy(t)
			s := newProtocolClientFor(t, kubeconfigOf(t, proxy.Config))
			got := s.list("breakwater_pod_protector", values{"label_selector": stringArgument("test=" + namespace)}, c.limit, false, c.take)
			if unique := slices.Compact(shownNames(t, got)); len(got) != c.want || len(unique) != c.want {
				t.Errorf("listed %d of %d", len(unique), len(got))
			}
			asked := proxy.queries("/podprotectors")
			if len(asked) != c.pages || asked[len(asked)-1].Get("limit") != c.last {
				t.Errorf("list sent %v", asked)
			}
		})
	}
}

func TestListErrors(t *testing.T) {
	namespace := testplane.Namespace(t)
	theirProtector(t, namespace, "web")
	const kind = "breakwater_pod_protector"
	for name, c := range map[string]struct {
		speaker *protocolClient
		kind    string
		want    string
	}{
		"forbidden":             {newProtocolClientFor(t, kubeconfigOf(t, unprivilegedUser(t, namespace))), kind, "PodProtector could not be listed: PodProtector objects: .* is forbidden"},
		"no cluster yet":        {newProtocolClientWithoutCluster(t), kind, "No cluster to list from yet: .* first apply the resources that create the cluster"},
		"no CRD in the cluster": {newProtocolClientFor(t, kubeconfigOf(t, withoutCells(t))), "breakwater_cell", "does not know the kind Cell"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.speaker.list(c.kind, nil, 0, true, 0)
			if len(got) != 1 || !matchText(c.want).MatchString(diagnosticText(got[0].Diagnostics)) {
				t.Errorf("list = %+v, want an error", got)
			}
		})
	}
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	resp, err := s.ProviderServer.(tfprotov6.ListResourceServer).ValidateListResourceConfig(t.Context(), &tfprotov6.ValidateListResourceConfigRequest{
		TypeName: kind, Config: s.object(s.schemas.ListResourceSchemas[kind], values{"label_selector": stringArgument("app in"), "namespace": stringArgument("Shop")}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Not a label selector", "must consist of lower-case letters"} {
		if !matchText(want).MatchString(diagnosticText(resp.Diagnostics)) {
			t.Errorf("validation of a wrong configuration: %s", diagnosticText(resp.Diagnostics))
		}
	}
}
