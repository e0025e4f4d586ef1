package provider_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// theirProtector creates a protector as another client, not as Terraform.
func theirProtector(t *testing.T, namespace, name string, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	t.Helper()
	p := &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.PodProtectorSpec{
			Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}, MinAvailable: v1alpha1.Pods(3),
		},
	}
	for _, c := range change {
		c(p)
	}
	client := testplane.Client(t)
	status := p.Status
	if err := client.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Finalizers = nil
		_ = client.Update(context.Background(), p)
		_ = client.Delete(context.Background(), p)
	})
	if len(status.Cells)+len(status.Conditions) == 0 {
		return p
	}
	p.Status = status
	if err := client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// countedIn returns the status of a protector whose pods are counted in a cell, with two open reservations.
func countedIn(cell string) v1alpha1.PodProtectorStatus {
	at := metav1.MicroTime{Time: time.Date(2026, 4, 5, 6, 7, 8, 123456000, time.UTC)}
	return v1alpha1.PodProtectorStatus{
		ObservedGeneration: 1, DesiredAvailable: 3, DisruptionsAllowed: 5,
		Summary: v1alpha1.Summary{Total: 10, Available: 10, Reserved: 2, EstimatedAvailable: 8, Ready: 10, Running: 10, Scheduled: 10},
		Cells: []v1alpha1.PodProtectorCell{{
			CellID: cell,
			Aggregation: v1alpha1.Aggregation{
				TotalReplicas: 10, AvailableReplicas: 10, CountedReplicas: 10, CountedSpec: "abc", SnapshotVersion: "77", LastEventTime: at, Epoch: 4, Holder: "aggregator-0",
			},
			AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{
				{StartTime: at, Counter: 1, PodUID: "u-1", PodName: "web-1", Operation: v1alpha1.OperationEvict},
				{StartTime: at, EndTime: &at, Counter: 1, PodUIDHashes: []byte("8 bytes.")},
			}},
		}},
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAggregated, Message: "Counted.", LastTransitionTime: metav1.NewTime(at.Time),
		}},
	}
}

func TestDataSourceReadsProtectorWithStatus(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		made := theirProtector(t, namespace, "web", func(p *v1alpha1.PodProtector) {
			p.Labels, p.Annotations = map[string]string{"team": "shop"}, map[string]string{"breakwater.dev/policy": "ProtectionPolicy/web"}
			p.Spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
			p.Spec.Selector.MatchExpressions = []v1alpha1.PodSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}}
			p.Status = countedIn("worker-1")
		})
		at := func(name ...string) tfjsonpath.Path {
			p := tfjsonpath.New(name[0])
			for _, n := range name[1:] {
				p = p.AtMapKey(n)
			}
			return p
		}
		const web = "data.breakwater_pod_protector.web"
		is := func(path tfjsonpath.Path, value knownvalue.Check) statecheck.StateCheck {
			return statecheck.ExpectKnownValue(web, path, value)
		}
		cell := func(name string) tfjsonpath.Path { return at("status", "cells").AtSliceIndex(0).AtMapKey(name) }
		steps(t, resource.TestStep{
			Config: configured(t, "data \"breakwater_pod_protector\" \"web\" {\n namespace = %q\n name = \"web\"\n}", namespace),
			ConfigStateChecks: []statecheck.StateCheck{
				is(at("id"), knownvalue.StringExact(namespace+"/web")),
				is(at("uid"), knownvalue.StringExact(string(made.UID))),
				is(at("generation"), knownvalue.Int64Exact(1)),
				is(at("labels"), knownvalue.MapExact(map[string]knownvalue.Check{"team": knownvalue.StringExact("shop")})),
				is(at("annotations", "breakwater.dev/policy"), knownvalue.StringExact("ProtectionPolicy/web")),
				is(at("selector", "match_labels", "app"), knownvalue.StringExact("web")),
				is(at("selector", "match_expressions").AtSliceIndex(0).AtMapKey("values"), knownvalue.ListSizeExact(2)),
				is(at("min_available"), knownvalue.StringExact("3")),
				is(at("max_unavailable"), knownvalue.Null()),
				is(at("operations"), knownvalue.SetSizeExact(2)),
				is(at("admission_history", "compact_threshold"), knownvalue.Int64Exact(5)),
				is(at("status", "disruptions_allowed"), knownvalue.Int64Exact(5)),
				is(at("status", "summary", "estimated_available"), knownvalue.Int64Exact(8)),
				is(at("status", "expected_replicas"), knownvalue.Null()),
				is(cell("cell_id"), knownvalue.StringExact("worker-1")),
				is(cell("aggregation").AtMapKey("epoch"), knownvalue.Int64Exact(4)),
				is(cell("aggregation").AtMapKey("last_event_time"), knownvalue.StringExact("2026-04-05T06:07:08.123456Z")),
				is(cell("admission_history").AtMapKey("buckets").AtSliceIndex(0).AtMapKey("pod_uid"), knownvalue.StringExact("u-1")),
				is(cell("admission_history").AtMapKey("buckets").AtSliceIndex(1).AtMapKey("pod_uid_hashes"), knownvalue.StringExact("OCBieXRlcy4=")),
				is(at("status", "conditions").AtSliceIndex(0).AtMapKey("type"), knownvalue.StringExact("Ready")),
			},
		})
	})
}

func TestDataSourceErrors(t *testing.T) {
	forEachProgram(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		source := func(header, kind, name string) string {
			config := fmt.Sprintf("data \"breakwater_%s\" \"it\" {\n name = %q\n", kind, name)
			if kind == "pod_protector" {
				config += fmt.Sprintf(" namespace = %q\n", namespace)
			}
			return header + config + "}\n"
		}
		steps(t,
			resource.TestStep{Config: source(configured(t, ""), "pod_protector", "nothing"),
				ExpectError: matchText("There is no PodProtector " + namespace + "/nothing .* depends_on")},
			resource.TestStep{Config: source(configured(t, ""), "cell", "nothing"), ExpectError: matchText("There is no Cell nothing")},
			resource.TestStep{Config: source(configured(t, ""), "cell", "Not_A_Name"), ExpectError: matchText("must consist of lower-case letters")},
			resource.TestStep{Config: source(configurationFor(t, withoutCells(t)), "cell", "it"),
				ExpectError: matchText("The cluster does not know the kind Cell: install the chart breakwater-crds")},
			resource.TestStep{Config: source(configurationFor(t, unprivilegedUser(t, namespace)), "pod_protector", "web"),
				ExpectError: matchText("could not be read .* is forbidden .* needs this permission")},
		)
	})
}

func TestDataSourceWithClusterOfSameApply(t *testing.T) {
	withBoth(t, func(t *testing.T) {
		namespace := testplane.Namespace(t)
		theirProtector(t, namespace, "web")
		config := func(after string) string {
			return fmt.Sprintf(`
resource "terraform_data" "cluster" {
  input = %q
}
provider "breakwater" {
  config_path = terraform_data.cluster.output
}
data "breakwater_pod_protector" "web" {
  namespace = %q
  name      = "web"
  %s
}
data "breakwater_pod_protectors" "all" {
  namespace = %q
  %s
}`, testplane.Kubeconfig(t), namespace, after, namespace, after)
		}
		steps(t,
			resource.TestStep{Config: config(""), ExpectError: matchText("No cluster to read from yet .* depends_on")},
			resource.TestStep{
				Config: config("depends_on = [terraform_data.cluster]"),
				Check: resource.ComposeAggregateTestCheckFunc(
					resource.TestCheckResourceAttr("data.breakwater_pod_protector.web", "min_available", "3"),
					resource.TestCheckResourceAttr("data.breakwater_pod_protectors.all", "pod_protectors.#", "1"),
				),
			},
		)
	})
}

// matchText matches a text regardless of line breaks.
func matchText(text string) *regexp.Regexp {
	text = strings.ReplaceAll(text, " .* ", "(?s:.*)")
	return regexp.MustCompile(strings.ReplaceAll(text, " ", `[\s│]+`))
}

func TestDataSourceIsDeferred(t *testing.T) {
	s := newProtocolClientWithoutCluster(t)
	for name, config := range map[string]values{
		"breakwater_pod_protector": {"namespace": stringArgument("shop"), "name": stringArgument("web")}, "breakwater_pod_protectors": {},
		"breakwater_cell": {"name": stringArgument("worker-1")}, "breakwater_cells": {}, "breakwater_topology": {},
	} {
		t.Run(name, func(t *testing.T) {
			schema := s.schemas.DataSourceSchemas[name]
			req := &tfprotov6.ReadDataSourceRequest{TypeName: name, Config: s.object(schema, config),
				ClientCapabilities: &tfprotov6.ReadDataSourceClientCapabilities{DeferralAllowed: true}}
			resp, err := s.ReadDataSource(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			s.wantNoDiagnostics(resp.Diagnostics)
			if resp.Deferred == nil || resp.Deferred.Reason != tfprotov6.DeferredReasonProviderConfigUnknown {
				t.Errorf("data source is not deferred: %+v", resp.Deferred)
			}
			if s.read(schema, resp.State).IsKnown() {
				t.Error("deferred data source has known values")
			}
			req.ClientCapabilities = nil
			if resp, err = s.ReadDataSource(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if text := diagnosticText(resp.Diagnostics); !matchText("No cluster to read from yet .* depends_on").MatchString(text) || resp.Deferred != nil {
				t.Errorf("without deferral: error %q", text)
			}
		})
	}
}
