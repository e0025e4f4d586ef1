package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestBuckets(t *testing.T) {
	c := testplane.Client(t)
	p := created(t, c)
	for claim, test := range map[string]struct{ fields, denial string }{
		"a single reservation with all fields": {`counter: 1, podUID: u, podName: p, operation: Delete, revocableUntil: "2026-11-21T12:00:01.000000Z"`, ""},
		"a merged bucket":                      {`counter: 2, endTime: "2026-11-21T12:00:01.000000Z", podUIDHashes: AAAAAAAAAAEAAAAAAAAAAg==`, ""},
		"hashes of any bytes":                  {`counter: 1, podUIDHashes: th0+ZjQF8a/=`, ""},
		"hashes that are not base64":           {`counter: 1, podUIDHashes: "*"`, ""}, // PackedBytes explains it
		"hashes that are not a string":         {`counter: 1, podUIDHashes: 7`, "must be of type string"},
		"an empty UID":                         {`counter: 1, podUID: ""`, "at least 1 chars"},
		"a counter below 0":                    {`counter: -1, podUID: u`, "greater than or equal to 1"},
		"no counter":                           {`podUID: u`, "counter: Required value"},
		"null as a time":                       {`startTime: null, counter: 1, podUID: u`, "startTime"},
	} {
		t.Run(claim, func(t *testing.T) {
			bucket := `startTime: "2026-11-21T12:00:00.000000Z", ` + test.fields
			if strings.Contains(test.fields, "startTime") {
				bucket = test.fields
			}
			wantStatusVerdict(t, c, p, cellStatus("a", `admissionHistory: {buckets: [{`+bucket+`}]}`), test.denial)
		})
	}
}

func TestBucketsAreLimited(t *testing.T) {
	c := testplane.Client(t)
	p := &v1alpha1.PodProtector{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(created(t, c)), p); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		buckets int
		denial  string
	}{{2100, ""}, {2101, "must have at most 2100 items"}} {
		reserve(p, test.buckets)
		wantErrorContaining(t, c.Status().Update(t.Context(), p.DeepCopy(), client.DryRunAll), test.denial)
	}
}

// What the rules of a bucket cost a writer of the status, at the default of compactThreshold.
func BenchmarkStatusUpdateWith20Buckets(b *testing.B) {
	c := testplane.Client(b)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: testplane.Namespace(b), Name: "bench"}}
	p.Spec.MinAvailable = v1alpha1.Pods(0)
	if err := c.Create(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	reserve(p, 20)
	for b.Loop() {
		p.Status.Cells[0].Aggregation.Epoch++
		p.Status.Cells[0].AdmissionHistory.Buckets[0].StartTime.Time = p.Status.Cells[0].AdmissionHistory.Buckets[0].StartTime.Add(time.Second)
		if err := c.Status().Update(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// reserve puts n reservations into the status, of one cell.
func reserve(p *v1alpha1.PodProtector, n int) {
	now := metav1.NowMicro()
	cell := v1alpha1.PodProtectorCell{CellID: "a"}
	cell.Aggregation.LastEventTime = now
	for i := range n {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{
			StartTime: now, Counter: 1, Operation: v1alpha1.OperationDelete,
			PodUID:  types.UID(fmt.Sprintf("0e4b1a52-35b5-4ba5-9a39-%012d", i)),
			PodName: fmt.Sprintf("web-6d4cf56db6-%05d", i),
		})
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{cell}
}

// A component of a version that does not know escrows drops the field in each write. The API server rejects that while it matters.
func TestEscrowsOutliveComponentsThatDoNotKnowThem(t *testing.T) {
	c := testplane.Client(t)
	p := &v1alpha1.PodProtector{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(created(t, c)), p); err != nil {
		t.Fatal(err)
	}
	write := func(denial string, escrows ...v1alpha1.Escrow) {
		t.Helper()
		reserve(p, 1)
		p.Status.Cells[0].AdmissionHistory.Escrows = escrows
		wantErrorContaining(t, c.Status().Update(t.Context(), p), denial)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
			t.Fatal(err)
		}
	}
	write("", v1alpha1.Escrow{Holder: "one", Count: 2, Stamp: 1})
	write("does not know them")
	write("", v1alpha1.Escrow{Holder: "one", Count: 1, Stamp: 2}, v1alpha1.Escrow{Holder: "two", Count: 1, Stamp: 1})
	write("", []v1alpha1.Escrow{}...)
	write("")
	write("Duplicate value", v1alpha1.Escrow{Holder: "one", Count: 1, Stamp: 1}, v1alpha1.Escrow{Holder: "one", Count: 1, Stamp: 1})
	write("greater than or equal to 1", v1alpha1.Escrow{Holder: "one", Count: 0, Stamp: 1})
}
