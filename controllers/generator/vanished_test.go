package generator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// reconciler returns a Reconciler with a brake, whose cache the test plays: it passes its objects to the steps.
func (p *fixture) reconciler(brake Brake) *Reconciler {
	p.t.Helper()
	metrics := NewMetrics(prometheus.NewRegistry(), nil)
	kinds, err := p.kinds()
	if err != nil {
		p.t.Fatal(err)
	}
	return newReconciler(dependencies{
		client:   p.Client,
		live:     p.Client,
		kinds:    kinds,
		selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}),
		events:   events.NewFakeRecorder(100),
		metrics:  metrics,
		brake:    brake,
	})
}

// kinds reads sources as the administrator, without a cache.
func (p *fixture) kinds() (*Kinds, error) {
	config := testplane.Config(p.t)
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(config)
	watches := newKindWatches(metadataClient, "")
	return &Kinds{Cache: p.Client, Live: p.Client, Scheme: p.Scheme(), Metadata: metadataClient, Dynamic: dynamicClient, Watched: AllKinds(),
		mapper: p.RESTMapper(), watches: watches}, err
}

// ref names a Deployment of the test.
func (p *fixture) ref(name string) policy.Ref {
	return policy.Ref{Group: "apps", Kind: "Deployment", Namespace: p.namespace, Name: name}
}

// loseDeployment removes a Deployment as the loss of an etcd would: the generator never observes a deletionTimestamp.
func (p *fixture) loseDeployment(web *appsv1.Deployment) {
	p.t.Helper()
	p.delete(web)
	edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
	p.waitUntilDeleted(web)
}

// loseDeploymentWhileRunning does the same while a generator runs, which adds the finalizer again when it is missing. The Deployment is deleted while it
// has no finalizer.
func (p *fixture) loseDeploymentWhileRunning(web *appsv1.Deployment) {
	p.t.Helper()
	p.eventually("the Deployment is deleted while it has no finalizer", func() string {
		edit(p, web, func(d *appsv1.Deployment) { d.Finalizers = nil })
		err := p.Delete(p.t.Context(), web, client.Preconditions{UID: &web.UID, ResourceVersion: &web.ResourceVersion})
		if err != nil {
			return err.Error()
		}
		return ""
	})
	p.waitUntilDeleted(web)
}

var isSourceVanished = hasTargetResolved(metav1.ConditionFalse, v1alpha1.ReasonSourceVanished)

func TestProtectorStaysWhenDeploymentVanished(t *testing.T) {
	p := newFixture(t)
	account := p.account(p.rules())
	first := p.startAs(account)
	web := p.deployment("web", nil)
	p.create(web)
	before := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
	first.stop()
	p.loseDeployment(web)

	second := p.startAs(account)
	got := p.waitForProtector("deployment-web", "the condition reports that the source vanished", isSourceVanished)
	if got.UID != before.UID || got.DeletionTimestamp != nil || got.Spec.MinAvailable.IntVal != 7 || !hasProtectorFinalizer(got) {
		t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
	}
	condition := meta.FindStatusCondition(got.Status.Conditions, v1alpha1.ConditionTargetResolved)
	for _, advice := range []string{"Create the Deployment again", "annotate this PodProtector or its namespace", v1alpha1.AnnotationConfirmRelease} {
		if !strings.Contains(condition.Message, advice) {
			t.Errorf("condition does not contain %q: %s", advice, condition.Message)
		}
	}
	p.waitForEvent("PodProtector/deployment-web Warning SourceVanished: Deployment web no longer exists")
	p.waitForVanishedSources(second, 1)
	second.stop()

	third := p.startAs(account)
	p.waitForVanishedSources(third, 1)
	if count := p.countEvents("PodProtector/deployment-web Warning SourceVanished"); count != 1 {
		t.Errorf("got %d events for one transition, want 1:\n%s", count, strings.Join(p.events(), "\n"))
	}

	again := p.deployment("web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 20 })
	p.create(again)
	p.waitForProtector("deployment-web", "a new Deployment of that name owns the PodProtector", func(got *v1alpha1.PodProtector) bool {
		return got.UID == before.UID && got.Spec.MinAvailable.IntVal == 14 && isSourceFound(got) &&
			got.Annotations[v1alpha1.AnnotationSourceUID] == string(again.UID)
	})
	p.waitForVanishedSources(third, 0)
}

func TestProtectorStaysWhenDeploymentVanishesWhileWatched(t *testing.T) {
	p := newFixture(t)
	g := p.start()
	web := p.deployment("web", nil)
	p.create(web)
	before := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)

	p.loseDeploymentWhileRunning(web)
	got := p.waitForProtector("deployment-web", "the condition reports that the source vanished", isSourceVanished)
	if got.UID != before.UID || got.DeletionTimestamp != nil || got.Spec.MinAvailable.IntVal != 7 || !hasProtectorFinalizer(got) {
		t.Errorf("protector differs from its earlier state, want it unchanged and in force:\n%s", dump(got))
	}
	p.waitForEvent("PodProtector/deployment-web Warning SourceVanished: ")
	p.waitForVanishedSources(g, 1)
}

func TestUserCanReleaseProtectorOfVanishedSource(t *testing.T) {
	for claim, release := range map[string]func(p *fixture, protector *v1alpha1.PodProtector){
		"confirmation on the protector": func(p *fixture, protector *v1alpha1.PodProtector) { p.confirm(protector) },
		"confirmation on the namespace": func(p *fixture, _ *v1alpha1.PodProtector) { p.confirm(p.ownNamespace()) },
		"deletion of the terminating namespace, and a confirmation": func(p *fixture, _ *v1alpha1.PodProtector) {
			p.delete(p.ownNamespace())
			p.confirm(p.ownNamespace())
		},
		"removal of the finalizer": func(p *fixture, protector *v1alpha1.PodProtector) {
			p.delete(protector)
			edit(p, protector, func(got *v1alpha1.PodProtector) { got.Finalizers = nil })
		},
	} {
		t.Run(claim, func(t *testing.T) {
			p := newFixture(t)
			account := p.accountWithBrake()
			first := p.startWith(account, limitOfTwoDecreases())
			web := p.deployment("web", nil)
			p.create(web)
			protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
			first.stop()
			p.loseDeployment(web)

			second := p.startWith(account, limitOfTwoDecreases())
			p.waitForProtector("deployment-web", "the condition reports that the source vanished", isSourceVanished)
			release(p, protector)
			p.waitUntilDeleted(protector)
			p.waitForVanishedSources(second, 0)
		})
	}
}

// The API server and the cache must both show the confirmation, and the API server that the source does not exist (rules 10 and 11).
func TestProtectorOfVanishedSourceStaysUntilConfirmed(t *testing.T) {
	web, protector := newWebWithProtector(t)
	vanished := withConditions(protector.DeepCopy(), vanishedCondition(webRef).Condition)
	confirmed := func(value string) *v1alpha1.PodProtector {
		with := vanished.DeepCopy()
		with.Annotations[v1alpha1.AnnotationConfirmRelease] = value
		return with
	}
	namespace := func(annotations map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: webRef.Namespace, Annotations: annotations}}
	}
	yes, expired := map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}, "2020-01-01"
	unrecorded := protector.DeepCopy()
	unrecorded.Annotations[v1alpha1.AnnotationConfirmRelease] = "true"
	for claim, c := range map[string]struct {
		shown, stored []client.Object
		want          outcome
	}{
		"no confirmation":               {[]client.Object{vanished, namespace(nil)}, []client.Object{vanished, namespace(nil)}, sourceVanished},
		"an expired confirmation":       {[]client.Object{confirmed(expired)}, []client.Object{confirmed(expired)}, sourceVanished},
		"the namespace is unknown":      {[]client.Object{vanished}, []client.Object{vanished}, sourceVanished},
		"the protector confirms":        {[]client.Object{confirmed("true")}, []client.Object{confirmed("true")}, released},
		"the namespace confirms":        {[]client.Object{vanished, namespace(yes)}, []client.Object{vanished, namespace(yes)}, released},
		"the cache is behind":           {[]client.Object{vanished, namespace(nil)}, []client.Object{vanished, namespace(yes)}, sourceVanished},
		"a restored core has lost it":   {[]client.Object{vanished, namespace(yes)}, []client.Object{vanished, namespace(nil)}, sourceVanished},
		"the same, on the protector":    {[]client.Object{confirmed("true")}, []client.Object{vanished}, sourceVanished},
		"the source exists again":       {[]client.Object{confirmed("true")}, []client.Object{confirmed("true"), web}, outdated},
		"the condition is not recorded": {[]client.Object{unrecorded}, []client.Object{unrecorded}, sourceVanished},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newStaleDependencies(t, c.shown, c.stored)
			if got, err := newReconciler(d).reconcileSource(t.Context(), webRef); err != nil || got != c.want {
				t.Errorf("reconcileSource() = %q, %v, want %q", got, err, c.want)
			}
			after := &v1alpha1.PodProtector{}
			err := d.live.Get(t.Context(), client.ObjectKeyFromObject(protector), after)
			if (err == nil) != (c.want != released) {
				t.Errorf("PodProtector exists: %v, want %v", err == nil, c.want != released)
			}
			if err == nil && (!hasProtectorFinalizer(after) || after.DeletionTimestamp != nil) {
				t.Errorf("PodProtector is not in force:\n%s", dump(after))
			}
		})
	}
}

func TestGeneratorIgnoresForeignProtectorWithoutDeployment(t *testing.T) {
	p := newFixture(t)
	theirs := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "deployment-web"}}
	theirs.Spec.Selector, theirs.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(1)
	p.create(theirs)
	got, err := p.reconciler(nil).retainer.retainWithoutSource(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{theirs})
	if err != nil || got != ignored {
		t.Errorf("retainWithoutSource() = %q, %v, want %q", got, err, ignored)
	}
}

func TestSourceMissingOnlyInCacheHasNotVanished(t *testing.T) {
	p := newFixture(t)
	p.start()
	web := p.deployment("web", nil)
	p.create(web)
	protector := p.waitForProtector("deployment-web", "the PodProtector is created", isSourceFound)
	got, err := p.reconciler(nil).retainer.retainWithoutSource(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{protector})
	if err != nil || got != outdated {
		t.Errorf("retainWithoutSource() = %q, %v, want %q", got, err, outdated)
	}
	if after := p.waitForProtector("deployment-web", "the PodProtector exists", func(*v1alpha1.PodProtector) bool { return true }); !isSourceFound(after) {
		t.Errorf("condition changed:\n%s", dump(after))
	}
}

func (p *fixture) waitForVanishedSources(g *generator, want float64) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("metric shows %v vanished sources", want), func() string {
		if got := g.metric(p.t, "breakwater_generator_vanished_sources", ""); got != want {
			return fmt.Sprint("breakwater_generator_vanished_sources = ", got)
		}
		return ""
	})
}

// The status records that the source was deleted, and a recreated protector gets its status after its creation.
func TestUnfinishedProtectorIsNotMarkedSourceVanished(t *testing.T) {
	p := newFixture(t)
	web, protector := p.createWebWithProtector()
	finished := protector.DeepCopy()
	edit(p, protector, func(protector *v1alpha1.PodProtector) {
		protector.Annotations[v1alpha1.AnnotationRestored] = string(protector.UID)
	})
	p.loseDeployment(web)
	for claim, cached := range map[string]*v1alpha1.PodProtector{"in the cache": protector, "at the API server": finished} {
		got, err := p.reconciler(nil).retainer.retainWithoutSource(t.Context(), p.ref("web"), []*v1alpha1.PodProtector{cached})
		if err != nil || got != outdated {
			t.Errorf("%s: retainWithoutSource() = %q, %v, want %q", claim, got, err, outdated)
		}
	}
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil || len(protector.Status.Conditions) > 0 {
		t.Errorf("conditions %+v, error %v, want none", protector.Status.Conditions, err)
	}
}
