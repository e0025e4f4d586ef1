package review

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	kubernetesfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

const memoryCell = "c0"

// memoryFixture is a Protection with a core cluster in memory, for faults that a real cluster cannot be made to have.
type memoryFixture struct {
	*Protection
	core            *reserve.Core
	access          *clusters.Protectors
	restoreDetector *clusters.RestoreDetector
	metrics         *Metrics
	client          client.Client
	events          *events.FakeRecorder

	mu sync.Mutex
	// fault wraps the next status writes; nil is no fault.
	fault func(write func() error) error
	// rejected is the UID of a pod: the core rejects each object with a reservation of it.
	rejected types.UID
}

// testingT is the common interface of tests, fuzz tests and property tests.
type testingT interface {
	Helper()
	Fatal(...any)
}

func newMemoryFixture(t testingT, protectors ...*v1alpha1.PodProtector) *memoryFixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), eventsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	d := &memoryFixture{events: events.NewFakeRecorder(1000)}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.PodProtector{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceUpdate: d.update})
	for _, p := range protectors {
		builder = builder.WithObjects(p)
	}
	d.client = builder.Build()
	d.access = &clusters.Protectors{Cache: d.client, Live: d.client, Writer: d.client}
	d.restoreDetector = &clusters.RestoreDetector{}
	d.metrics = NewMetrics(prometheus.NewRegistry())
	d.core = reserve.NewCore("core", d.access, d.restoreDetector, reserve.NewMetrics(prometheus.NewRegistry()), logr.Discard(), time.Now, d.metrics.DropProtector)
	d.core.Events = d.events
	d.core.Synced.Store(true)
	for _, p := range protectors {
		d.core.States.SetCoverage(p)
	}
	d.connect(nil)
	return d
}

// connect recreates the Protection, with a tracer; nil creates no spans. others are further cores.
func (d *memoryFixture) connect(tracer *tracing.Tracer, others ...*reserve.Core) {
	c := &Cells{static: map[string]kubernetes.Interface{memoryCell: kubernetesfake.NewClientset()}}
	d.core.Trace(tracer)
	cores := reserve.NewCores(logr.Discard(), append([]*reserve.Core{d.core}, others...)...)
	d.Protection = New(cores, c, nil, d.metrics, tracer, logr.Discard(), time.Now)
	d.nodes.clientFor = func(string) (metadata.Interface, error) { return nil, errors.New("it has no nodes") }
}

func (d *memoryFixture) update(
	ctx context.Context, c client.Client, subresource string, object client.Object, options ...client.SubResourceUpdateOption,
) error {
	write := func() error {
		if object.GetResourceVersion() == "" { // an API server returns Invalid here, while the client in memory returns a conflict
			return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PodProtector").GroupKind(), object.GetName(), field.ErrorList{
				field.Invalid(field.NewPath("metadata", "resourceVersion"), "", "must be specified for an update"),
			})
		}
		return c.SubResource(subresource).Update(ctx, object, options...)
	}
	d.mu.Lock()
	fault, rejected := d.fault, d.rejected
	d.mu.Unlock()
	for i := range object.(*v1alpha1.PodProtector).Status.Cells {
		for r := range quota.Reservations(&object.(*v1alpha1.PodProtector).Status.Cells[i].AdmissionHistory) {
			if rejected != "" && r.Hash == quota.HashUID(rejected) {
				return apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("PodProtector").GroupKind(), object.GetName(), nil)
			}
		}
	}
	if fault != nil {
		return fault(write)
	}
	return write()
}

func (d *memoryFixture) setFault(fault func(write func() error) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// reject makes the core reject each object with a reservation of a pod; none if uid is empty.
func (d *memoryFixture) reject(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rejected = uid
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

// remove requests the deletion of a pod.
func (d *memoryFixture) remove(ctx context.Context, p *corev1.Pod) removal.Answer {
	return d.decided(ctx, removal.Request{
		Operation: v1alpha1.OperationDelete, Namespace: p.Namespace, PodName: p.Name, Pod: removal.NewPod(p),
	})
}

// decided returns the answer to a request about a pod that is scheduled and alive.
func (d *memoryFixture) decided(ctx context.Context, r removal.Request) removal.Answer {
	return d.protect(ctx, memoryCell, r)
}
