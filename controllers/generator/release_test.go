package generator

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

func TestDeletionOfADeploymentReleasesItsProtector(t *testing.T) {
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
			p := newPlane(t)
			g := p.start()
			web := p.deployment("web", nil)
			p.create(web)
			protector := p.protector("deployment-web", "it is made", sourceFound)

			p.delete(web, client.PropagationPolicy(c.policy))
			p.gone(protector)
			if c.left == nil {
				p.gone(web)
			} else {
				p.eventually("only the garbage collector's finalizer is left", func() string {
					if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
						return err.Error()
					}
					if slices.Equal(web.Finalizers, c.left) {
						return ""
					}
					return dump(web)
				})
				edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
				p.gone(web)
			}
			if vanished := g.metric(t, "breakwater_generator_vanished_sources", ""); vanished != 0 {
				t.Errorf("%v vanished sources after a deletion on purpose", vanished)
			}
		})
	}
}

func TestOptingOutReleasesTheProtector(t *testing.T) {
	p := newPlane(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.protector("deployment-web", "it is made", sourceFound)

	edit(p, web, func(d *appsv1.Deployment) { delete(d.Labels, v1alpha1.LabelProtect) })
	p.gone(protector)
	p.eventually("the Deployment has lost our finalizer and nothing else", func() string {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
			return err.Error()
		}
		if len(web.Finalizers) == 0 && web.DeletionTimestamp == nil {
			return ""
		}
		return dump(web)
	})
	edit(p, web, func(d *appsv1.Deployment) { d.Labels = map[string]string{v1alpha1.LabelProtect: "true"} })
	p.protector("deployment-web", "opting in again makes a new one", func(got *v1alpha1.PodProtector) bool { return got.UID != protector.UID && sourceFound(got) })
}

func TestAFinalizerThatAHandRemovedFromADeploymentComesBack(t *testing.T) {
	p := newPlane(t)
	p.start()
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/theirs"} })
	p.create(web)
	p.protector("deployment-web", "it is made", sourceFound)
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/theirs"} })
	p.eventually("both finalizers are there", func() string {
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
func TestAReleaseThatWasInterruptedIsFinished(t *testing.T) {
	for claim, c := range map[string]struct {
		interrupt func(p *plane, web *appsv1.Deployment, protector *v1alpha1.PodProtector)
	}{
		"before its first write": {func(*plane, *appsv1.Deployment, *v1alpha1.PodProtector) {}},
		"after the protector's finalizer was removed": {func(p *plane, _ *appsv1.Deployment, protector *v1alpha1.PodProtector) {
			edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
		}},
		"after the protector was deleted": {func(p *plane, _ *appsv1.Deployment, protector *v1alpha1.PodProtector) {
			edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
			p.delete(protector)
			p.gone(protector)
		}},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newPlane(t)
			account := p.account(ClusterRules())
			first := p.startAs(account)
			web := p.deployment("web", nil)
			p.create(web)
			protector := p.protector("deployment-web", "it is made", sourceFound)
			first.stop()

			p.delete(web)
			c.interrupt(p, web, protector.DeepCopy())

			p.startAs(account)
			p.gone(protector)
			p.gone(web)
		})
	}
}

func TestAReleasedProtectorThatAnotherFinalizerKeepsIsNotMistakenForALostSource(t *testing.T) {
	p := newPlane(t)
	g := p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.protector("deployment-web", "it is made", sourceFound)
	edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = append(got.Finalizers, "example.com/backup") })

	p.delete(web)
	p.gone(web)
	// Another pair that is created and deleted proves that the generator has processed the events of the first.
	shop := p.deployment("shop", nil)
	p.create(shop)
	p.protector("deployment-shop", "it is made", sourceFound)
	got := p.protector("deployment-web", "only the other finalizer is left", func(got *v1alpha1.PodProtector) bool {
		return got.DeletionTimestamp != nil && slices.Equal(got.Finalizers, []string{"example.com/backup"})
	})
	if !sourceFound(got) || g.metric(t, "breakwater_generator_vanished_sources", "") != 0 {
		t.Errorf("it counts as vanished:\n%s", dump(got))
	}
	edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
	p.gone(protector)
}

// pair creates a Deployment and its protector without a generator.
func (p *plane) pair() (*appsv1.Deployment, *v1alpha1.PodProtector) {
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

func TestReleaseAsksTheAPIServerWhatTheCacheDoesNotShowYet(t *testing.T) {
	p := newPlane(t)
	web, protector := p.pair()
	p.delete(web)
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}

	// The cache shows the Deployment, but not the protector.
	got, err := p.reconciler().release(t.Context(), p.ref("web"), web, nil, deleted(p.ref("web")))
	if err != nil || got != released {
		t.Fatalf("release = %q, %v; want %q", got, err, released)
	}
	p.gone(protector)
	p.gone(web)
}

// This is the state after a core was restored to before the deletion, or before the opt-out.
func TestAProtectorIsNotReleasedForADeletionThatOnlyTheCacheShows(t *testing.T) {
	p := newPlane(t)
	web, protector := p.pair()
	now := metav1.Now()
	for claim, change := range map[string]func(*appsv1.Deployment){
		"a deletion": func(d *appsv1.Deployment) { d.DeletionTimestamp = &now },
		"opting out": func(d *appsv1.Deployment) { d.Labels = nil },
	} {
		cached := web.DeepCopy()
		change(cached)
		if got, err := p.reconciler().release(t.Context(), p.ref("web"), cached, []*v1alpha1.PodProtector{protector}, deleted(p.ref("web"))); err != nil || got != outdated {
			t.Errorf("%s: release = %q, %v; want %q", claim, got, err, outdated)
		}
	}
	for _, object := range []client.Object{web, protector} {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || len(object.GetFinalizers()) != 1 {
			t.Errorf("%T with finalizers %q, error %v; want it as it was", object, object.GetFinalizers(), err)
		}
	}
}

func TestAProtectorIsNotMadeForADeploymentThatOnlyTheCacheStillShows(t *testing.T) {
	p := newPlane(t)
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	cached := web.DeepCopy()
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
	p.delete(web)
	p.gone(web)

	got, err := p.reconciler().protect(t.Context(), p.ref("web"), cached, nil, byLabel())
	if err != nil || got != outdated {
		t.Errorf("protect = %q, %v; want %q", got, err, outdated)
	}
	p.gone(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web"}})
}

func TestAnUpdateDoesNotBringBackAProtectorThatOnlyTheCacheStillShows(t *testing.T) {
	p := newPlane(t)
	web := p.deployment("web", func(d *appsv1.Deployment) { d.Finalizers = []string{v1alpha1.FinalizerSource} })
	p.create(web)
	cached := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: "deployment-web", UID: "0ff1ce", Finalizers: []string{v1alpha1.FinalizerProtector}}}

	got, err := p.reconciler().protect(t.Context(), p.ref("web"), web, []*v1alpha1.PodProtector{cached}, byLabel())
	if err != nil || got != outdated {
		t.Errorf("protect = %q, %v; want %q", got, err, outdated)
	}
	p.gone(cached)
}

func TestAFinalizerIsNotGivenToADeploymentOfTheSameNameThatCameLater(t *testing.T) {
	p := newPlane(t)
	web := p.deployment("web", nil)
	p.create(web)
	cached := web.DeepCopy()
	cached.UID = "0ff1ce"

	got, err := p.reconciler().protect(t.Context(), p.ref("web"), cached, nil, byLabel())
	if err != nil || got != outdated {
		t.Errorf("protect = %q, %v; want %q", got, err, outdated)
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(web), web); err != nil || len(web.Finalizers) != 0 {
		t.Errorf("%v\n%s", err, dump(web))
	}
}

func TestATerminatingNamespaceIsNotFought(t *testing.T) {
	p := newPlane(t)
	web := p.deployment("web", nil)
	p.create(web)
	p.delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}})

	// The API server's own cache of namespaces lags a little; until it has caught up, creating works.
	probe := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "probe"}}
	p.eventually("nothing can be created any more", func() string {
		if err := p.Create(t.Context(), probe.DeepCopy(), client.DryRunAll); err != nil {
			return ""
		}
		return "creation is still allowed"
	})
	got, err := p.reconciler().protect(t.Context(), p.ref("web"), web, nil, byLabel())
	if err != nil || got != outdated {
		t.Errorf("protect = %q, %v; want %q: the Deployment's own deletion is next", got, err, outdated)
	}
}

// byLabel returns the choice for a workload that no policy selects.
func byLabel() policy.Choice { return policy.Choice{Verdict: policy.Protect} }
