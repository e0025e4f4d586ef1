// Package terraform_test declares the topology and the protectors of a whole federation with Terraform, and runs storms on them.
package terraform_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
)

// Only Terraform creates the Cells of this suite and the Secrets with their kubeconfigs.
var suite = e2e.NewSuite("federated", func(o *install.Options) { o.CellsByObjects, o.WithoutCells = true, true })

func TestMain(m *testing.M) {
	code := suite.Main(m)
	if err := terraform.RemoveProvider(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// federation declares a whole federation. Values are variables, so that each step is one command.
const federation = `
variable "core" {}
variable "workers" { type = map(string) }
variable "namespace" {}
variable "floor" {}
variable "protection" { default = true }

provider "breakwater" {
  config_path = var.core
}

resource "breakwater_cell" "worker" {
  for_each              = var.workers
  name                  = each.key
  admission_deadline    = "12s"
  kubeconfig_secret_ref = { namespace = "breakwater-system", name = "terraform-${each.key}" }
  kubeconfig_wo         = file(each.value)
  kubeconfig_wo_version = 1
  wait {
    conditions = { Ready = "True", Connected = "True", AggregationFresh = "True", Guarded = "True" }
  }
  timeouts {
    create = "2m"
    delete = "2m"
  }
}

resource "breakwater_pod_protector" "web" {
  namespace           = var.namespace
  name                = "web"
  selector            = { match_labels = { app = "web" } }
  min_available       = var.floor
  admission_history   = { aggregation_rate_millis = 200 }
  deletion_protection = var.protection
  depends_on          = [breakwater_cell.worker]
  wait {}
}
`

// stack is the fixture of a federation that Terraform declares.
type stack struct {
	*e2e.Fixture
	*terraform.Dir
}

func newStack(l *e2e.Fixture, program string) *stack {
	l.Helper()
	s := &stack{Fixture: l, Dir: terraform.New(l.TB, program, federation)}
	workers := make([]string, 0, len(l.Cells))
	for _, worker := range l.Federation().Workers() {
		workers = append(workers, strconv.Quote(worker.Name())+"="+strconv.Quote(worker.Kubeconfig()))
	}
	s.Variables = []string{
		"TF_VAR_core=" + l.Federation().Cores()[0].Kubeconfig(), "TF_VAR_workers={" + strings.Join(workers, ",") + "}",
		"TF_VAR_namespace=" + l.Namespace,
	}
	l.Cleanup(func() { // What a failed test leaves would fail the next program's.
		if left, err := s.Try("state", "list"); err != nil || left == "" {
			return
		}
		_, _ = s.Try("apply", "-auto-approve", "-var=floor=0", "-var=protection=false")
		_, _ = s.Try("destroy", "-auto-approve", "-var=floor=0", "-var=protection=false")
	})
	return s
}

func TestDeclaredFederationKeepsFloorInStorm(t *testing.T) {
	for _, program := range []string{terraform.Terraform, terraform.OpenTofu} {
		t.Run(program, func(t *testing.T) {
			suite.Claim(t, "the floor that Terraform declares holds exactly, and a destroy removes all objects", func(l *e2e.Fixture) {
				s := newStack(l, program)
				e2e.FaultStorm{Pods: 60, FloorsByCore: []int{40}, ExhaustsBudget: true, Protect: func(_ *e2e.Fixture, floor int) {
					s.Run("apply", "-auto-approve", floorVariable(floor))
				}, DuringStorm: func(l *e2e.Fixture, load *storm.Storm) {
					l.WaitForRequests(load, 20)
					// Terraform sees no drift in the changes that a storm makes to an object.
					s.Run("plan", "-detailed-exitcode", floorVariable(40))
				}}.Run(l)

				s.Run("apply", "-auto-approve", floorVariable(39))
				l.Eventually(func() string { return e2e.ErrorText(l.DeletePod(l.Cells[0], l.ExistingPods(l.Cells[0])[0].Name)) })
				s.expectDeletionProtection("destroy", "-auto-approve", floorVariable(39))
				l.ExpectDenial(l.DeletePod(l.Cells[0], l.ExistingPods(l.Cells[0])[0].Name), "floor 39")

				s.Run("apply", "-auto-approve", floorVariable(39), "-var=protection=false")
				s.Run("destroy", "-auto-approve", floorVariable(39), "-var=protection=false")
				s.expectNothingLeft()
			})
		})
	}
}

func floorVariable(pods int) string { return fmt.Sprintf("-var=floor=%d", pods) }

// expectDeletionProtection checks that deletion_protection makes a command fail.
func (s *stack) expectDeletionProtection(arguments ...string) {
	s.Fixture.Helper()
	out, err := s.Try(arguments...)
	if text := "PodProtector " + s.Namespace + "/web would be deleted"; err == nil || !strings.Contains(out, text) {
		s.Fixture.Fatalf("got %v, want an error that says %q:\n%s", err, text, out)
	}
}

func (s *stack) expectNothingLeft() {
	s.Fixture.Helper()
	protectors, cells, secrets := &v1alpha1.PodProtectorList{}, &v1alpha1.CellList{}, &corev1.SecretList{}
	s.Must(s.Core.List(s.Fixture.Context(), protectors, client.InNamespace(s.Namespace)))
	s.Must(s.Core.List(s.Fixture.Context(), cells))
	s.Must(s.Core.List(s.Fixture.Context(), secrets, client.InNamespace(install.SystemNamespace)))
	if len(protectors.Items)+len(cells.Items)+len(secrets.Items) > 0 {
		s.Fixture.Errorf("remaining: %d protectors, %d Cells, %d Secrets", len(protectors.Items), len(cells.Items), len(secrets.Items))
	}
}
