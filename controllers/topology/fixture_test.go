package topology

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a real core cluster and a real worker, with a controller that reconciles on demand, by a clock that the test sets.
type fixture struct {
	*testing.T
	client.Client
	*Reconciler
	namespace string
	clock     time.Time
	recorder  *events.FakeRecorder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := testplane.Client(t)
	l := &fixture{T: t, Client: c, namespace: testplane.Namespace(t), clock: time.Now(), recorder: events.NewFakeRecorder(100)}
	l.Reconciler = &Reconciler{
		Client: c, Live: c, Events: l.recorder, Monotonic: func() time.Time { return l.clock }, cellStates: map[string]cellState{},
	}
	return l
}

func (l *fixture) createCell(name string, change func(*v1alpha1.CellSpec)) *v1alpha1.Cell {
	l.Helper()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + name}}
	change(&cell.Spec)
	l.must(l.Create(l.Context(), cell))
	l.Cleanup(func() {
		now := &v1alpha1.Cell{}
		if l.Get(context.Background(), client.ObjectKeyFromObject(cell), now) == nil {
			now.Finalizers = nil
			_ = l.Update(context.Background(), now)
			_ = l.Delete(context.Background(), now)
		}
	})
	return cell
}

// createKubeconfig creates a Secret with a kubeconfig of the worker.
func (l *fixture) createKubeconfig(name string) func(*v1alpha1.CellSpec) {
	l.Helper()
	account := testplane.AsServiceAccount(l, testplane.Second(l), "default", l.namespace+"-"+name, "cluster-admin")
	ref := testplane.StoreKubeconfig(l, l, l.namespace, name, testplane.KubeconfigOf(l, account))
	return func(s *v1alpha1.CellSpec) { s.KubeconfigSecretRef = ref }
}

func (l *fixture) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) get(cell *v1alpha1.Cell) *v1alpha1.Cell {
	l.Helper()
	now := &v1alpha1.Cell{}
	l.must(l.Get(l.Context(), client.ObjectKeyFromObject(cell), now))
	return now
}

// reconcile reconciles a Cell.
func (l *fixture) reconcile(cell *v1alpha1.Cell) *v1alpha1.Cell {
	l.Helper()
	_, err := l.Reconcile(l.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cell)})
	l.must(err)
	stored := &v1alpha1.Cell{}
	if err := l.Get(l.Context(), client.ObjectKeyFromObject(cell), stored); apierrors.IsNotFound(err) {
		return nil
	}
	return stored
}

// writeHeartbeat writes a heartbeat, as an aggregator does.
func (l *fixture) writeHeartbeat(cell *v1alpha1.Cell) {
	l.Helper()
	now := l.get(cell)
	at := metav1.NewMicroTime(l.clock.Add(-24 * time.Hour)) // the aggregator has a clock of its own
	now.Status.Aggregator = v1alpha1.CellAggregator{Holder: "a", Epoch: 1, LastHeartbeat: &at}
	l.must(l.Client.Status().Update(l.Context(), now))
}

func (l *fixture) wantCondition(cell *v1alpha1.Cell, condition string, status metav1.ConditionStatus, reason string, words ...string) {
	l.Helper()
	have := meta.FindStatusCondition(cell.Status.Conditions, condition)
	if have == nil || have.Status != status || have.Reason != reason {
		l.Fatalf("condition %s is %+v, want status %s with reason %s", condition, have, status, reason)
	}
	for _, word := range words {
		if !strings.Contains(have.Message, word) {
			l.Errorf("condition %s has the message %q, want it to contain %q", condition, have.Message, word)
		}
	}
}

// drainEvents returns the events since the last call.
func (l *fixture) drainEvents() string {
	var all []string
	for {
		select {
		case event := <-l.recorder.Events:
			all = append(all, event)
		default:
			return strings.Join(all, "\n")
		}
	}
}

func (l *fixture) wantEvent(word string) {
	l.Helper()
	if all := l.drainEvents(); !strings.Contains(all, word) {
		l.Errorf("got events %q, want one that contains %q", all, word)
	}
}

// protect creates a protector of which each cell has counted five pods.
func (l *fixture) protect(floor int32, cells ...*v1alpha1.Cell) *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: fmt.Sprint("p-", floor)}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(floor)
	l.must(l.Create(l.Context(), p))
	for _, cell := range cells {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: cell.Name, Aggregation: v1alpha1.Aggregation{
			CountedReplicas: 5, CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "7", Epoch: 3, Holder: "a", LastEventTime: metav1.NowMicro(),
		}})
	}
	quota.Summarize(p)
	l.must(l.Client.Status().Update(l.Context(), p))
	return p
}

func (l *fixture) protector(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	l.Helper()
	now := &v1alpha1.PodProtector{}
	l.must(l.Get(l.Context(), client.ObjectKeyFromObject(p), now))
	return now
}
