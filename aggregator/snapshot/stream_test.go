package snapshot

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// pagesOf returns a list function that serves these pods, two per page, and records its options.
func pagesOf(requests *[]metav1.ListOptions, pods ...corev1.Pod) func(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return func(_ context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		*requests = append(*requests, options)
		from := 0
		if options.Continue != "" {
			if _, err := fmt.Sscan(options.Continue, &from); err != nil {
				return nil, err
			}
		}
		page := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "70"}, Items: pods[from:min(from+2, len(pods))]}
		if from+2 < len(pods) {
			page.Continue = fmt.Sprint(from + 2)
		}
		return page, nil
	}
}

func TestListIsNewestAndPaged(t *testing.T) {
	for claim, options := range map[string]metav1.ListOptions{
		"the first, where a reflector is content with any": {ResourceVersion: "0"},
		"a later one, where it is content with one not older than what it knows": {
			ResourceVersion: "5", ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan},
		"one after the version it knows was lost": {},
	} {
		t.Run(claim, func(t *testing.T) {
			var requests []metav1.ListOptions
			var pods []corev1.Pod
			for i := range 5 {
				pods = append(pods, *samplePod(fmt.Sprint(i), fmt.Sprint(i), "1", nil))
			}
			listed, err := listStripped(t.Context(), options, &stream.Continuity{Now: time.Now}, stream.NewMemoryLimit("pods", stream.PodsLimitBytes), stripping(1), pagesOf(&requests, pods...))
			if err != nil {
				t.Fatal(err)
			}
			list, ok := listed.(*internalversion.List)
			if !ok || list.ResourceVersion != "70" || len(list.Items) != len(pods) {
				t.Fatalf("listed %+v, want %d pods at version 70", listed, len(pods))
			}
			for i := range list.Items {
				if p, ok := list.Items[i].(*pod); !ok || p.hash != quota.HashUID(pods[i].UID) {
					t.Errorf("listed %+v as pod %d", list.Items[i], i)
				}
			}
			want := []metav1.ListOptions{{Limit: stream.PageSize}, {Limit: stream.PageSize, Continue: "2"}, {Limit: stream.PageSize, Continue: "4"}}
			if diff := cmp.Diff(want, requests); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListThatFailsHalfwayReturnsNothing(t *testing.T) {
	var requests []metav1.ListOptions
	pages, failure := pagesOf(&requests, *samplePod("a", "a", "1", nil), corev1.Pod{}, corev1.Pod{}), errors.New("cut")
	listed, err := listStripped(t.Context(), metav1.ListOptions{}, &stream.Continuity{Now: time.Now}, stream.NewMemoryLimit("pods", stream.PodsLimitBytes), stripping(1), func(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
		if options.Continue != "" {
			return nil, failure
		}
		return pages(ctx, options)
	})
	if !errors.Is(err, failure) || listed != nil {
		t.Errorf("listed %v, error %v, want %v", listed, err, failure)
	}
}
