package scheduling_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/server"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/webhook"
	"github.com/breakwater-k8s/breakwater/webhook/scheduling"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a namespace of a real API server, which is core cluster and cell at once and asks a real webhook over TLS.
type fixture struct {
	*testing.T
	client.Client
	namespace, cell string
	server          *server.Server
	authority       []byte // the server's certificate
	registry        *prometheus.Registry
	reads           *requestLog // requests of the webhook
	stop            func()
}

// newFixture runs a webhook as a user with exactly the permissions that it needs. The API server does not ask it yet.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	enabled := roles.Value("webhook.scheduling.enabled", true)
	p := newFixtureWithRules(t, append(roles.Rules(t, "webhook.core", enabled), roles.Rules(t, "webhook.cell", enabled)...))
	p.eventually(func() string {
		if err := p.server.Ready(nil); err != nil {
			return err.Error()
		}
		return ""
	})
	return p
}

func newFixtureWithRules(t *testing.T, rules []rbacv1.PolicyRule) *fixture {
	t.Helper()
	namespace := testplane.Namespace(t)
	p := &fixture{T: t, Client: testplane.Client(t), namespace: namespace, cell: namespace, registry: prometheus.NewRegistry()}
	p.server = &server.Server{Listen: "127.0.0.1:0"}
	p.certify()
	user, reads := testplane.User(p, namespace, rules), &requestLog{}
	user.Wrap(reads.record)
	p.reads = reads
	p.stop = testplane.StartManager(p, user, func(_ context.Context, mgr manager.Manager) error {
		cores := map[string]cluster.Cluster{"core": mgr}
		protection, err := webhook.SetupWithManager(mgr, webhook.Options{
			Cores: cores, Cells: map[string]*rest.Config{p.cell: user}, Server: p.server, Metrics: p.registry,
		})
		if err != nil {
			return err
		}
		p.server.Scheduling, err = scheduling.Setup(mgr, scheduling.Options{Cores: cores, Cells: protection, Registry: p.registry})
		return err
	}, func(o *manager.Options) { o.Cache = clusters.CacheOptions() })
	return p
}

func (p *fixture) certify() {
	p.Helper()
	p.server.CertFile, p.server.KeyFile, p.authority = testplane.Certificate(p)
}

// configure makes the API server ask about the namespace with the configuration that users get, and waits until it
// does.
func (p *fixture) configure(change ...func(*register.Options)) *fixture {
	p.Helper()
	options := register.Options{
		Name: p.namespace + "-a", Cell: p.cell, Namespaces: []string{p.namespace}, ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(), TimeoutSeconds: 20,
		Endpoint: register.Endpoint{URL: "https://" + p.server.Address(), CABundle: p.authority},
	}
	for _, c := range change {
		c(&options)
	}
	configuration, err := register.SchedulingConfiguration(options)
	if err != nil {
		p.Fatal(err)
	}
	p.create(configuration)
	p.awaitPolicy("probe")
	return p
}

// awaitPolicy waits until the webhook applies the current policies. It creates a policy with that name, which selects
// only pods with the label probe=name.
func (p *fixture) awaitPolicy(name string) {
	p.Helper()
	p.create(p.policy(name, func(s *v1alpha1.PodSchedulingPolicySpec) {
		s.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"probe": name}}
		s.NodeSelector = map[string]string{"probe": name}
	}))
	p.eventually(func() string {
		probe := p.pod("probe", func(pod *corev1.Pod) { pod.Labels = map[string]string{"probe": name} })
		if err := p.Create(p.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if probe.Spec.NodeSelector["probe"] != name {
			return "the policy " + name + " is not applied yet"
		}
		return ""
	})
}

// policy returns a policy that adds disk=ssd to the nodeSelector of pods with app=web.
func (p *fixture) policy(name string, change ...func(*v1alpha1.PodSchedulingPolicySpec)) *v1alpha1.PodSchedulingPolicy {
	of := &v1alpha1.PodSchedulingPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	of.Spec.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	of.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	for _, c := range change {
		c(&of.Spec)
	}
	return of
}

// pod returns a pod with app=web.
func (p *fixture) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func (p *fixture) create(object client.Object) {
	p.Helper()
	if err := p.Create(p.Context(), object); err != nil {
		p.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	p.Cleanup(func() { _ = p.Delete(context.Background(), object) })
}

func (p *fixture) eventually(look func() string) {
	p.Helper()
	testplane.Eventually(p, look)
}

// wantDisk checks the value of disk in a nodeSelector.
func wantDisk(t *testing.T, nodeSelector map[string]string, want string) {
	t.Helper()
	if got := nodeSelector["disk"]; got != want {
		t.Errorf("nodeSelector %v, want disk %q", nodeSelector, want)
	}
}

// relabel merges a label into the namespace.
func (p *fixture) relabel(label, value string) {
	p.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}
	if err := p.Patch(p.Context(), namespace, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, label, value))); err != nil {
		p.Fatal(err)
	}
}
