package aggregator

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/largecluster"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// cell returns a client of the cell's cluster that uses protobuf.
func (l *benchFixture) cell() kubernetes.Interface {
	config := rest.CopyConfig(testplane.Config(l))
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfigOrDie(config)
}

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

// createPods creates pods of the crowd until there are that many. They do not get a status as from a kubelet, which
// would be a second write for each.
func (l *benchFixture) createPods(pods int) {
	l.Helper()
	cell := l.cell()
	l.parallel(l.pods, pods, func(i int) error { return createPod(l, cell, largecluster.Pod(i)) })
	l.pods = max(l.pods, pods)
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
	cell := l.cell()
	l.parallel(max(l.applications, largecluster.ReplicaSets), protectors, func(app int) error {
		return createPod(l, cell, largecluster.PodOf(app, app))
	})
	l.applications = max(l.applications, protectors)
}

func createPod(l *benchFixture, cell kubernetes.Interface, p *corev1.Pod) error {
	if _, err := cell.CoreV1().Pods(p.Namespace).Create(l.Context(), p, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create pod %s of the crowd: %w", p.Name, err)
	}
	return nil
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
