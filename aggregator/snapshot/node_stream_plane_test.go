package snapshot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unique"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// partition is a connection to an API server that can be cut, including its open requests.
type partition struct {
	next http.RoundTripper
	cut  atomic.Pointer[context.Context]
	end  context.CancelFunc
}

func newPartition(next http.RoundTripper) *partition {
	p := &partition{next: next}
	p.heal()
	return p
}

func (p *partition) heal() {
	whole, end := context.WithCancel(context.Background())
	p.end = end
	p.cut.Store(&whole)
}

func (p *partition) RoundTrip(request *http.Request) (*http.Response, error) {
	whole := *p.cut.Load()
	if whole.Err() != nil {
		return nil, errors.New("no route to host")
	}
	ctx, cancel := context.WithCancel(request.Context())
	context.AfterFunc(whole, cancel)
	return p.next.RoundTrip(request.WithContext(ctx))
}

// makeNodes creates nodes whose names begin with a prefix: every other one is in a zone.
func makeNodes(t *testing.T, plane kubernetes.Interface, prefix string, number int) (zones map[string]string) {
	t.Helper()
	zones = map[string]string{}
	for i := range number {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%03d", prefix, i), Labels: map[string]string{"other": "label"}}}
		if i%2 == 0 {
			node.Labels[zoneLabel] = fmt.Sprint("zone-", i%3)
			zones[node.Name] = node.Labels[zoneLabel]
		}
		if _, err := plane.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = plane.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	}
	return zones
}

// zonesOf returns the known domains of nodes with that prefix; nil before they are read.
func zonesOf(n *nodes, prefix string) map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.labels[zoneLabel].domains == nil {
		return nil
	}
	zones := map[string]string{}
	for name, zone := range n.labels[zoneLabel].domains {
		if strings.HasPrefix(name.Value(), prefix) {
			zones[name.Value()] = zone.Value()
		}
	}
	return zones
}

// The stream has the nodes of the API server, whether it streams the list or pages it. After a partition it shows what changed
// meanwhile.
func TestNodeStreamFollowsAPIServer(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(map[bool]string{false: "streamed", true: "paged"}[paged], func(t *testing.T) {
			plane := kubernetes.NewForConfigOrDie(testplane.Config(t))
			prefix := testplane.Namespace(t)
			zones := makeNodes(t, plane, prefix, stream.PageSize+10)
			requests, cut := &recorder{refuseStreams: paged}, (*partition)(nil)
			cell := testplane.Config(t)
			cell.Wrap(func(next http.RoundTripper) http.RoundTripper {
				requests.RoundTripper = next
				cut = newPartition(requests)
				return cut
			})
			n := newNodes(func([]types.NamespacedName, map[unique.Handle[string]]bool) {}, func(types.NamespacedName) {}, time.Now)
			n.requestLabel(types.NamespacedName{Namespace: prefix, Name: "web"}, zoneLabel)
			source := metadata.NewForConfigOrDie(cell).Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				(&nodeStore{nodes: n, source: source, labels: []string{zoneLabel}, log: testr.New(t)}).run(ctx)
			}()
			defer func() { cancel(); <-ended }()
			want := func(claim string) {
				t.Helper()
				testplane.Eventually(t, func() string {
					if diff := cmp.Diff(zones, zonesOf(n, prefix)); diff != "" {
						return claim + ": zones (-want +got):\n" + diff
					}
					return ""
				})
			}
			want("at first")
			requests.checkPages(t, paged)

			cut.end()
			testplane.Eventually(t, func() string {
				if n.mu.Lock(); n.problem == "" {
					defer n.mu.Unlock()
					return "the partition is not detected yet"
				}
				n.mu.Unlock()
				return ""
			})
			relabeled := prefix + "-000"
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"elsewhere"}}}`, zoneLabel)
			if _, err := plane.CoreV1().Nodes().Patch(t.Context(), relabeled, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(zones, zonesOf(n, prefix)); diff != "" {
				t.Errorf("in a partition: zones (-want +got):\n%s", diff)
			}
			cut.heal()
			zones[relabeled] = "elsewhere"
			want("when it is over")
		})
	}
}

// checkPages fails unless nodes were streamed, or listed page by page, as paged says.
func (r *recorder) checkPages(t *testing.T, paged bool) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	pages := 0
	for _, requests := range r.requests {
		if requests.Get("watch") == "" {
			pages++
			if requests.Get("limit") != fmt.Sprint(stream.PageSize) {
				t.Errorf("listed by %v, want a page", requests)
			}
		}
	}
	if paged && pages < 2 || !paged && pages > 0 {
		t.Errorf("%d pages were listed: %v", pages, r.requests)
	}
}
