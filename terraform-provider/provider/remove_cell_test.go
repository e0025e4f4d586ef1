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

// habits configures the fake controller.
type habits struct {
	// refuses makes it clear nothing.
	refuses bool
	// every is its polling interval.
	every time.Duration
}

// controller is a fake of the topology controller, which does not run in these tests. Until the test ends, it clears the cell
// that the annotation names, unless it refuses, and removes the annotation. The tests of a whole federation use the real one.
func controller(t *testing.T, namespace string, its habits) {
	t.Helper()
	c := testplane.Client(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := max(its.every, 50*time.Millisecond)
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
				if !its.refuses && !forget(ctx, c, p, cell) {
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

// forget clears a cell. If the Cell exists, an empty entry stays.
func forget(ctx context.Context, c client.Client, p *v1alpha1.PodProtector, cell string) bool {
	if entry := quota.CellOf(p, cell); entry != nil && c.Get(ctx, client.ObjectKey{Name: cell}, &v1alpha1.Cell{}) == nil {
		entry.Discount, entry.AdmissionHistory.Buckets = v1alpha1.DiscountCleared, nil
	} else {
		quota.DropCell(p, cell)
	}
	return c.Status().Update(ctx, p) == nil
}

// having creates protectors that have data of a cell.
func having(t *testing.T, namespace, cell string, names ...string) {
	t.Helper()
	for _, name := range names {
		theirProtector(t, namespace, name, func(p *v1alpha1.PodProtector) { p.Status = countedIn(cell) })
	}
}

// now returns the current state of a protector.
func now(t *testing.T, namespace, name string) *v1alpha1.PodProtector {
	t.Helper()
	p := &v1alpha1.PodProtector{}
	if err := testplane.Client(t).Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func has(p *v1alpha1.PodProtector, cell string) bool { return quota.CellOf(p, cell) != nil }

const removing = "breakwater_remove_cell"

func TestADeadCellIsClearedOutOfAProtector(t *testing.T) {
	namespace := testplane.Namespace(t)
	controller(t, namespace, habits{})
	s := speakTo(t, testplane.Kubeconfig(t))
	having(t, namespace, "dead", "web", "other")
	theirProtector(t, namespace, "bare")

	given := values{"cell": sent("dead"), "namespace": sent(namespace), "name": sent("web")}
	told, complaint := s.invoke(removing, given)
	if complaint != "" || !says("Asked 1 protector to forget the cell dead. The cell dead is cleared out of 1 of 1 protector.").MatchString(told) {
		t.Errorf("it tells %q, and complains %q", told, complaint)
	}
	if has(now(t, namespace, "web"), "dead") || !has(now(t, namespace, "other"), "dead") {
		t.Error("the cell is not cleared out of just that one")
	}
	for _, name := range []string{"web", "bare"} { // again, and a protector that never had the cell
		given["name"] = sent(name)
		if told, complaint := s.invoke(removing, given); complaint != "" || !strings.Contains(told, "cleared out of 1 of 1") {
			t.Errorf("%s: it tells %q, and complains %q", name, told, complaint)
		}
	}
	given["name"] = sent("nothing")
	if _, complaint := s.invoke(removing, given); !strings.Contains(complaint, `"nothing" not found`) {
		t.Errorf("of no protector it says %q", complaint)
	}
}

func TestADeadCellIsClearedOutOfAllProtectors(t *testing.T) {
	namespace := testplane.Namespace(t)
	controller(t, namespace, habits{})
	cellName := "dead-" + namespace
	var names []string
	for i := range 25 {
		names = append(names, fmt.Sprintf("web-%02d", i))
	}
	having(t, namespace, cellName, names...)
	having(t, namespace, "alive", "other")
	s := speakTo(t, testplane.Kubeconfig(t))
	given := values{"cell": sent(cellName), "all_protectors": yes()}
	told, complaint := s.invoke(removing, given)
	if complaint != "" || !strings.Contains(told, "Asked 25 protectors to forget the cell "+cellName) || !strings.Contains(told, "cleared out of 25 of 25") {
		t.Errorf("it tells %q, and complains %q", told, complaint)
	}
	if lines := strings.Count(told, "\n"); lines > 15 {
		t.Errorf("it tells so in %d lines", lines)
	}
	for _, name := range names {
		if p := now(t, namespace, name); has(p, cellName) || len(p.Annotations) > 0 {
			t.Errorf("%s has %v, and %v", name, p.Status.Cells, p.Annotations)
		}
	}
	if !has(now(t, namespace, "other"), "alive") {
		t.Error("another cell was cleared too")
	}
	if told, complaint := s.invoke(removing, given); complaint != "" || !strings.Contains(told, "No protector has anything of the cell") {
		t.Errorf("again, it tells %q, and complains %q", told, complaint)
	}
}

func TestACellThatReportsIsNotCleared(t *testing.T) {
	namespace := testplane.Namespace(t)
	controller(t, namespace, habits{})
	name := "cell-" + namespace
	having(t, namespace, name, "web")
	made := cell(t, name, nil)
	s := speakTo(t, testplane.Kubeconfig(t))
	given := values{"cell": sent(name), "namespace": sent(namespace), "name": sent("web")}
	told, complaint := s.invoke(removing, given)
	if told != "" || !says("Cell "+name+" is not dead: Its aggregator aggregator-0 has reported .* ago, .* after 1m0s .* Stop the aggregator first").MatchString(complaint) {
		t.Errorf("it tells %q, and complains %q", told, complaint)
	}
	if !has(now(t, namespace, "web"), name) {
		t.Fatal("it was cleared all the same")
	}
	made.Status.Aggregator.LastHeartbeat = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
	if err := testplane.Client(t).Status().Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time with the empty entry
		if told, complaint := s.invoke(removing, given); complaint != "" || now(t, namespace, "web").Status.Cells[0].Discount != v1alpha1.DiscountCleared {
			t.Errorf("when it is silent it tells %q, and complains %q", told, complaint)
		}
	}
	given = values{"cell": sent(name), "all_protectors": yes()}
	if told, complaint := s.invoke(removing, given); complaint != "" || !strings.Contains(told, "No protector has anything of the cell") {
		t.Errorf("of what is left it tells %q, and complains %q", told, complaint)
	}
}

func TestWhatTheTopologyControllerDoesNotClearIsAnError(t *testing.T) {
	s := speakTo(t, testplane.Kubeconfig(t))
	t.Run("it refuses", func(t *testing.T) {
		namespace := testplane.Namespace(t)
		controller(t, namespace, habits{refuses: true, every: 1200 * time.Millisecond})
		having(t, namespace, "dead", "web")
		_, complaint := s.invoke(removing, values{
			"cell": sent("dead"), "namespace": sent(namespace), "name": sent("web"), "timeout": sent("20s"),
		})
		if !says("The cell dead was not cleared: The topology controller has refused to clear it out of " + namespace + "/web").MatchString(complaint) {
			t.Errorf("it says %q", complaint)
		}
	})
	t.Run("it does not run", func(t *testing.T) {
		namespace := testplane.Namespace(t)
		having(t, namespace, "dead", "web")
		_, complaint := s.invoke(removing, values{
			"cell": sent("dead"), "namespace": sent(namespace), "name": sent("web"), "timeout": sent("2s"),
		})
		if !says("The cell dead is not cleared in time: .* off " + namespace + "/web within 2s: see whether breakwater topology runs").MatchString(complaint) {
			t.Errorf("it says %q", complaint)
		}
		if p := now(t, namespace, "web"); p.Annotations[v1alpha1.AnnotationRemoveCell] != "dead" || !has(p, "dead") {
			t.Errorf("the annotations are %v", p.Annotations)
		}
	})
	t.Run("it is busy with another cell first", func(t *testing.T) {
		namespace := testplane.Namespace(t)
		theirProtector(t, namespace, "web", func(p *v1alpha1.PodProtector) {
			p.Status, p.Annotations = countedIn("dead"), map[string]string{v1alpha1.AnnotationRemoveCell: "another"}
			p.Status.Cells = append(p.Status.Cells, countedIn("another").Cells...)
		})
		controller(t, namespace, habits{every: 700 * time.Millisecond})
		if _, complaint := s.invoke(removing, values{"cell": sent("dead"), "namespace": sent(namespace), "name": sent("web")}); complaint != "" {
			t.Errorf("it says %q", complaint)
		}
		if cells := now(t, namespace, "web").Status.Cells; len(cells) > 0 {
			t.Errorf("not both were cleared, but there are %v", cells)
		}
	})
}

func TestARemovalSaysWhatIsWrong(t *testing.T) {
	s := speakTo(t, testplane.Kubeconfig(t))
	one := values{"cell": sent("dead"), "namespace": sent("shop"), "name": sent("web")}
	with := func(name string, given string) values {
		v := maps.Clone(one)
		if v[name] = sent(given); given == "" {
			delete(v, name)
		}
		return v
	}
	both := maps.Clone(one)
	both["all_protectors"] = yes()
	for want, given := range map[string]values{
		"Which protector?: Give the namespace":              with("namespace", ""),
		"Which protector?: Give the namespace and the name": with("name", ""),
		"Invalid Attribute Combination":                     both,
		`"soon" must be a duration`:                         with("timeout", "soon"),
		`"-5s" must be a duration`:                          with("timeout", "-5s"),
		"must be of lower case letters":                     with("cell", "Worker_1"),
	} {
		if complaint := s.validate(removing, given); !strings.Contains(complaint, want) {
			t.Errorf("of %v it says %q", given, complaint)
		}
	}
	if complaint := s.validate(removing, one) + s.validate(removing, values{"cell": sent("dead"), "all_protectors": yes(), "timeout": sent("90s")}); complaint != "" {
		t.Errorf("of what is right it says %q", complaint)
	}

	namespace := testplane.Namespace(t)
	having(t, namespace, "dead", "web")
	rules := []rbacv1.PolicyRule{{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors", "cells"}, Verbs: []string{"get", "list"}}}
	reader := testplane.AsServiceAccount(t, testplane.Config(t), namespace, "reader", clusterRole(t, namespace, rules...))
	given := values{"cell": sent("dead"), "namespace": sent(namespace), "name": sent("web")}
	_, complaint := speakTo(t, kubeconfigOf(t, reader)).invoke(removing, given)
	if !says("PodProtector " + namespace + "/web could not be asked to forget the cell dead: .* cannot patch .* needs this right").MatchString(complaint) {
		t.Errorf("a reader is told %q", complaint)
	}
	_, complaint = speakTo(t, kubeconfigOf(t, nobody(t, namespace))).invoke(removing, given)
	if !says("Cell dead could not be read: .* is forbidden").MatchString(complaint) {
		t.Errorf("nobody is told %q", complaint)
	}
}

func TestTerraformRemovesACell(t *testing.T) {
	onTerraform(t)
	namespace := testplane.Namespace(t)
	controller(t, namespace, habits{})
	having(t, namespace, "dead-"+namespace, "web")
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
				if has(now(t, namespace, "web"), "dead-"+namespace) {
					return errors.New("the cell is still there")
				}
				return nil
			},
		}},
	})
}
