package generator

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// fakeLosses is the loss of one protector, which no keeper can recreate.
type fakeLosses struct {
	mu      sync.Mutex
	last    *v1alpha1.PodProtector
	lookups int
}

func (l *fakeLosses) Record(*v1alpha1.PodProtector, bool) {}

func (l *fakeLosses) Has(types.NamespacedName) bool { return false }

func (l *fakeLosses) Find(matches func(last *v1alpha1.PodProtector) bool) (*v1alpha1.PodProtector, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lookups++
	return l.last, l.last != nil && matches(l.last)
}

func (l *fakeLosses) Forget(last *v1alpha1.PodProtector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.UID == last.UID {
		l.last = nil
	}
}

func (l *fakeLosses) lookupCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lookups
}

// No keeper can recreate a protector in a namespace that is being deleted. The workload waits for a user, and then the namespace can be
// deleted.
func TestConfirmedCascadeReleasesWorkloadWithVanishedProtector(t *testing.T) {
	p := newFixture(t)
	account := p.accountWithBrake()
	g := p.startWith(account, limitOfTwoDecreases())
	web := p.createProtectedDeployments(1, nil)[0]
	last := p.waitForProtector("deployment-web-0", "the PodProtector is created", isSourceFound)
	g.stop()

	// This is the state after an etcd lost the protector.
	edit(p, last, func(protector *v1alpha1.PodProtector) { protector.Finalizers = nil })
	p.delete(last)
	last.Finalizers = []string{v1alpha1.FinalizerProtector}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.delete(namespace)
	p.delete(web)

	loss := &fakeLosses{last: last}
	p.startWith(account, limitOfTwoDecreases(), func(o *Options) { o.Losses = loss })
	p.eventually("the generator reconciles the workload", func() string {
		if loss.lookupCount() < 2 {
			return fmt.Sprintf("got %d lookups so far", loss.lookupCount())
		}
		return ""
	})
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatalf("workload was released without a confirmation: %v", err)
	}
	if released, err := clusters.WasReleased(t.Context(), p, last); err != nil || released {
		t.Errorf("WasReleased() = %v, %v before a confirmation, want false", released, err)
	}

	edit(p, namespace, func(n *corev1.Namespace) {
		n.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
	})
	p.waitUntilDeleted(web)
	if released, err := clusters.WasReleased(t.Context(), p, last); err != nil || !released {
		t.Errorf("WasReleased() = %v, %v, want true", released, err)
	}
}
