package provider_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/terraform"
	"github.com/hashicorp/terraform-plugin-testing/tfversion"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// controllerOptions configures the fake controller.
type controllerOptions struct {
	// refuses makes the controller clear nothing.
	denies bool
	// interval is the polling interval of the controller.
	interval time.Duration
}

// startController is a fake of the topology controller, which does not run in these tests. Until the test ends, it clears the cell
// that the annotation names, unless it refuses, and removes the annotation. The tests of a whole federation use the real one.
func startController(t *testing.T, namespace string, its controllerOptions) {
	t.Helper()
	c := testplane.Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := max(its.interval, 50*time.Millisecond)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
			}
			protectors := &v1alpha1.PodProtectorList{}
			_ = c.List(ctx, protectors, client.InNamespace(namespace))
			for i := range protectors.Items {
				p := &protectors.Items[i]
				cell, marked := p.Annotations[v1alpha1.AnnotationRemoveCell]
				if !marked {
					continue
				}
				if !its.denies && !removeCellStatus(ctx, c, p, cell) {
					continue
				}
				before := p.DeepCopy()
				delete(p.Annotations, v1alpha1.AnnotationRemoveCell)
				_ = c.Patch(ctx, p, client.MergeFrom(before))
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
}

// removeCellStatus clears a cell. If the Cell exists, an empty entry stays.
func removeCellStatus(ctx context.Context, c client.Client, p *v1alpha1.PodProtector, cell string) bool {
	if entry := quota.CellOf(p, cell); entry != nil && c.Get(ctx, client.ObjectKey{Name: cell}, &v1alpha1.Cell{}) == nil {
		entry.Discount, entry.AdmissionHistory.Buckets = v1alpha1.DiscountCleared, nil
	} else {
		quota.DropCell(p, cell)
	}
	return c.Status().Update(ctx, p) == nil
}

// createCountedProtectors creates protectors that have data of a cell.
func createCountedProtectors(t *testing.T, namespace, cell string, names ...string) {
	t.Helper()
	for _, name := range names {
		theirProtector(t, namespace, name, func(p *v1alpha1.PodProtector) { p.Status = countedIn(cell) })
	}
}

// getProtector returns the current state of a protector.
func getProtector(t *testing.T, namespace, name string) *v1alpha1.PodProtector {
	t.Helper()
	p := &v1alpha1.PodProtector{}
	if err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func hasCell(p *v1alpha1.PodProtector, cell string) bool { return quota.CellOf(p, cell) != nil }

const removing = "breakwater_remove_cell"

func TestRemoveCellFromOneProtector(t *testing.T) {
	namespace := testplane.Namespace(t)
	startController(t, namespace, controllerOptions{})
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	createCountedProtectors(t, namespace, "dead", "web", "other")
	theirProtector(t, namespace, "bare")

	given := values{"cell": stringArgument("dead"), "namespace": stringArgument(namespace), "name": stringArgument("web")}
	told, complaint := s.invoke(removing, given)
	if complaint != "" || !matchText("Annotated 1 protector to remove the cell dead. The cell dead is removed from 1 of 1 protector.").MatchString(told) {
		t.Errorf("action reported %q, errors %q", told, complaint)
	}
	if hasCell(getProtector(t, namespace, "web"), "dead") || !hasCell(getProtector(t, namespace, "other"), "dead") {
		t.Error("the cell was not removed from exactly one protector")
	}
	for _, name := range []string{"web", "bare"} { // again, and a protector that never had the cell
		given["name"] = stringArgument(name)
		if told, complaint := s.invoke(removing, given); complaint != "" || !strings.Contains(told, "removed from 1 of 1") {
			t.Errorf("%s: action reported %q, errors %q", name, told, complaint)
		}
	}
	given["name"] = stringArgument("nothing")
	if _, complaint := s.invoke(removing, given); !strings.Contains(complaint, `"nothing" not found`) {
		t.Errorf("missing protector: error %q", complaint)
	}
}

func TestRemoveCellFromAllProtectors(t *testing.T) {
	namespace := testplane.Namespace(t)
	startController(t, namespace, controllerOptions{})
	cellName := "dead-" + namespace
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("web-%02d", i))
	}
	createCountedProtectors(t, namespace, cellName, names...)
	createCountedProtectors(t, namespace, "alive", "other")
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	given := values{"cell": stringArgument(cellName), "all_protectors": trueArgument()}
	told, complaint := s.invoke(removing, given)
	if complaint != "" || !strings.Contains(told, "Annotated 25 protectors to remove the cell "+cellName) || !strings.Contains(told, "removed from 25 of 25") {
		t.Errorf("action reported %q, errors %q", told, complaint)
	}
	if lines := strings.Count(told, "\n"); lines > 15 {
		t.Errorf("action reported %d lines", lines)
	}
	for _, name := range names {
		if p := getProtector(t, namespace, name); hasCell(p, cellName) || len(p.Annotations) > 0 {
			t.Errorf("%s has %v, and %v", name, p.Status.Cells, p.Annotations)
		}
	}
	if !hasCell(getProtector(t, namespace, "other"), "alive") {
		t.Error("another cell was removed too")
	}
	if told, complaint := s.invoke(removing, given); complaint != "" || !strings.Contains(told, "No protector has counts or reservations of the cell") {
		t.Errorf("second action reported %q, errors %q", told, complaint)
	}
}

func TestRemoveCellDeniesReportingCell(t *testing.T) {
	namespace := testplane.Namespace(t)
	startController(t, namespace, controllerOptions{})
	name := "cell-" + namespace
	createCountedProtectors(t, namespace, name, "web")
	made := cell(t, name, nil)
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	given := values{"cell": stringArgument(name), "namespace": stringArgument(namespace), "name": stringArgument("web")}
	told, complaint := s.invoke(removing, given)
	if told != "" || !matchText("Cell is not dead: Cell "+name+" is not dead: Its aggregator aggregator-0 reported .* ago, .* after 1m0s .* Stop the aggregator first").MatchString(complaint) {
		t.Errorf("action reported %q, errors %q", told, complaint)
	}
	if !hasCell(getProtector(t, namespace, "web"), name) {
		t.Fatal("cell was removed although it reports")
	}
	made.Status.Aggregator.LastHeartbeat = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
	if err := testplane.Client(t).Status().Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time with the empty entry
		if told, complaint := s.invoke(removing, given); complaint != "" || getProtector(t, namespace, "web").Status.Cells[0].Discount != v1alpha1.DiscountCleared {
			t.Errorf("action for a silent cell reported %q, errors %q", told, complaint)
		}
	}
	given = values{"cell": stringArgument(name), "all_protectors": trueArgument()}
	if told, complaint := s.invoke(removing, given); complaint != "" || !strings.Contains(told, "No protector has counts or reservations of the cell") {
		t.Errorf("action for the rest reported %q, errors %q", told, complaint)
	}
}

func TestRemoveCellReportsDenialAndTimeout(t *testing.T) {
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	t.Run("it refuses", func(t *testing.T) {
		namespace := testplane.Namespace(t)
		startController(t, namespace, controllerOptions{denies: true, interval: 1200 * time.Millisecond})
		createCountedProtectors(t, namespace, "dead", "web")
		_, complaint := s.invoke(removing, values{
			"cell": stringArgument("dead"), "namespace": stringArgument(namespace), "name": stringArgument("web"), "timeout": stringArgument("20s"),
		})
		if !matchText("The cell was not removed: The topology controller refused to remove the cell dead from " + namespace + "/web").MatchString(complaint) {
			t.Errorf("error %q", complaint)
		}
	})
	t.Run("it does not run", func(t *testing.T) {
		namespace := testplane.Namespace(t)
		createCountedProtectors(t, namespace, "dead", "web")
		_, complaint := s.invoke(removing, values{
			"cell": stringArgument("dead"), "namespace": stringArgument(namespace), "name": stringArgument("web"), "timeout": stringArgument("2s"),
		})
		if !matchText("The cell was not removed in time: The cell dead was not removed: .* from " + namespace + "/web within 2s: check that breakwater topology runs").MatchString(complaint) {
			t.Errorf("error %q", complaint)
		}
		if p := getProtector(t, namespace, "web"); p.Annotations[v1alpha1.AnnotationRemoveCell] != "dead" || !hasCell(p, "dead") {
			t.Errorf("the annotations are %v", p.Annotations)
		}
	})
	t.Run("another cell is removed first", func(t *testing.T) {
		namespace := testplane.Namespace(t)
		theirProtector(t, namespace, "web", func(p *v1alpha1.PodProtector) {
			p.Status, p.Annotations = countedIn("dead"), map[string]string{v1alpha1.AnnotationRemoveCell: "another"}
			p.Status.Cells = append(p.Status.Cells, countedIn("another").Cells...)
		})
		startController(t, namespace, controllerOptions{interval: 700 * time.Millisecond})
		if _, complaint := s.invoke(removing, values{"cell": stringArgument("dead"), "namespace": stringArgument(namespace), "name": stringArgument("web")}); complaint != "" {
			t.Errorf("error %q", complaint)
		}
		if cells := getProtector(t, namespace, "web").Status.Cells; len(cells) > 0 {
			t.Errorf("not both cells were removed: %v", cells)
		}
	})
}

func TestRemoveCellErrors(t *testing.T) {
	s := newProtocolClientFor(t, testplane.Kubeconfig(t))
	one := values{"cell": stringArgument("dead"), "namespace": stringArgument("shop"), "name": stringArgument("web")}
	with := func(name string, given string) values {
		v := maps.Clone(one)
		if v[name] = stringArgument(given); given == "" {
			delete(v, name)
		}
		return v
	}
	both := maps.Clone(one)
	both["all_protectors"] = trueArgument()
	for want, given := range map[string]values{
		"No protector selected: Set the namespace":              with("namespace", ""),
		"No protector selected: Set the namespace and the name": with("name", ""),
		"Invalid Attribute Combination":                         both,
		`"soon" must be a duration`:                             with("timeout", "soon"),
		`"-5s" must be a duration`:                              with("timeout", "-5s"),
		"must consist of lower-case letters":                    with("cell", "Worker_1"),
	} {
		if complaint := s.validate(removing, given); !strings.Contains(complaint, want) {
			t.Errorf("%v: error %q", given, complaint)
		}
	}
	if complaint := s.validate(removing, one) + s.validate(removing, values{"cell": stringArgument("dead"), "all_protectors": trueArgument(), "timeout": stringArgument("90s")}); complaint != "" {
		t.Errorf("valid configuration: error %q", complaint)
	}

	namespace := testplane.Namespace(t)
	createCountedProtectors(t, namespace, "dead", "web")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors", "cells"}, Verbs: []string{"get", "list"}}}
	reader := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "reader", clusterRole(t, namespace, rules...))
	given := values{"cell": stringArgument("dead"), "namespace": stringArgument(namespace), "name": stringArgument("web")}
	_, complaint := newProtocolClientFor(t, kubeconfigOf(t, reader)).invoke(removing, given)
	if !matchText("PodProtector could not be annotated to remove a cell: PodProtector " + namespace + "/web: .* cannot patch .* needs this permission").MatchString(complaint) {
		t.Errorf("user with read access: error %q", complaint)
	}
	_, complaint = newProtocolClientFor(t, kubeconfigOf(t, unprivilegedUser(t, namespace))).invoke(removing, given)
	if !matchText("Cell could not be read: Cell dead: .* is forbidden").MatchString(complaint) {
		t.Errorf("user without permissions: error %q", complaint)
	}
}

func TestTerraformRemovesACell(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	startController(t, namespace, controllerOptions{})
	createCountedProtectors(t, namespace, "dead-"+namespace, "web")
	resource.UnitTest(t, resource.TestCase{
		TerraformVersionChecks:   []tfversion.TerraformVersionCheck{tfversion.SkipBelow(tfversion.Version1_14_0)}, // actions need 1.14
		ProtoV6ProviderFactories: factories(),
		Steps: []resource.TestStep{{
			Config: configured(t, `
action "breakwater_remove_cell" "dead" {
  config {
    cell           = %q
    all_protectors = true
    timeout        = "1m"
  }
}
resource "terraform_data" "go" {
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.breakwater_remove_cell.dead]
    }
  }
}`, "dead-"+namespace),
			Check: func(*terraform.State) error {
				if hasCell(getProtector(t, namespace, "web"), "dead-"+namespace) {
					return errors.New("the cell is still there")
				}
				return nil
			},
		}},
	})
}
