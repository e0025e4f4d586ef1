package keeper_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a namespace of a real API server, with the rights of an administrator.
type fixture struct {
	*testing.T
	client.Client
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t, testplane.Client(t), testplane.Namespace(t)}
}

// start runs a keeper with that account and the cache of the generator, until the test ends or stop is called.
func (p *fixture) start(account *rest.Config) (stop func()) {
	p.Helper()
	return testplane.StartManager(p, account, func(ctx context.Context, mgr manager.Manager) error {
		return keeper.Setup(ctx, mgr, prometheus.NewRegistry(), keeper.NewLosses(), nil, nil)
	}, func(o *manager.Options) { o.Cache, o.Logger = generator.CacheOptions(), testr.New(p.T) })
}

// account returns a user with the rights of the generator, which has the keeper.
func (p *fixture) account() *rest.Config {
	p.Helper()
	return testplane.User(p, "keeper-of-"+p.namespace, roles.Rules(p, "generator"))
}

func (p *fixture) create(object client.Object) {
	p.Helper()
	if err := p.Create(p.Context(), object); err != nil {
		p.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

func (p *fixture) key() client.ObjectKey {
	return client.ObjectKey{Namespace: p.namespace, Name: "web"}
}

// protect creates a protector that was not generated, with counts and a reservation.
func (p *fixture) protect() *v1alpha1.PodProtector {
	p.Helper()
	protector := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: "web", Labels: map[string]string{"team": "shop"},
		Annotations: map[string]string{"example.com/why": "the till"},
	}}
	protector.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	protector.Spec.MinAvailable = v1alpha1.Pods(3)
	p.create(protector)
	now, before := metav1.NowMicro(), protector.DeepCopy()
	protector.Status.Cells = []v1alpha1.PodProtectorCell{{
		CellID: "worker-1", Aggregation: v1alpha1.Aggregation{
			CountedReplicas: 5, AvailableReplicas: 5, CountedSpec: quota.CountedSpec(&protector.Spec), SnapshotVersion: "7", Epoch: 4, Holder: "leader",
			LastEventTime: now,
		},
		AdmissionHistory: v1alpha1.AdmissionHistory{Buckets: []v1alpha1.Bucket{{
			StartTime: now, Counter: 1, PodUID: "uid-1", PodName: "web-1", Operation: v1alpha1.OperationDelete,
		}}},
	}}
	if err := p.Status().Patch(p.Context(), protector, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
	return protector
}

// apply sets annotations of the protector as a field manager that sets nothing else.
func (p *fixture) apply(annotations map[string]any) {
	p.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "PodProtector",
		"metadata": map[string]any{"namespace": p.namespace, "name": "web", "annotations": annotations},
	}}
	if err := p.Apply(p.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("shop")); err != nil {
		p.Fatal(err)
	}
}

// stored returns the protector from the API server; nil when it does not exist.
func (p *fixture) stored() *v1alpha1.PodProtector {
	p.Helper()
	protector := &v1alpha1.PodProtector{}
	err := p.Get(p.Context(), p.key(), protector)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.Fatal(err)
	}
	return protector
}

func (p *fixture) eventually(unmet func() string) { p.Helper(); testplane.Eventually(p, unmet) }

func (p *fixture) waitUntilHeld() {
	p.Helper()
	p.eventually(func() string {
		if stored := p.stored(); stored == nil || !slices.Contains(stored.Finalizers, v1alpha1.FinalizerHold) {
			return fmt.Sprintf("protector has no finalizer of the keeper: %+v", stored)
		}
		return ""
	})
}

func (p *fixture) waitUntilDeleted() {
	p.Helper()
	p.eventually(func() string {
		if stored := p.stored(); stored != nil {
			return fmt.Sprintf("protector exists: %+v", stored)
		}
		return ""
	})
}

func TestDeletedProtectorIsReleased(t *testing.T) {
	p := newFixture(t)
	account := p.account()
	stop := p.start(account)
	protector := p.protect()
	p.waitUntilHeld()
	if err := p.Delete(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	p.waitUntilDeleted()
	if released, err := clusters.WasReleased(t.Context(), p, protector); err != nil || !released {
		t.Errorf("WasReleased() = %v (%v), want true", released, err)
	}

	// While no keeper runs, a deleted protector stays.
	protector = p.protect()
	p.waitUntilHeld()
	stop()
	if err := p.Delete(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	if p.stored() == nil {
		t.Fatal("protector was deleted while no keeper was running")
	}
	p.start(account)
	p.waitUntilDeleted()
}

func TestVanishedProtectorIsRecreatedWithReservations(t *testing.T) {
	p := newFixture(t)
	p.start(p.account())
	before := p.protect()
	p.waitUntilHeld()
	p.apply(map[string]any{"example.com/owner": "shop"})
	testplane.Erase(t, v1alpha1.GroupVersion.Group, "podprotectors", p.namespace, "web")
	p.eventually(func() string {
		stored := p.stored()
		if stored == nil || stored.UID == before.UID || quota.IsRestorePending(stored) {
			return fmt.Sprintf("protector is not recreated: %+v", stored)
		}
		return ""
	})
	after := p.stored()
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("spec differs (-before +after):\n%s", diff)
	}
	if after.Labels["team"] != "shop" || after.Annotations["example.com/why"] != "the till" ||
		after.Annotations[v1alpha1.AnnotationRestored] != string(before.UID) || !slices.Contains(after.Finalizers, v1alpha1.FinalizerHold) {
		t.Errorf("got metadata %+v, want that of the earlier protector", after.ObjectMeta)
	}
	if diff := cmp.Diff(before.Status.Cells[0].AdmissionHistory, after.Status.Cells[0].AdmissionHistory); diff != "" {
		t.Errorf("reservations differ (-before +after):\n%s", diff)
	}
	if a := after.Status.Cells[0].Aggregation; !a.Void || a.CountedReplicas != 0 || a.Epoch != 4 || a.Holder != "leader" || a.SnapshotVersion != "7" {
		t.Errorf("got counts %+v, want void ones of the same leader", a)
	}
	if got := quota.Decide(after.DeepCopy(), []quota.Removal{{Cell: "worker-1", PodUID: "uid-2"}})[0].Outcome; got != quota.DeniedRestored {
		t.Errorf("Decide() = %s, want RefusedRestored until all cells have counted again", got)
	}
	condition := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionRestored)
	if condition == nil || !strings.Contains(condition.Message, "It has its 1 earlier reservation.") {
		t.Errorf("got condition %+v, want one that names 1 reservation", condition)
	}
	p.eventually(func() string {
		events := &eventsv1.EventList{}
		if err := p.List(t.Context(), events, client.InNamespace(p.namespace)); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == "Restored" && e.Regarding.UID == after.UID }) {
			return fmt.Sprintf("no Restored event among %+v", events.Items)
		}
		return ""
	})
	// The field managers own their fields again. The keeper owns none, so that what they no longer set is removed.
	p.eventually(func() string {
		if stored := p.stored(); stored.Annotations[v1alpha1.AnnotationRestoredOwners] != "" {
			return fmt.Sprintf("protector still carries the record of its owners: %+v", stored.ObjectMeta)
		}
		return ""
	})
	p.apply(map[string]any{})
	if stored := p.stored(); stored.Annotations["example.com/owner"] != "" || stored.Annotations["example.com/why"] != "the till" {
		t.Errorf("got annotations %v, want only that removed which its field manager no longer sets", stored.Annotations)
	}
	// It can vanish again, and it can be deleted like any other.
	testplane.Erase(t, v1alpha1.GroupVersion.Group, "podprotectors", p.namespace, "web")
	p.eventually(func() string {
		stored := p.stored()
		if stored == nil || stored.UID == after.UID || quota.IsRestorePending(stored) || quota.BudgetOf(stored).Reserved != 1 {
			return fmt.Sprintf("protector is not recreated a second time: %+v", stored)
		}
		return ""
	})
	if err := p.Delete(t.Context(), p.stored()); err != nil {
		t.Fatal(err)
	}
	p.waitUntilDeleted()
}
