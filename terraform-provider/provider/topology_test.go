package provider_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// cell creates a Cell whose aggregator has just reported. The Cell exists until the test ends.
func cell(t *testing.T, name string, change func(*v1alpha1.Cell)) *v1alpha1.Cell {
	t.Helper()
	c := testplane.Client(t)
	made := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	made.Status = v1alpha1.CellStatus{
		Aggregator: v1alpha1.CellAggregator{Holder: "aggregator-0", Epoch: 7, LastHeartbeat: &metav1.MicroTime{Time: time.Now()}},
		Pods:       12, Protectors: 3,
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Aggregating"},
			{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: "Connected"},
			{Type: v1alpha1.ConditionAggregationFresh, Status: metav1.ConditionTrue, Reason: "HeartbeatSeen"},
			{Type: v1alpha1.ConditionGuarded, Status: metav1.ConditionTrue, Reason: "WebhookConfigured"},
		},
	}
	for i := range made.Status.Conditions {
		made.Status.Conditions[i].LastTransitionTime = metav1.Now()
	}
	if change != nil {
		change(made)
	}
	status := made.Status
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), made) })
	made.Status = status
	if err := c.Status().Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestTopology(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		heartbeat := time.Date(2026, 4, 5, 6, 7, 8, 9000, time.UTC)
		core, err := clusters.ClusterOf(t.Context(), kubernetes.NewForConfigOrDie(testplane.Config(t)))
		if err != nil {
			t.Fatal(err)
		}
		const it = "data.breakwater_topology.it"
		config := configured(t, `
data "breakwater_topology" "it" {
}
data "breakwater_cells" "all" {
}
data "breakwater_cells" "labeled" {
  label_selector = "zone=a"
}
`)
		is := func(path tfjsonpath.Path, value knownvalue.Check) statecheck.StateCheck {
			return statecheck.ExpectKnownValue(it, path, value)
		}
		at := tfjsonpath.New[string]
		steps(t,
			resource.TestStep{
				Config: config,
				ConfigStateChecks: []statecheck.StateCheck{
					is(at("healthy"), knownvalue.Bool(false)),
					is(at("problems"), knownvalue.ListExact([]knownvalue.Check{knownvalue.StringRegexp(matchText("The core has no Cells"))})),
					is(at("cells"), knownvalue.ListSizeExact(0)),
					is(at("core").AtMapKey("uid"), knownvalue.StringExact(core)),
					is(at("core").AtMapKey("server"), knownvalue.StringRegexp(matchText(`^https://127\.0\.0\.1:\d+/?$`))),
					is(at("core").AtMapKey("version"), knownvalue.StringRegexp(matchText(`^v1\.\d+\.`))),
				},
			},
			resource.TestStep{
				PreConfig: func() {
					cell(t, "worker-2", func(c *v1alpha1.Cell) {
						c.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: "breakwater-system", Name: "worker-2"}
						c.Status.Cluster, c.Status.Aggregator.LastHeartbeat = "cluster-uid", &metav1.MicroTime{Time: heartbeat}
					})
					cell(t, "worker-1", func(c *v1alpha1.Cell) {
						c.Labels = map[string]string{"zone": "a"}
						c.Spec.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"zone": "a"}}
					})
				},
				Config: config,
				ConfigStateChecks: []statecheck.StateCheck{
					is(at("healthy"), knownvalue.Bool(true)),
					is(at("problems"), knownvalue.ListSizeExact(0)),
					is(at("cells").AtSliceIndex(0), knownvalue.ObjectPartial(map[string]knownvalue.Check{
						"name": knownvalue.StringExact("worker-1"), "kubeconfig_secret_ref": knownvalue.Null(), "namespaces": knownvalue.Null(),
						"cluster_uid": knownvalue.Null(), "deleting": knownvalue.Bool(false), "messages": knownvalue.MapSizeExact(0),
						"pod_selector": knownvalue.ObjectPartial(map[string]knownvalue.Check{
							"match_labels": knownvalue.MapExact(map[string]knownvalue.Check{"zone": knownvalue.StringExact("a")}),
						}),
					})),
					is(at("cells").AtSliceIndex(1), knownvalue.ObjectPartial(map[string]knownvalue.Check{
						"name": knownvalue.StringExact("worker-2"), "ready": knownvalue.StringExact("True"), "connected": knownvalue.StringExact("True"),
						"aggregation_fresh": knownvalue.StringExact("True"), "guarded": knownvalue.StringExact("True"), "overlapping": knownvalue.StringExact("False"),
						"cluster_uid": knownvalue.StringExact("cluster-uid"),
						"kubeconfig_secret_ref": knownvalue.ObjectExact(map[string]knownvalue.Check{
							"namespace": knownvalue.StringExact("breakwater-system"), "name": knownvalue.StringExact("worker-2"), "key": knownvalue.StringExact("kubeconfig"),
							"allow_insecure": knownvalue.Null(), "allow_proxy": knownvalue.Null(),
						}),
					})),
					statecheck.ExpectKnownValue("data.breakwater_cells.all", at("cells"), knownvalue.ListSizeExact(2)),
					statecheck.ExpectKnownValue("data.breakwater_cells.labeled", at("cells").AtSliceIndex(0).AtMapKey("name"), knownvalue.StringExact("worker-1")),
					statecheck.ExpectKnownValue("data.breakwater_cells.labeled", at("cells"), knownvalue.ListSizeExact(1)),
				},
			},
			resource.TestStep{
				PreConfig: func() {
					cell(t, "worker-3", func(c *v1alpha1.Cell) {
						c.Status.Conditions[3].Status, c.Status.Conditions[3].Message = metav1.ConditionFalse, "No webhook leads to it."
					})
				},
				Config: config,
				ConfigStateChecks: []statecheck.StateCheck{
					is(at("healthy"), knownvalue.Bool(false)),
					is(at("problems"), knownvalue.ListExact([]knownvalue.Check{
						knownvalue.StringExact("Cell worker-3 is not guarded by the webhook: No webhook leads to it."),
					})),
					is(at("cells").AtSliceIndex(2).AtMapKey("messages"), knownvalue.MapExact(map[string]knownvalue.Check{
						"guarded": knownvalue.StringExact("No webhook leads to it."),
					})),
				},
			},
		)
	})
}

func TestTopologyWithoutPermissions(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		role := clusterRole(t, namespace, rbacv1.PolicyRule{APIGroups: []string{"breakwater.dev"}, Resources: []string{"cells"}, Verbs: []string{"list"}})
		reader := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "reader", role)
		const config = "data \"breakwater_topology\" \"it\" {\n}\n"
		steps(t,
			resource.TestStep{
				Config: configurationFor(t, reader) + config,
				ConfigStateChecks: []statecheck.StateCheck{
					statecheck.ExpectKnownValue("data.breakwater_topology.it", tfjsonpath.New("core").AtMapKey("uid"), knownvalue.Null()),
					statecheck.ExpectKnownValue("data.breakwater_topology.it", tfjsonpath.New("core").AtMapKey("version"), knownvalue.NotNull()),
				},
			},
			resource.TestStep{Config: configurationFor(t, unprivilegedUser(t, namespace)) + config, ExpectError: matchText("Cell could not be listed .* is forbidden")},
			resource.TestStep{Config: configurationFor(t, withoutCells(t)) + config, ExpectError: matchText("does not know the kind Cell")},
		)
	})
}
