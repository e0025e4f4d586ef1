package review

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// serveLists makes the fixture's cell serve lists of pods; nil is an error. It answers each read of a single pod by 404.
func (d *memoryFixture) serveLists(t *testing.T, pods *[]metav1.PartialObjectMetadata) (requests *[]string) {
	t.Helper()
	requests = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/pods") {
			*requests = append(*requests, "get")
			deny(w, http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		*requests = append(*requests, "list "+r.URL.Query().Get("labelSelector"))
		if *pods == nil {
			deny(w, http.StatusForbidden, metav1.StatusReasonForbidden)
			return
		}
		reply(w, http.StatusOK, &metav1.PartialObjectMetadataList{
			TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}, Items: *pods,
		})
	}))
	t.Cleanup(server.Close)
	client, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	d.cells.staticMetadata = map[string]metadata.Interface{memoryCell: client}
	return requests
}

// In a storm of unauthenticated reviews, one list verifies the pods that it has. All other pods are read one by one.
func TestListsVerifyStorms(t *testing.T) {
	for claim, c := range map[string]struct {
		underWay, total int32
		pods            []metav1.PartialObjectMetadata
		reviewed        []string
		want            []removal.VerdictReason
		requests        []string
	}{
		"few removals cause no list": {
			underWay: listFrom - 2, pods: []metav1.PartialObjectMetadata{*metadataOf(memoryPod("web-0"))}, reviewed: []string{"web-0"},
			want: []removal.VerdictReason{removal.VerdictNoPod}, requests: []string{"get", "get"},
		},
		"one list for all pods that it has": {
			underWay: listFrom, pods: []metav1.PartialObjectMetadata{*metadataOf(memoryPod("web-0")), *metadataOf(memoryPod("web-1"))},
			reviewed: []string{"web-0", "web-1", "web-2"},
			want:     []removal.VerdictReason{removal.VerdictReserved, removal.VerdictReserved, removal.VerdictNoPod},
			requests: []string{"list app=web", "get", "get"},
		},
		"a list of a cell that forbids it is not repeated": {
			underWay: listFrom, reviewed: []string{"web-0", "web-1"},
			want:     []removal.VerdictReason{removal.VerdictNoPod, removal.VerdictNoPod},
			requests: []string{"list app=web", "get", "get", "get", "get"},
		},
		"too many pods are not listed": {
			underWay: listFrom, total: maxListedPods + 1, pods: []metav1.PartialObjectMetadata{*metadataOf(memoryPod("web-0"))}, reviewed: []string{"web-0"},
			want: []removal.VerdictReason{removal.VerdictNoPod}, requests: []string{"get", "get"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			protector := memoryProtector("web", 1, 9)
			protector.Status.Cells[0].Aggregation.TotalReplicas = c.total
			d := newMemoryFixture(t, protector)
			requests := d.serveLists(t, &c.pods)
			charges, _, err := d.cores.Covering(t.Context(), memoryCell, removal.Request{Namespace: "default", Pod: removal.NewPod(memoryPod("web-0"))})
			if err != nil {
				t.Fatal(err)
			}
			for range c.underWay {
				_, _, end := d.verifier.lists.begin(memoryCell, charges)
				defer end()
			}
			var got []removal.VerdictReason
			for _, name := range c.reviewed {
				got = append(got, d.reviewDeletion(reviews.FromUnprovenCaller(t.Context()), t, memoryPod(name)).Verdict)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("Review() has verdicts %v, want %v", got, c.want)
			}
			if got, want := fmt.Sprintf("%q", *requests), fmt.Sprintf("%q", c.requests); got != want {
				t.Errorf("Review() requested %s, want %s", got, want)
			}
		})
	}
}

// A pod whose labels changed since is not verified by the list, nor one that has another UID.
func TestListsCompareUIDAndLabels(t *testing.T) {
	relabeled, recreated := metadataOf(memoryPod("web-0")), metadataOf(memoryPod("web-1"))
	relabeled.Labels, recreated.UID = map[string]string{"app": "web", "tier": "front"}, "other"
	pods := []metav1.PartialObjectMetadata{*relabeled, *recreated}
	d := newMemoryFixture(t, memoryProtector("web", 1, 9))
	d.serveLists(t, &pods)
	charges, _, err := d.cores.Covering(t.Context(), memoryCell, removal.Request{Namespace: "default", Pod: removal.NewPod(memoryPod("web-0"))})
	if err != nil {
		t.Fatal(err)
	}
	for range listFrom {
		_, _, end := d.verifier.lists.begin(memoryCell, charges)
		defer end()
	}
	for _, name := range []string{"web-0", "web-1"} {
		if got := d.reviewDeletion(reviews.FromUnprovenCaller(t.Context()), t, memoryPod(name)).Verdict; got != removal.VerdictNoPod {
			t.Errorf("Review() of %s has verdict %s, want %s", name, got, removal.VerdictNoPod)
		}
	}
	if len(d.verifier.lists.byTarget) != 1 {
		t.Errorf("%d lists are kept, want 1", len(d.verifier.lists.byTarget))
	}
}
