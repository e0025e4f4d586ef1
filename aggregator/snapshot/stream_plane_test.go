package snapshot

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// recorder records the requests for pods. If refuseStreams is set, it responds like an API server that cannot stream
// lists.
type recorder struct {
	http.RoundTripper
	refuseStreams bool

	mu       sync.Mutex
	requests []url.Values
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	r.mu.Lock()
	r.requests = append(r.requests, query)
	r.mu.Unlock()
	if r.refuseStreams && query.Get("sendInitialEvents") != "" {
		return &http.Response{
			StatusCode: http.StatusUnprocessableEntity, Request: request, Header: http.Header{"Content-Type": {"text/plain"}},
			Body: io.NopCloser(strings.NewReader("sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")),
		}, nil
	}
	return r.RoundTripper.RoundTrip(request)
}

// podState is the snapshot's state of a pod, for comparison.
type podState struct {
	Facts     podhealth.Facts
	Namespace string
	Labels    map[string]string
}

func podStatesOf(s *Snapshot) map[quota.UIDHash]podState {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[quota.UIDHash]podState{}
	for hash, p := range s.pods.byHash {
		all[hash] = podState{p.facts, p.namespace.Value(), p.labels.ToMap(map[string]string{})}
	}
	return all
}

// The snapshot contains the pods that a consistent read returns, whether the API server streams the list or pages it.
// No request accepts a state from a cache.
func TestStreamBeginsWithNewestPods(t *testing.T) {
	config := testplane.Config(t)
	namespace := testplane.Namespace(t)
	plane := kubernetes.NewForConfigOrDie(config)
	makeMixedPods(t, plane, namespace, stream.PageSize+10)
	list, err := plane.CoreV1().Pods(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[quota.UIDHash]podState{}
	for i := range list.Items {
		p := &list.Items[i]
		want[quota.HashUID(p.UID)] = podState{podhealth.FactsOf(p), p.Namespace, p.Labels}
	}
	for _, paged := range []bool{false, true} {
		t.Run(map[bool]string{false: "streamed", true: "paged"}[paged], func(t *testing.T) {
			requests := &recorder{refuseStreams: paged}
			cell := testplane.Config(t)
			cell.ContentType = "application/vnd.kubernetes.protobuf"
			cell.Wrap(func(next http.RoundTripper) http.RoundTripper { requests.RoundTripper = next; return requests })
			s := New(func(types.NamespacedName, time.Duration) {}, func(err error) { t.Error(err) }, time.Now, time.Now)
			pods, err := NewTrimmedPods(cell)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.Stream(ctx, pods, testr.New(t))
			}()
			defer func() { cancel(); <-ended }()
			select {
			case <-s.listed:
			case <-ctx.Done():
				t.Fatalf("received no list; requests %v", requests.requests)
			}
			if diff := cmp.Diff(want, podStatesOf(s), cmp.AllowUnexported(podhealth.Facts{})); diff != "" {
				t.Errorf("pods (-want +got):\n%s", diff)
			}
			requests.check(t, paged)
		})
	}
}

func (r *recorder) check(t *testing.T, paged bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	pages := 0
	for _, requests := range r.requests {
		watch, version := requests.Get("watch") != "", requests.Get("resourceVersion")
		switch {
		case requests.Get("sendInitialEvents") == "true":
			if version != "" || requests.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan) {
				t.Errorf("streamed by %v, want the newest version", requests)
			}
		case watch:
			if version == "" || version == "0" {
				t.Errorf("watched by %v, want the version of the list", requests)
			}
		default:
			pages++
			if version != "" || requests.Get("limit") != fmt.Sprint(stream.PageSize) {
				t.Errorf("listed by %v, want a page of the newest version", requests)
			}
		}
	}
	if want := map[bool]int{false: 0, true: 2}[paged]; pages != want {
		t.Errorf("%d pages, want %d; requests %v", pages, want, r.requests)
	}
}

// makeMixedPods creates pods of which some are ready, terminating, or without a node.
func makeMixedPods(t *testing.T, plane kubernetes.Interface, namespace string, number int) {
	t.Helper()
	pods := plane.CoreV1().Pods(namespace)
	for i := range number {
		p := benchPod(i)
		p.Namespace = namespace
		if i%3 == 0 {
			p.Spec.NodeName = ""
		}
		if i%4 == 0 {
			p.Finalizers = []string{"example.com/stays"}
		}
		p, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
		if err == nil && i%2 == 0 {
			p.Status = benchStatus(p, metav1.Now())
			p, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		}
		if err == nil && i%4 == 0 {
			err = pods.Delete(t.Context(), p.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { deleteMixedPods(t, plane, namespace) })
}

// deleteMixedPods deletes all pods, because the following tests share the API server.
func deleteMixedPods(t *testing.T, plane kubernetes.Interface, namespace string) {
	pods, now := plane.CoreV1().Pods(namespace), int64(0)
	ctx := context.WithoutCancel(t.Context())
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	for i := range list.Items {
		p := &list.Items[i]
		if slices.Contains(p.Finalizers, "example.com/stays") {
			p.Finalizers = nil
			if _, err := pods.Update(ctx, p, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
		if err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	}
}
