package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// created is a protector in a namespace of its own.
func created(t *testing.T, c client.Client) *unstructured.Unstructured {
	t.Helper()
	p := object(t, "PodProtector", testplane.Namespace(t), `{spec: {selector: {}, minAvailable: 1}}`)
	if err := c.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// cellStatus is a status with one counted cell, and the fields of it that are given.
func cellStatus(cellID, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return `{cells: [{cellID: ` + cellID + `, aggregation: {totalReplicas: 1, availableReplicas: 1, readyReplicas: 1, ` +
		`runningReplicas: 1, scheduledReplicas: 1, countedReplicas: 1, countedSpec: a, snapshotVersion: "1", ` +
		`lastEventTime: "2026-11-21T12:00:00.000000Z", epoch: 1, holder: a}` + fields + `}]}`
}

// wantStatusVerdict writes a status in a dry run. An empty refusal means that it is accepted.
func wantStatusVerdict(t *testing.T, c client.Client, u *unstructured.Unstructured, status, denial string) {
	t.Helper()
	u = u.DeepCopy()
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(status), &fields); err != nil {
		t.Fatal(err)
	}
	u.Object["status"] = fields
	wantErrorContaining(t, c.Status().Update(t.Context(), u, client.DryRunAll), denial)
}

func wantErrorContaining(t *testing.T, err error, denial string) {
	t.Helper()
	switch {
	case denial == "" && err != nil:
		t.Errorf("rejected: %v, want it accepted", err)
	case denial != "" && err == nil:
		t.Errorf("accepted, want an error with %q", denial)
	case denial != "" && !strings.Contains(err.Error(), denial):
		t.Errorf("error = %[2]v, want it to contain %[1]q", denial, err)
	}
}

func TestCellsInTheStatusOfPodProtector(t *testing.T) {
	c := testplane.Client(t)
	p := created(t, c)
	for claim, test := range map[string]struct{ status, denial string }{
		"a cell with a name of 63 characters": {cellStatus(strings.Repeat("c", 63), ""), ""},
		"a count below zero":                  {strings.Replace(cellStatus("a", ""), "countedReplicas: 1", "countedReplicas: -1", 1), "should be greater than or equal to 0"},
		"a count of more than 32 bits":        {strings.Replace(cellStatus("a", ""), "countedReplicas: 1", "countedReplicas: 2147483648", 1), "format int32"},
		"expected replicas below 0":           {strings.Replace(cellStatus("a", ""), "countedReplicas: 1", "countedReplicas: 1, expectedReplicas: -1", 1), "should be greater than or equal to 0"},
		"a cell with a name of 64 characters": {cellStatus(strings.Repeat("c", 64), ""), "may not be more than 63"},
		"an unknown operation":                {cellStatus("a", `admissionHistory: {buckets: [{startTime: "2026-11-21T12:00:00.000000Z", counter: 1, podUID: u, operation: ""}]}`), `supported values: "Delete", "Evict"`},
		"one condition twice": {`{conditions: [` +
			strings.Repeat(`{type: Ready, status: "True", reason: Aggregated, message: "", lastTransitionTime: "2026-11-21T12:00:00Z"},`, 2) + `]}`, "Duplicate value"},
		"a condition without a reason": {`{conditions: [{type: Ready, status: "True", reason: "", message: "", lastTransitionTime: "2026-11-21T12:00:00Z"}]}`, "reason"},
	} {
		t.Run(claim, func(t *testing.T) {
			wantStatusVerdict(t, c, p, test.status, test.denial)
		})
	}
}
