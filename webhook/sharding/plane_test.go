package sharding_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/webhook/sharding"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// fixture is a ring on a real API server that asks a real server over TLS. Its objects are Widgets of a namespace with
// the ConfigMaps that they control, Plazas, which are cluster-scoped, and Namespaces.
type fixture struct {
	*testing.T
	client.Client
	namespace, ring string
	files           string // of the certificate
	port            int
	registry        *prometheus.Registry
	stop            func()

	mu      sync.Mutex
	resyncs []string
}

func newFixture(t *testing.T, shards ...string) *fixture {
	t.Helper()
	defineKinds(t)
	namespace := testplane.Namespace(t)
	p := &fixture{T: t, Client: testplane.Client(t), namespace: namespace, ring: namespace, files: t.TempDir(), port: freePort(t), registry: prometheus.NewRegistry()}
	of := &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: p.ring}}
	of.Spec = v1alpha1.ClusterRingSpec{ShardNamespace: namespace, TokensPerShard: 100, Resources: []v1alpha1.RingResource{
		{GroupResource: v1alpha1.GroupResource{Group: "shop.test", Resource: "widgets"}, ControlledResources: []v1alpha1.GroupResource{{Resource: "configmaps"}}},
		{GroupResource: v1alpha1.GroupResource{Group: "shop.test", Resource: "plazas"}},
		{GroupResource: v1alpha1.GroupResource{Resource: "namespaces"}},
	}}
	p.create(of)
	for _, shard := range shards {
		p.join(shard)
	}
	p.serve()
	return p
}

// join creates a shard that stays alive for longer than the test.
func (p *fixture) join(shard string) {
	p.Helper()
	p.create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: shard, Labels: map[string]string{v1alpha1.LabelRing: p.ring}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(shard + "_1"), LeaseDurationSeconds: ptr.To[int32](3600), RenewTime: ptr.To(metav1.NowMicro()),
		},
	})
}

// serve runs the handler as a user with exactly the permissions that it needs.
func (p *fixture) serve() {
	p.Helper()
	p.certify()
	rules := append(roles.Rules(p, "ring"),
		rbacv1.PolicyRule{APIGroups: []string{"shop.test"}, Resources: []string{"widgets"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"list", "watch"}})
	p.stop = testplane.StartManager(p, testplane.User(p, p.namespace, rules), func(ctx context.Context, mgr manager.Manager) error {
		roll, err := members.NewShardTracker(ctx, mgr, func() bool { return false })
		if err != nil {
			return err
		}
		return sharding.Setup(ctx, mgr, sharding.Options{Members: roll, TriggerResync: p.triggerResync, Registry: p.registry})
	}, func(o *manager.Options) {
		o.Cache = clusters.CacheOptions()
		members.Select(&o.Cache)
		o.WebhookServer = ctrlwebhook.NewServer(ctrlwebhook.Options{Host: "127.0.0.1", Port: p.port, CertDir: p.files})
	})
}

// certify writes a certificate and its key.
func (p *fixture) certify() {
	p.Helper()
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		p.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(p.files, name), content, 0o600); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *fixture) authority() []byte {
	p.Helper()
	raw, err := os.ReadFile(filepath.Join(p.files, "tls.crt"))
	if err != nil {
		p.Fatal(err)
	}
	return raw
}

func (p *fixture) triggerResync(ring string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resyncs = append(p.resyncs, ring)
}

func (p *fixture) resyncCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.resyncs)
}

// configure makes the API server ask about the ring, with the configuration of the sharder, and waits until it does.
func (p *fixture) configure(change ...func(*admissionregistrationv1.MutatingWebhook)) *admissionregistrationv1.MutatingWebhookConfiguration {
	p.Helper()
	configuration := p.configuration("https://127.0.0.1:" + strconv.Itoa(p.port) + "/rings/" + p.ring)
	for _, c := range change {
		c(&configuration.Webhooks[0])
	}
	p.create(configuration)
	p.eventually(func() string {
		probe := p.newWidget("probe")
		if err := p.Create(p.Context(), probe, client.DryRunAll); err != nil {
			return err.Error()
		}
		if counted(p, p.registry, p.ring, sharding.Assigned)+counted(p, p.registry, p.ring, sharding.NoShards)+
			counted(p, p.registry, "unknown", sharding.UnknownRing) == 0 {
			return "the API server does not call the webhook yet"
		}
		return ""
	})
	return configuration
}

func (p *fixture) configuration(url string) *admissionregistrationv1.MutatingWebhookConfiguration {
	p.Helper()
	rule := func(group, version, resource string, scope admissionregistrationv1.ScopeType) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: &scope},
		}
	}
	namespaced, cluster := admissionregistrationv1.NamespacedScope, admissionregistrationv1.ClusterScope
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "breakwater-ring-" + p.ring},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "assign.breakwater.dev",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: p.authority()},
			Rules:                   []admissionregistrationv1.RuleWithOperations{rule("shop.test", "v1", "widgets", namespaced), rule("shop.test", "v1", "plazas", cluster), rule("", "v1", "configmaps", namespaced), rule("", "v1", "namespaces", cluster)},
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
			ReinvocationPolicy:      ptr.To(admissionregistrationv1.IfNeededReinvocationPolicy),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To[int32](2),
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: p.namespace}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: v1alpha1.LabelShard(p.ring), Operator: metav1.LabelSelectorOpDoesNotExist},
			}},
		}},
	}
}

func (p *fixture) create(object client.Object) {
	p.Helper()
	if err := p.Create(p.Context(), object); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = p.Delete(context.Background(), object) })
}

func (p *fixture) eventually(look func() string) {
	p.Helper()
	testplane.Eventually(p, look)
}

func (p *fixture) newWidget(name string) *unstructured.Unstructured {
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "shop.test/v1", "kind": "Widget"}}
	widget.SetNamespace(p.namespace)
	widget.SetName(name)
	return widget
}

// shardOf returns the shard of an object according to its labels. It fails the test if the labels ask the shard to
// release the object.
func (p *fixture) shardOf(object client.Object) string {
	p.Helper()
	if _, draining := object.GetLabels()[v1alpha1.LabelDrain(p.ring)]; draining {
		p.Errorf("%s has the drain label: %v", object.GetName(), object.GetLabels())
	}
	return object.GetLabels()[v1alpha1.LabelShard(p.ring)]
}

// patch merges JSON into an object.
func (p *fixture) patch(object client.Object, format string, arguments ...any) {
	p.Helper()
	if err := p.Patch(p.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, arguments...))); err != nil {
		p.Fatal(err)
	}
}

// drain asks the shard of an object to release it. The API server does not ask the webhook about this write.
func (p *fixture) drain(object client.Object) {
	p.Helper()
	p.patch(object, `{"metadata":{"labels":{%q:"true"}}}`, v1alpha1.LabelDrain(p.ring))
}

// release releases an object, as its shard does.
func (p *fixture) release(object client.Object) {
	p.Helper()
	p.patch(object, `{"metadata":{"resourceVersion":%q,"labels":{%q:null,%q:%q}}}`, object.GetResourceVersion(),
		v1alpha1.LabelShard(p.ring), v1alpha1.LabelDrain(p.ring), v1alpha1.DrainAnswered)
}

func freePort(t *testing.T) int {
	t.Helper()
	claim, err := port.NewClaim()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(claim.Release)
	return claim.Number()
}

var defined sync.Once

// defineKinds creates the kinds Widget and Plaza, each with two versions, once.
func defineKinds(t *testing.T) {
	t.Helper()
	defined.Do(func() {
		preserve := true
		c := testplane.Client(t)
		if err := apiextensionsv1.AddToScheme(c.Scheme()); err != nil {
			t.Fatal(err)
		}
		for kind, scope := range map[string]apiextensionsv1.ResourceScope{"Widget": apiextensionsv1.NamespaceScoped, "Plaza": apiextensionsv1.ClusterScoped} {
			plural := strings.ToLower(kind) + "s"
			definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".shop.test"}}
			definition.Spec.Group, definition.Spec.Scope = "shop.test", scope
			definition.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind}
			for _, version := range []string{"v1", "v1beta1"} {
				definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
					Name: version, Served: true, Storage: version == "v1",
					Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
					Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				})
			}
			if err := c.Create(t.Context(), definition); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []string{"Widget", "Plaza"} {
			list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "shop.test/v1beta1", "kind": kind + "List"}}
			testplane.Eventually(t, func() string {
				if err := c.List(t.Context(), list); err != nil {
					return err.Error()
				}
				return ""
			})
		}
	})
}

// serveFaulty starts a faulty server in place of the handler, with the same certificate. It returns its URL.
func (p *fixture) serveFaulty(answer http.HandlerFunc) (url string) {
	p.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.Fatal(err)
	}
	server := &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute, ErrorLog: discardLogger()}
	go server.ServeTLS(listener, filepath.Join(p.files, "tls.crt"), filepath.Join(p.files, "tls.key"))
	p.Cleanup(func() { server.Close() })
	return "https://" + listener.Addr().String() + "/"
}
