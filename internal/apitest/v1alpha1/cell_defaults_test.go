package v1alpha1_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestCellDefaultsMatchTheAPIServer(t *testing.T) {
	c := testplane.Client(t)
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{GenerateName: "defaults-"}}
	before := cell.Spec
	if err := c.Create(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(t.Context(), cell) })
	for _, c := range []struct {
		name         string
		ours, theirs time.Duration
	}{
		{"admissionDeadline", before.AdmissionDeadlineOrDefault(), cell.Spec.AdmissionDeadline.Duration},
		{"staleAfter", before.StaleAfterOrDefault(), cell.Spec.StaleAfter.Duration},
	} {
		if c.ours != c.theirs {
			t.Errorf("default of %s = %v, want %v as in the API server", c.name, c.ours, c.theirs)
		}
	}
}
