package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// serveMetadata makes the fixture's cell serve the metadata of pods: what read returns, or 404 for nil. versions are the
// requested resource versions.
func (d *memoryFixture) serveMetadata(t *testing.T, read func(version string) (*metav1.PartialObjectMetadata, error)) (versions *[]string) {
	t.Helper()
	versions = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		version := r.URL.Query().Get("resourceVersion")
		*versions = append(*versions, version)
		pod, err := read(version)
		switch {
		case err != nil:
			deny(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		case pod == nil:
			deny(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		default:
			reply(w, http.StatusOK, pod)
		}
	}))
	t.Cleanup(server.Close)
	pods, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d.cells.staticMetadata = map[string]metadata.Interface{memoryCell: pods}
	return versions
}

func deny(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	reply(w, int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason,
	})
}

func reply(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the test fails if no answer arrives
}

func metadataOf(pod *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: pod.ObjectMeta}
}

// reviewDeletion sends the review of the deletion of a pod, as an API server does.
func (d *memoryFixture) reviewDeletion(ctx context.Context, t *testing.T, pod *corev1.Pod) removal.Answer {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return d.Review(ctx, memoryCell, &admissionv1.AdmissionRequest{
		Operation: admissionv1.Delete, Namespace: pod.Namespace, Name: pod.Name, OldObject: runtime.RawExtension{Raw: raw},
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
	})
}

// An unauthenticated caller consumes budget only for pods that exist in the cell.
func TestUnprovenCallerCannotChargeMissingPods(t *testing.T) {
	other := func(change func(*corev1.Pod)) *metav1.PartialObjectMetadata {
		pod := memoryPod("web-0")
		change(pod)
		return metadataOf(pod)
	}
	unreachable := errors.New("connection refused")
	for claim, c := range map[string]struct {
		cached, stored *metav1.PartialObjectMetadata
		broken         error
		proven         bool
		want           removal.VerdictReason
		reads          []string
	}{
		"a pod that does not exist": {want: removal.VerdictNoPod, reads: []string{"0", ""}},
		"a pod that exists":         {cached: other(func(*corev1.Pod) {}), want: removal.VerdictReserved, reads: []string{"0"}},
		"a pod that the watch cache does not have yet": {
			stored: other(func(*corev1.Pod) {}), want: removal.VerdictReserved, reads: []string{"0", ""},
		},
		"a pod of the same name with another UID": {
			cached: other(func(p *corev1.Pod) { p.UID = "other" }), stored: other(func(p *corev1.Pod) { p.UID = "other" }),
			want: removal.VerdictNoPod, reads: []string{"0", ""},
		},
		"a pod with other labels": {
			cached: other(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "else"} }),
			stored: other(func(p *corev1.Pod) { p.Labels = map[string]string{"app": "else"} }),
			want:   removal.VerdictUnknown, reads: []string{"0", ""},
		},
		"a pod whose cell is unreachable":        {broken: unreachable, want: removal.VerdictReserved, reads: []string{"0"}},
		"the API server of the cell, of any pod": {proven: true, want: removal.VerdictReserved},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newMemoryFixture(t, memoryProtector("web", 1, 5))
			reads := d.serveMetadata(t, func(version string) (*metav1.PartialObjectMetadata, error) {
				if version == "0" {
					return c.cached, c.broken
				}
				return c.stored, c.broken
			})
			ctx := t.Context()
			if !c.proven {
				ctx = reviews.FromUnprovenCaller(ctx)
			}
			answer := d.reviewDeletion(ctx, t, memoryPod("web-0"))
			if answer.Verdict != c.want {
				t.Errorf("Review() has verdict %s, want %s", answer.Verdict, c.want)
			}
			if got, want := fmt.Sprintf("%q", *reads), fmt.Sprintf("%q", c.reads); got != want {
				t.Errorf("Review() read the pod at versions %s, want %s", got, want)
			}
			want := 0
			if answer.Allowed {
				want = 1
			}
			if got := quota.BudgetOf(d.stored(t, "web")).Reserved; got != want {
				t.Errorf("%d reservations, want %d", got, want)
			}
		})
	}
}

// The number of reads that unauthenticated callers cause is limited for each cell.
func TestVerificationReadsAreRateLimited(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("web", 0, 5))
	reads := d.serveMetadata(t, func(string) (*metav1.PartialObjectMetadata, error) { return nil, nil })
	d.verifier.limit(memoryCell).SetBurst(10)
	d.verifier.limit(memoryCell).SetLimit(0)
	ctx, cancel := context.WithTimeout(reviews.FromUnprovenCaller(t.Context()), time.Minute)
	defer cancel()
	for i := range 20 {
		pod := memoryPod("web-0")
		pod.UID = types.UID(fmt.Sprint("forged-", i))
		want := removal.VerdictNoPod
		if i >= 5 { // each takes two reads
			want = removal.VerdictUnknown
		}
		if answer := d.reviewDeletion(ctx, t, pod); answer.Verdict != want {
			t.Errorf("forged review %d: verdict %s, want %s", i, answer.Verdict, want)
		}
	}
	if len(*reads) != 10 {
		t.Errorf("%d reads, want 10", len(*reads))
	}
}
