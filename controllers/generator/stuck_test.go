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

// lossOf is the loss of one protector, which no keeper can recreate.
type lossOf struct {
	mu    sync.Mutex
	last  *v1alpha1.PodProtector
	asked int
}

func (l *lossOf) Note(*v1alpha1.PodProtector) {}

func (l *lossOf) Has(types.NamespacedName) bool { return false }

func (l *lossOf) Find(is func(last *v1alpha1.PodProtector) bool) (*v1alpha1.PodProtector, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return l.last, l.last != nil && is(l.last)
}

func (l *lossOf) Forget(last *v1alpha1.PodProtector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.UID == last.UID {
		l.last = nil
	}
}

func (l *lossOf) wasAsked() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// No keeper can recreate a protector in a namespace that is being deleted. The workload waits for a user, and then the namespace can be
// deleted.
func TestAConfirmedCascadeReleasesAWorkloadWhoseProtectorVanished(t *testing.T) {
	p := newPlane(t)
	account := p.brakeAccount()
	g := p.startWith(account, fewLimits())
	web := p.services(1, nil)[0]
	last := p.protector("deployment-web-0", "it is made", sourceFound)
	g.stop()

	// This is the state after an etcd lost the protector.
	edit(p, last, func(protector *v1alpha1.PodProtector) { protector.Finalizers = nil })
	p.delete(last)
	last.Finalizers = []string{v1alpha1.FinalizerProtector}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.delete(namespace)
	p.delete(web)

	loss := &lossOf{last: last}
	p.startWith(account, fewLimits(), func(o *Options) { o.Losses = loss })
	p.eventually("the generator has looked at the workload", func() string {
		if loss.wasAsked() < 2 {
			return fmt.Sprintf("asked %d times", loss.wasAsked())
		}
		return ""
	})
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatalf("the workload is released without a confirmation: %v", err)
	}
	if released, err := clusters.WasReleased(t.Context(), p, last); err != nil || released {
		t.Errorf("WasReleased() = %v, %v before a confirmation, want false", released, err)
	}

	edit(p, namespace, func(n *corev1.Namespace) {
		n.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
	})
	p.gone(web)
	if released, err := clusters.WasReleased(t.Context(), p, last); err != nil || !released {
		t.Errorf("WasReleased() = %v, %v, want true", released, err)
	}
}
