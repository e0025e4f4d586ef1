package keeper_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/brake"
	"github.com/breakwater-k8s/breakwater/controllers/generator"
	"github.com/breakwater-k8s/breakwater/controllers/keeper"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// startWithBrake runs a keeper that may release two protectors in a window longer than any test.
func (p *fixture) startWithBrake() {
	p.Helper()
	account := testplane.User(p, "keeper-of-"+p.namespace, slices.Concat(roles.Rules(p, "generator"), roles.Rules(p, "grants")))
	limits := core.Limits{Count: 2, Window: time.Hour, Quiet: time.Second, OnCascade: v1alpha1.CascadeHold}
	testplane.StartManager(p, account, func(ctx context.Context, mgr manager.Manager) error {
		registry := prometheus.NewRegistry()
		held, err := brake.Setup(ctx, mgr, brake.Options{Limits: limits, Namespace: p.namespace, Registry: registry})
		if err != nil {
			return err
		}
		return keeper.Setup(ctx, mgr, registry, keeper.NewLosses(), nil, held)
	}, func(o *manager.Options) { o.Cache, o.Logger = generator.CacheOptions(), testr.New(p.T) })
}

// createHeldProtectors creates protectors that the keeper holds.
func (p *fixture) createHeldProtectors(n int) (all []*v1alpha1.PodProtector) {
	p.Helper()
	for i := range n {
		protector := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: fmt.Sprint("web-", i)}}
		protector.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": protector.Name}}
		protector.Spec.MinAvailable = v1alpha1.Pods(3)
		p.create(protector)
		all = append(all, protector)
	}
	for _, protector := range all {
		p.waitForProtector(protector, func(stored *v1alpha1.PodProtector) bool {
			return stored != nil && slices.Contains(stored.Finalizers, v1alpha1.FinalizerHold)
		})
	}
	return all
}

// waitForProtector waits until is returns true for the protector, which is nil when it does not exist.
func (p *fixture) waitForProtector(protector *v1alpha1.PodProtector, matches func(*v1alpha1.PodProtector) bool) {
	p.Helper()
	p.eventually(func() string {
		stored := &v1alpha1.PodProtector{}
		if err := p.Get(p.Context(), client.ObjectKeyFromObject(protector), stored); client.IgnoreNotFound(err) != nil {
			return err.Error()
		} else if err != nil {
			stored = nil
		}
		if !matches(stored) {
			return fmt.Sprintf("protector %s is %+v, want another state", protector.Name, stored)
		}
		return ""
	})
}

func isDeleted(stored *v1alpha1.PodProtector) bool { return stored == nil }

func isPendingWithReason(reason string) func(*v1alpha1.PodProtector) bool {
	return func(stored *v1alpha1.PodProtector) bool {
		if stored == nil {
			return false
		}
		c := meta.FindStatusCondition(stored.Status.Conditions, v1alpha1.ConditionDecreasePending)
		return c != nil && c.Status == metav1.ConditionTrue && c.Reason == reason
	}
}

func (p *fixture) delete(objects ...client.Object) {
	p.Helper()
	for _, object := range objects {
		if err := p.Delete(p.Context(), object); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *fixture) confirm(object client.Object) {
	p.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: "true"}}}`, v1alpha1.AnnotationConfirmRelease)
	if err := p.Patch(p.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		p.Fatal(err)
	}
}

func TestManySimultaneousDeletionsAreHeld(t *testing.T) {
	p := newFixture(t)
	p.startWithBrake()
	all := p.createHeldProtectors(5)
	p.delete(all[0])
	p.waitForProtector(all[0], isDeleted)

	for _, protector := range all[1:] {
		p.delete(protector)
	}
	for _, protector := range all[1:] {
		p.waitForProtector(protector, isPendingWithReason(v1alpha1.ReasonLimitExceeded))
	}
	p.confirm(all[1])
	p.waitForProtector(all[1], isDeleted)
	for _, protector := range all[2:] {
		p.waitForProtector(protector, isPendingWithReason(v1alpha1.ReasonLimitExceeded))
	}
	p.confirm(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}})
	for _, protector := range all[2:] {
		p.waitForProtector(protector, isDeleted)
	}
}

func TestProtectorDeletedWithNamespaceIsHeldUntilConfirmed(t *testing.T) {
	p := newFixture(t)
	p.startWithBrake()
	all, namespace := p.createHeldProtectors(1), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	p.delete(namespace, all[0])
	p.waitForProtector(all[0], isPendingWithReason(v1alpha1.ReasonCascade))
	p.confirm(namespace)
	p.waitForProtector(all[0], isDeleted)
}

func TestProtectorWithoutFloorIsReleasedImmediately(t *testing.T) {
	p := newFixture(t)
	p.startWithBrake()
	all := p.createHeldProtectors(5)
	for _, protector := range all {
		patch := []byte(`{"spec": {"minAvailable": 0}}`)
		if err := p.Patch(t.Context(), protector, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
		p.delete(protector)
	}
	for _, protector := range all {
		p.waitForProtector(protector, isDeleted)
	}
}
