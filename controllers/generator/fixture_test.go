package generator

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/brake"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a namespace of a real API server, with the rights of an administrator.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{Client: testplane.Client(t), t: t, namespace: testplane.Namespace(t)}
}

// account creates a user with exactly these rules.
func (p *fixture) account(rules []rbacv1.PolicyRule) *rest.Config {
	p.t.Helper()
	return testplane.User(p.t, "generator-of-"+p.namespace, rules)
}

// generator is a running generator, for one namespace.
type generator struct {
	registry *prometheus.Registry
	spans    *tracetest.SpanRecorder
	stop     func()
}

// start runs a generator with the rights of the chart until the test ends or stop is called.
func (p *fixture) start() *generator {
	p.t.Helper()
	return p.startAs(p.account(p.rules()))
}

// rules returns the rules of the chart.
func (p *fixture) rules(options ...roles.Option) []rbacv1.PolicyRule {
	p.t.Helper()
	return roles.Rules(p.t, "generator", options...)
}

func (p *fixture) startAs(account *rest.Config) *generator {
	p.t.Helper()
	return p.startWith(account, nil)
}

// startWith runs a generator with a brake of those limits; nil for none.
func (p *fixture) startWith(account *rest.Config, limits *core.Limits, changes ...func(*Options)) *generator {
	p.t.Helper()
	g := &generator{registry: prometheus.NewRegistry(), spans: tracetest.NewSpanRecorder()}
	caches := CacheOptions()
	caches.DefaultNamespaces = map[string]cache.Config{p.namespace: {}}
	selector := labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"})
	g.stop = testplane.StartManager(p.t, account, func(ctx context.Context, mgr manager.Manager) error {
		var held Brake
		if limits != nil {
			newBrake, err := brake.Setup(ctx, mgr, brake.Options{Limits: *limits, Namespace: p.namespace, Registry: g.registry})
			if err != nil {
				return err
			}
			held = newBrake
		}
		options := Options{
			Brake: held, Selector: selector, Registry: g.registry, Kinds: AllKinds(), Namespace: p.namespace, Tracer: newTracer(g.spans),
		}
		for _, change := range changes {
			change(&options)
		}
		return Setup(ctx, mgr, options)
	}, func(o *manager.Options) { o.Cache, o.Logger = caches, testr.New(p.t) })
	return g
}

// metric reads a metric; label is the value of its one label, which selects the series, or empty for a metric without labels.
func (g *generator) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := g.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == name && (len(m.Label) == 0 && label == "" || len(m.Label) == 1 && m.Label[0].GetValue() == label) {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s{%q}", name, label)
	return 0
}

// deployment returns a Deployment of 10 replicas, 3 of which may be unavailable.
func (p *fixture) deployment(name string, change func(*appsv1.Deployment)) *appsv1.Deployment {
	replicas, surge, unavailable := int32(10), intstr.FromString("25%"), intstr.FromString("30%")
	app := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{v1alpha1.LabelProtect: "true"}},
		Spec: appsv1.DeploymentSpec{
			Replicas:        &replicas,
			MinReadySeconds: 15,
			Selector:        &metav1.LabelSelector{MatchLabels: app},
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &unavailable},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
			},
		},
	}
	if change != nil {
		change(d)
	}
	return d
}

func (p *fixture) create(object client.Object) {
	p.t.Helper()
	if err := p.Create(p.t.Context(), object); err != nil {
		p.t.Fatalf("create %T: %v", object, err)
	}
}

// edit changes the newest state of an object, as a user would.
func edit[T client.Object](p *fixture, object T, change func(T)) {
	p.t.Helper()
	for {
		if err := p.Get(p.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			p.t.Fatalf("edit %T: %v", object, err)
		}
		change(object)
		err := p.Update(p.t.Context(), object)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			p.t.Fatalf("edit %T: %v", object, err)
		}
	}
}

func (p *fixture) delete(object client.Object, options ...client.DeleteOption) {
	p.t.Helper()
	if err := p.Delete(p.t.Context(), object, options...); err != nil {
		p.t.Fatalf("delete %T %s: %v", object, object.GetName(), err)
	}
}

// eventually waits for a condition, which returns what it saw; an empty text is success.
func (p *fixture) eventually(claim string, unmet func() string) {
	p.t.Helper()
	testplane.Eventually(p.t, func() string {
		if seen := unmet(); seen != "" {
			return fmt.Sprintf("timed out waiting until %s; last seen:\n%s\nevents:\n%s", claim, seen, strings.Join(p.events(), "\n"))
		}
		return ""
	})
}

// waitForProtector waits until the protector of that name satisfies the claim, and returns it.
func (p *fixture) waitForProtector(name, claim string, holds func(*v1alpha1.PodProtector) bool) *v1alpha1.PodProtector {
	p.t.Helper()
	got := &v1alpha1.PodProtector{}
	p.eventually(claim, func() string {
		got = &v1alpha1.PodProtector{}
		err := p.Get(p.t.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, got)
		if err != nil {
			return err.Error()
		}
		if holds(got) {
			return ""
		}
		return dump(got)
	})
	return got
}

// waitUntilDeleted waits until an object does not exist.
func (p *fixture) waitUntilDeleted(object client.Object) {
	p.t.Helper()
	p.eventually(fmt.Sprintf("%T %s is deleted", object, object.GetName()), func() string {
		err := p.Get(p.t.Context(), client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprint(err, "\n", dump(object))
	})
}

// events lists the events of the namespace as "Kind/name Type Reason: note".
func (p *fixture) events() []string {
	var list eventsv1.EventList
	if err := p.List(context.Background(), &list, client.InNamespace(p.namespace)); err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, e := range list.Items {
		all = append(all, fmt.Sprintf("%s/%s %s %s: %s", e.Regarding.Kind, e.Regarding.Name, e.Type, e.Reason, e.Note))
	}
	return all
}

// countEvents counts the events that have the prefix start.
func (p *fixture) countEvents(start string) int {
	count := 0
	for _, e := range p.events() {
		if strings.HasPrefix(e, start) {
			count++
		}
	}
	return count
}

func (p *fixture) waitForEvent(start string) {
	p.t.Helper()
	p.eventually("there is an event "+start, func() string {
		if p.countEvents(start) > 0 {
			return ""
		}
		return "no such event"
	})
}

func dump(object client.Object) string {
	text, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// newContext returns a context that outlives the test, for the cleanup.
func newContext() context.Context { return context.Background() }
