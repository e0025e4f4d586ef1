package reserve

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestMain(m *testing.M) { testplane.Main(m) }

const memoryCell = "c0"

// memoryFixture is a core cluster in memory, the only one.
type memoryFixture struct {
	*Cores
	core   *Core
	client client.Client

	mu sync.Mutex
	// fault wraps the next status writes; nil is no fault.
	fault func(write func() error) error
}

// testingT is the common interface of tests and fuzz tests.
type testingT interface {
	Helper()
	Fatal(...any)
}

func newMemoryFixture(t testingT, protectors ...*v1alpha1.PodProtector) *memoryFixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	d := &memoryFixture{}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.PodProtector{}).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption) error {
			write := func() error { return c.SubResource(subresource).Update(ctx, object, options...) }
			d.mu.Lock()
			fault := d.fault
			d.mu.Unlock()
			if fault != nil {
				return fault(write)
			}
			return write()
		},
	})
	for _, p := range protectors {
		builder = builder.WithObjects(p)
	}
	d.client = builder.Build()
	access := &clusters.Protectors{Cache: d.client, Live: d.client, Writer: d.client}
	metrics := NewMetrics(prometheus.NewRegistry())
	d.core = NewCore("core", access, &clusters.RestoreDetector{}, metrics, logr.Discard(), time.Now, func(string, types.NamespacedName) {})
	d.core.Synced.Store(true)
	for _, p := range protectors {
		d.core.States.SetCoverage(p)
	}
	d.Cores = NewCores(logr.Discard(), d.core)
	return d
}

func (d *memoryFixture) setFault(fault func(write func() error) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// stored returns the protector as it is stored in the core.
func (d *memoryFixture) stored(t testingT, name string) *v1alpha1.PodProtector {
	t.Helper()
	p := &v1alpha1.PodProtector{}
	if err := d.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// remove reserves the deletion of a pod with all protectors that cover it.
func (d *memoryFixture) remove(ctx context.Context, pod *corev1.Pod) removal.Decision {
	r := removal.Request{Operation: v1alpha1.OperationDelete, Namespace: pod.Namespace, PodName: pod.Name, Pod: removal.NewPod(pod)}
	covering, _, err := d.Covering(ctx, memoryCell, r)
	if err != nil {
		return removal.Deny(&removal.Denial{Cause: removal.CauseProtectorsUnknown, Detail: err.Error()})
	}
	return d.Reserve(ctx, covering, r.Attempt(memoryCell, time.Now(), NewToken()))
}

// memoryProtector covers the pods with app=web, of which available were counted.
func memoryProtector(name string, floor, available int32) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: memoryCell, Aggregation: v1alpha1.Aggregation{
		AvailableReplicas: available, CountedReplicas: available, CountedSpec: quota.CountedSpec(&p.Spec),
	}}}
	return p
}

func memoryPod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"app": "web"},
	}}
	p.Spec.NodeName = "node-1"
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}
