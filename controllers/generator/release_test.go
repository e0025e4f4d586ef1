package generator

import (
	"context"
	"errors"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

func TestDeletedDeploymentReleasesProtector(t *testing.T) {
	for claim, c := range map[string]struct {
		policy metav1.DeletionPropagation
		// left are the finalizers for the garbage collector, which does not run here.
		left []string
	}{
		"in the background": {metav1.DeletePropagationBackground, nil},
		"in the foreground": {metav1.DeletePropagationForeground, []string{metav1.FinalizerDeleteDependents}},
		"leaving orphans":   {metav1.DeletePropagationOrphan, []string{metav1.FinalizerOrphanDependents}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			g := p.start()
			web := p.deployment("web", nil)
			p.create(web)
			protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

			p.delete(web, client.PropagationPolicy(c.policy))
			p.waitUntilDeleted(protector)
			if c.left == nil {
				p.waitUntilDeleted(web)
			} else {
				p.eventually("only the finalizer of the garbage collector remains", func() string {
					if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
						return err.Error()
					}
					if slices.Equal(web.Finalizers, c.left) {
						return ""
					}
					return dump(web)
				})
				edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
				p.waitUntilDeleted(web)
			}
			if vanished := g.metric(t, "breakwater_generator_vanished_sources", ""); vanished != 0 {
				t.Errorf("metric shows %v vanished sources after a deletion, want 0", vanished)
			}
		})
	}
}

func TestOptOutReleasesProtector(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

	edit(p, web, func(d *appsv1.Deployment) { delete(d.Labels, v1alpha1.LabelProtect) })
	p.waitUntilDeleted(protector)
	p.eventually("the Deployment lost only the finalizer of the generator", func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err.Error()
		}
		if len(web.Finalizers) == 0 && web.DeletionTimestamp == nil {
			return ""
		}
		return dump(web)
	})
	edit(p, web, func(d *appsv1.Deployment) { d.Labels = map[string]string{v1alpha1.LabelProtect: "true"} })
	p.waitForProtector("deployment-web", "opting in again creates a new PodProtector", func(got *v1alpha1.PodProtector) bool {
		return got.UID != protector.UID && isSourceFound(got)
	})
}

func TestRemovedSourceFinalizerIsRestored(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/theirs"} })
	p.create(web)
	p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/theirs"} })
	p.eventually("both finalizers exist", func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err.Error()
		}
		if slices.Contains(web.Finalizers, v1alpha1.FinalizerSource) && slices.Contains(web.Finalizers, "example.com/theirs") {
			return ""
		}
		return dump(web)
	})
}

// A generator that is killed stops between two of its writes. Each case is the state after one of them.
func TestInterruptedReleaseIsCompleted(t *testing.T) {
	for claim, c := range map[string]struct {
		interrupt func(p *fixture, web *appsv1.Deployment, protector *v1alpha1.PodProtector)
	}{
		"before its first write": {func(*fixture, *appsv1.Deployment, *v1alpha1.PodProtector) {}},
		"after the protector's finalizer was removed": {func(p *fixture, _ *appsv1.Deployment, protector *v1alpha1.PodProtector) {
			edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
		}},
		"after the protector was deleted": {func(p *fixture, _ *appsv1.Deployment, protector *v1alpha1.PodProtector) {
			edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
			p.delete(protector)
			p.waitUntilDeleted(protector)
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			account := p.account(p.rules())
			first := p.startAs(account)
			web := p.deployment("web", nil)
			p.create(web)
			protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
			first.stop()

			p.delete(web)
			c.interrupt(p, web, protector.DeepCopy())

			p.startAs(account)
			p.waitUntilDeleted(protector)
			p.waitUntilDeleted(web)
		})
	}
}

// A release that stopped after it was recorded, and whose source is wanted again, is finished: the record would count for the protector, too.
func TestRecordedReleaseIsFinishedBeforeItsSourceIsProtectedAgain(t *testing.T) {
	p := newFixture(t)
	account := p.account(p.rules())
	first := p.startAs(account)
	p.create(p.deployment("web", nil))
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
	first.stop()
	edit(p, protector.DeepCopy(), func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
	if err := clusters.RecordRelease(t.Context(), p.Client, protector, Name); err != nil {
		t.Fatal(err)
	}

	p.startAs(account)
	p.waitForProtector("deployment-web", "a new PodProtector is created", func(got *v1alpha1.PodProtector) bool {
		return got.UID != protector.UID && isSourceFound(got)
	})
}

// A protector that was changed since its release was granted stays, and must be known to be lost if it vanishes.
func TestFailedReleaseIsNotRecorded(t *testing.T) {
	scheme := clusters.Scheme()
	wanted := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "a", Generation: 2, Finalizers: []string{v1alpha1.FinalizerProtector},
	}}
	core := fake.NewClientBuilder().WithScheme(scheme).WithObjects(wanted).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("the test of the generation failed")
		},
	}).Build()
	r := &releaser{client: core, live: core}
	if err := r.releaseProtector(t.Context(), wanted); err == nil {
		t.Error("the release succeeded, want the error of the patch")
	}
	if released, err := clusters.WasReleased(t.Context(), core, wanted); err != nil || released {
		t.Errorf("WasReleased() = %v, %v, want false", released, err)
	}
}

func TestReleasedProtectorWithForeignFinalizerIsNotSourceVanished(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
	edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = append(got.Finalizers, "example.com/backup") })

	p.delete(web)
	p.waitUntilDeleted(web)
	// Another pair that is created and deleted proves that the generator has processed the events of the first.
	shop := p.deployment("shop", nil)
	p.create(shop)
	p.waitForProtector("deployment-shop", "the PodProtector is created", isSourceFound)
	got := p.waitForProtector("deployment-web", "only the other finalizer remains", func(got *v1alpha1.PodProtector) bool {
		return got.DeletionTimestamp != nil && slices.Equal(got.Finalizers, []string{"example.com/backup"})
	})
	if !isSourceFound(got) || g.metric(t, "breakwater_generator_vanished_sources", "") != 0 {
		t.Errorf("source counts as vanished, want it released:\n%s", dump(got))
	}
	edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
	p.waitUntilDeleted(protector)
}

// createWebWithProtector creates a Deployment and its protector without a generator.
func (p *fixture) createWebWithProtector() (*appsv1.Deployment, *v1alpha1.PodProtector) {
	p.t.Helper()
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	wanted, err := policy.FromDeployment(web)
	if err != nil {
		p.t.Fatal(err)
	}
	p.create(wanted.Object)
	return web, wanted.Object
}

func TestReleaseReadsProtectorFromAPIServer(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	p.delete(web)
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}

	// The cache shows the Deployment, but not the protector.
	got, err := p.reconciler(nil).releaser.release(t.Context(), p.ref("web"), web, nil, deletedCause(p.ref("web")))
	if err != nil || got != released {
		t.Fatalf("release() = %q, %v, want %q", got, err, released)
	}
	p.waitUntilDeleted(protector)
	p.waitUntilDeleted(web)
}

// This is the state after a core was restored to before the deletion, or before the opt-out.
func TestDeletionOnlyInCacheDoesNotReleaseProtector(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	now := metav1.Now()
	for claim, change := range map[string]func(*appsv1.Deployment){
		"a deletion": func(d *appsv1.Deployment) { d.DeletionTimestamp = &now },
		"opting out": func(d *appsv1.Deployment) { d.Labels = nil },
	} {
		cached := web.DeepCopy()
		change(cached)
		got, err := p.reconciler(nil).releaser.release(t.Context(), p.ref("web"), cached, []*v1alpha1.PodProtector{protector}, deletedCause(p.ref("web")))
		if err != nil || got != outdated {
			t.Errorf("%s: release() = %q, %v, want %q", claim, got, err, outdated)
		}
	}
	for _, object := range []client.Object{web, protector} {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || len(object.GetFinalizers()) != 1 {
			t.Errorf("got %T with the finalizers %q and error %v, want it unchanged", object, object.GetFinalizers(), err)
		}
	}
}

// A core was restored to before the deletion of a protector, which vanished then: the cache still shows the deletion of the lost history. The keeper
// recreates the protector, and only its source can release it then (simulation, 7002262).
func TestDeletionOfProtectorOnlyInCacheDoesNotReleaseItsSource(t *testing.T) {
	web, protector := newWebWithProtector(t)
	now := metav1.Now()
	web.DeletionTimestamp, protector.DeletionTimestamp = &now, &now
	d := newStaleDependencies(t, []client.Object{web, protector}, []client.Object{web})
	if got, err := newReconciler(d).reconcileSource(t.Context(), webRef); err != nil || got != outdated {
		t.Errorf("reconcileSource() = %q, %v, want %q", got, err, outdated)
	}
	if err := d.live.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || len(web.Finalizers) != 1 {
		t.Errorf("the source has the finalizers %q and the error %v, want it unchanged", web.Finalizers, err)
	}
}

func TestDeploymentOnlyInCacheGetsNoProtector(t *testing.T) {
	p := newFixture(t)
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	cached := web.DeepCopy()
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
	p.delete(web)
	p.waitUntilDeleted(web)

	got, err := p.reconciler(nil).protection.protect(t.Context(), p.ref("web"), cached, nil, choiceByLabel())
	if err != nil || got != outdated {
		t.Errorf("protect() = %q, %v, want %q", got, err, outdated)
	}
	p.waitUntilDeleted(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web"}})
}

func TestUpdateDoesNotRecreateProtectorOnlyInCache(t *testing.T) {
	p := newFixture(t)
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	cached := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: "deployment-web", UID: "0ff1ce", Finalizers: []string{v1alpha1.FinalizerProtector}}}

	got, err := p.reconciler(nil).protection.protect(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{cached}, choiceByLabel())
	if err != nil || got != outdated {
		t.Errorf("protect() = %q, %v, want %q", got, err, outdated)
	}
	p.waitUntilDeleted(cached)
}

func TestFinalizerIsNotAddedToRecreatedDeployment(t *testing.T) {
	p := newFixture(t)
	web := p.deployment("web", nil)
	p.create(web)
	cached := web.DeepCopy()
	cached.UID = "0ff1ce"

	got, err := p.reconciler(nil).protection.protect(t.Context(), p.ref("web"), cached, nil, choiceByLabel())
	if err != nil || got != outdated {
		t.Errorf("protect() = %q, %v, want %q", got, err, outdated)
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || len(web.Finalizers) != 0 {
		t.Errorf("%v\n%s", err, dump(web))
	}
}

func TestTerminatingNamespaceIsOutdated(t *testing.T) {
	p := newFixture(t)
	web := p.deployment("web", nil)
	p.create(web)
	p.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}})

	// The API server's own cache of namespaces lags a little; until it has caught up, creating works.
	probe := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "probe"}}
	p.eventually("the API server rejects creations", func() string {
		if err := p.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err != nil {
			return ""
		}
		return "creation is still allowed"
	})
	got, err := p.reconciler(nil).protection.protect(t.Context(), p.ref("web"), web, nil, choiceByLabel())
	if err != nil || got != outdated {
		t.Errorf("protect() = %q, %v, want %q: the namespace controller deletes the Deployment next", got, err, outdated)
	}
}

// choiceByLabel returns the choice for a workload that no policy selects.
func choiceByLabel() policy.Choice { return policy.Choice{Verdict: policy.Protect} }

// The release of a protector was recorded, and its finalizer removed, when the generator ended. The source wants another floor now, and the cache still
// shows the finalizer: with it the protector would stay, and its record would say that it was released if it vanished.
func TestInterruptedReleaseIsCompletedByLiveProtector(t *testing.T) {
	web, protector := newWebWithProtector(t)
	protector.Spec.MinAvailable = v1alpha1.Pods(3) // so that there is something to change
	stored := protector.DeepCopy()
	stored.Finalizers = nil
	d := newStaleDependencies(t, []client.Object{web, protector}, []client.Object{web, stored})
	if err := clusters.RecordRelease(t.Context(), d.client, stored, Name); err != nil {
		t.Fatal(err)
	}
	if got, err := newReconciler(d).reconcileSource(t.Context(), webRef); err != nil || got != outdated {
		t.Errorf("reconcileSource() = %q, %v, want %q", got, err, outdated)
	}
	if err := d.live.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); !apierrors.IsNotFound(err) {
		t.Errorf("the protector is %+v, %v, want it deleted", stored, err)
	}
}
