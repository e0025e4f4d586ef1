package rootguard_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/review"
	"github.com/breakwater-k8s/breakwater/webhook/server"

	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	core "github.com/breakwater-k8s/breakwater/internal/core/rootguard"
	"github.com/breakwater-k8s/breakwater/webhook"
	"github.com/breakwater-k8s/breakwater/webhook/rootguard"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a namespace of a real API server, which asks a real webhook over TLS about deletions in it.
type fixture struct {
	*testing.T
	client.Client
	namespace, cell string
	config          *rest.Config
	server          *server.Server
	protection      *review.Protection
	registry        *prometheus.Registry
	authority       []byte // the server's certificate
	*warnings
}

// warnings records the warnings that a client received.
type warnings struct {
	mu  sync.Mutex
	all []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// takeWarnings returns the warnings since the last call.
func (w *warnings) takeWarnings() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// ownerKinds are the owners of sources in tests: ConfigMaps, which every API server has.
func ownerKinds() []schema.GroupResource { return []schema.GroupResource{{Resource: "configmaps"}} }

// newFixture runs a webhook as a user with exactly the permissions that it needs. The API server does not ask it yet.
func newFixture(t *testing.T, mode core.Mode, change ...func(*rootguard.Options)) *fixture {
	t.Helper()
	return newFixtureOf(t, func(mgr manager.Manager) map[string]cluster.Cluster { return map[string]cluster.Cluster{"core": mgr} }, mode, change...)
}

// newFixtureOf runs the webhook with the core clusters that cores returns. The cluster of the manager is that of the namespace.
func newFixtureOf(
	t *testing.T, coresOf func(manager.Manager) map[string]cluster.Cluster, mode core.Mode, change ...func(*rootguard.Options),
) *fixture {
	t.Helper()
	namespace := testplane.Namespace(t)
	p := &fixture{T: t, namespace: namespace, cell: namespace, registry: prometheus.NewRegistry(), warnings: &warnings{}}
	p.config = testplane.Config(t)
	p.config.WarningHandler = p.warnings
	p.Client = p.impersonate(rest.ImpersonationConfig{})
	p.server = &server.Server{Listen: "127.0.0.1:0"}
	p.certify()
	user := testplane.User(p, namespace, slices.Concat(roles.Rules(p, "webhook.core"), roles.Rules(p, "webhook.cell"),
		roles.Rules(p, "webhook.roots", roles.Kinds("rootGuard.ownerKinds", ownerKinds()...))))
	testplane.StartManager(p, user, func(_ context.Context, mgr manager.Manager) error {
		cores := coresOf(mgr)
		var err error
		p.protection, err = webhook.SetupWithManager(mgr, webhook.Options{
			Cores: cores, Cells: map[string]*rest.Config{p.cell: user}, Server: p.server, Metrics: p.registry,
		})
		if err != nil {
			return err
		}
		options := rootguard.Options{Mode: mode, Cores: cores, Protection: p.protection, OwnerKinds: ownerKinds(), Registry: p.registry}
		for _, c := range change {
			c(&options)
		}
		p.server.Roots, err = rootguard.Setup(mgr, options)
		return err
	}, func(o *manager.Options) { o.Cache = clusters.CacheOptions() })
	p.eventually(func() string { return errorText(p.server.Ready(nil)) })
	return p
}

func (p *fixture) impersonate(who rest.ImpersonationConfig) client.Client {
	p.Helper()
	config := rest.CopyConfig(p.config)
	config.Impersonate = who
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		p.Fatal(err)
	}
	return c
}

func (p *fixture) certify() {
	p.Helper()
	p.server.CertFile, p.server.KeyFile, p.authority = testplane.Certificate(p)
}

// configure makes the API server ask about the namespace with the configuration that users get, and waits until it
// does. The namespace must have a floor in force.
func (p *fixture) configure(place core.ClusterIdentity) {
	p.Helper()
	configuration, err := register.RootConfiguration(register.RootOptions{
		Options: register.Options{
			Name: p.namespace, Core: place.Core, Namespaces: []string{p.namespace}, TimeoutSeconds: 20,
			ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(),
			Endpoint:         register.Endpoint{URL: "https://" + p.server.Address(), CABundle: p.authority},
		},
		Cells: place.Cells, Kinds: ownerKinds(), OwnNamespace: "breakwater-system",
	})
	if err != nil {
		p.Fatal(err)
	}
	p.create(configuration)
	p.eventually(func() string {
		p.takeWarnings()
		err := p.dryRunDelete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}})
		if err != nil && strings.Contains(err.Error(), "Breakwater denies") || len(p.takeWarnings()) > 0 {
			return ""
		}
		return "the API server does not call the webhook for the namespace yet: " + errorText(err)
	})
	p.takeWarnings()
}

// dryRunDelete deletes an object with a dry run, which the webhook answers like any other deletion.
func (p *fixture) dryRunDelete(object client.Object) error {
	return p.Delete(p.Context(), object, client.DryRunAll)
}

func (p *fixture) create(object client.Object) {
	p.Helper()
	if err := p.Create(p.Context(), object); err != nil {
		p.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	p.Cleanup(func() { // the API server may still call the webhook although its configuration is deleted
		testplane.Eventually(p, func() string {
			if err := client.IgnoreNotFound(p.Delete(context.Background(), object)); err != nil {
				return err.Error()
			}
			return ""
		})
	})
}

// deployment creates a Deployment of pods with app=NAME.
func (p *fixture) deployment(name string, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	p.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	d.Spec.Replicas = ptr.To[int32](4)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d.Spec.Template.Labels = map[string]string{"app": name}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	for _, c := range change {
		c(d)
	}
	p.create(d)
	return d
}

// generated creates the PodProtector of a Deployment, with a floor of 3 of 4 available pods, and waits until the
// webhook has seen it.
func (p *fixture) generated(deployment string, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p.Helper()
	source := policy.Ref{Group: "apps", Kind: "Deployment", Namespace: p.namespace, Name: deployment}
	of := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.namespace, Name: policy.ProtectorName(source),
		Labels:      map[string]string{policy.LabelManagedBy: policy.ManagedBy, v1alpha1.LabelSourceKind: source.Kind},
		Annotations: map[string]string{v1alpha1.AnnotationSourceName: deployment, v1alpha1.AnnotationSourceAPIVersion: "apps/v1"},
	}}
	of.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": deployment}}
	of.Spec.MinAvailable = v1alpha1.Pods(3)
	for _, c := range change {
		c(of)
	}
	p.create(of)
	p.count(p.Client, of)
	return of
}

// count records 4 available pods of the cell in a PodProtector, and waits until the webhook has seen it.
func (p *fixture) count(in client.Client, of *v1alpha1.PodProtector) {
	p.Helper()
	of.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: p.cell, Aggregation: v1alpha1.Aggregation{
		TotalReplicas: 4, AvailableReplicas: 4, CountedReplicas: 4, ReadyReplicas: 4,
		CountedSpec: quota.CountedSpec(&of.Spec), SnapshotVersion: "1", Epoch: 1, LastEventTime: metav1.NowMicro(),
	}}}
	if err := in.Status().Update(p.Context(), of); err != nil {
		p.Fatal(err)
	}
	p.awaitCached(of)
}

// awaitCached waits until the webhook has seen the state of a PodProtector.
func (p *fixture) awaitCached(of *v1alpha1.PodProtector) {
	p.Helper()
	p.eventually(func() string {
		seen := ""
		p.protection.EachProtector(p.namespace, func(_ string, q *v1alpha1.PodProtector) {
			if q.Name == of.Name {
				seen = q.ResourceVersion
			}
		})
		if seen != of.ResourceVersion {
			return "the webhook has seen version " + seen + " of " + of.Name + ", want " + of.ResourceVersion
		}
		return ""
	})
}

// annotate confirms a release on an object.
func (p *fixture) annotate(object client.Object, value string) {
	p.Helper()
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		p.Fatalf("%T cannot be copied", object)
	}
	object.SetAnnotations(map[string]string{v1alpha1.AnnotationConfirmRelease: value})
	if err := p.Patch(p.Context(), object, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

func (p *fixture) eventually(look func() string) {
	p.Helper()
	testplane.Eventually(p, look)
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
