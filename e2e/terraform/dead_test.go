package terraform_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
)

// This test runs only with Terraform, because OpenTofu has no actions.
func TestActionClearsDeadCell(t *testing.T) {
	suite.Claim(t, "the action makes the topology controller remove the entry of a deleted cell from a protector", func(l *e2e.Fixture) {
		l.CreateProtector(1)
		dead := v1alpha1.PodProtectorCell{CellID: "burned-down", Aggregation: v1alpha1.Aggregation{
			TotalReplicas: 3, AvailableReplicas: 3, LastEventTime: metav1.NowMicro(),
		}}
		l.Eventually(func() string {
			p := l.GetProtector()
			p.Status.Cells = append(p.Status.Cells, dead)
			return e2e.ErrorText(l.Core.Status().Update(l.Context(), p))
		})

		d := terraform.New(l.TB, terraform.Terraform, fmt.Sprintf(`
provider "breakwater" {
  config_path = %q
}

action "breakwater_remove_cell" "dead" {
  config {
    cell           = "burned-down"
    all_protectors = true
  }
}
`, l.Federation().Cores()[0].Kubeconfig()))
		out := d.Run("apply", "-auto-approve", "-invoke=action.breakwater_remove_cell.dead")
		for _, cell := range l.GetProtector().Status.Cells {
			if cell.CellID == dead.CellID {
				l.Errorf("the protector still has the cell: %+v\n%s", cell, out)
			}
		}
	})
}
