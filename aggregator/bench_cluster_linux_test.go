package aggregator

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// parallel calls do for each number in [from, to), in 32 goroutines.
func (l *benchFixture) parallel(from, to int, do func(i int) error) {
	l.Helper()
	var next atomic.Int64
	next.Store(int64(from))
	running, ctx := errgroup.WithContext(l.Context())
	for range 32 {
		running.Go(func() error {
			for i := int(next.Add(1)) - 1; i < to && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	l.check(running.Wait())
}

// createPods stores pods of the crowd until there are that many.
func (l *benchFixture) createPods(pods int) {
	l.Helper()
	l.storePods(l.pods, pods, func(i int) *corev1.Pod { return largecluster.Received(largecluster.Pod(i), i) })
	l.pods = max(l.pods, pods)
}

// storePods stores a pod for each number in [from, to).
func (l *benchFixture) storePods(from, to int, pod func(i int) *corev1.Pod) {
	l.Helper()
	testplane.StorePods(l, func(yield func(*corev1.Pod) bool) {
		for i := from; i < to && yield(pod(i)); i++ {
		}
	})
}

// setProtectors creates or deletes protectors until exactly the first protectors applications have one.
func (l *benchFixture) setProtectors(protectors int) {
	l.Helper()
	l.parallel(l.protectors, protectors, func(app int) error { return l.core.Create(l.Context(), largecluster.Protector(app)) })
	l.parallel(protectors, l.protectors, func(app int) error { return l.core.Delete(l.Context(), largecluster.Protector(app)) })
	l.protectors = protectors
}

// createProtectors declares protectors. Applications beyond those that share the crowd also get one pod each.
func (l *benchFixture) createProtectors(protectors int) {
	l.Helper()
	l.setProtectors(protectors)
	const serials = 1_000_000 // more than the crowd has pods
	l.storePods(max(l.applications, largecluster.ReplicaSets), protectors, func(app int) *corev1.Pod {
		return largecluster.Received(largecluster.PodOf(app, app), serials+app)
	})
	l.applications = max(l.applications, protectors)
}

// coveredPods returns how many pods all protectors cover, when the crowd has pods pods.
func (l *benchFixture) coveredPods(pods int) int {
	alone := max(0, min(l.applications, l.protectors)-largecluster.ReplicaSets)
	whole, rest := pods/largecluster.ReplicaSets, pods%largecluster.ReplicaSets
	sharing := min(l.protectors, largecluster.ReplicaSets)
	return sharing*whole + min(sharing, rest) + alone
}

// makeNamespaces creates the namespaces of the crowd.
func (l *benchFixture) makeNamespaces() {
	l.Helper()
	for app := range largecluster.Namespaces {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: largecluster.Namespace(app)}}
		l.check(client.IgnoreAlreadyExists(l.core.Create(l.Context(), namespace)))
	}
}
