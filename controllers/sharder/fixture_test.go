package sharder

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/sharding/members"
	"github.com/breakwater-k8s/breakwater/internal/sharding/ring"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// These are the resources of rings here: ConfigMaps that control Secrets, and cluster-scoped IngressClasses, which belong to one test each.
var (
	configMaps = v1alpha1.GroupResource{Resource: "configmaps"}
	secrets    = v1alpha1.GroupResource{Resource: "secrets"}
	classes    = v1alpha1.GroupResource{Group: "networking.k8s.io", Resource: "ingressclasses"}
)

// fixture is a ring on a real API server. The test plays its shards and its webhook.
type fixture struct {
	*testing.T
	client.Client
	namespace    string
	ring         *v1alpha1.ClusterRing
	rules        []rbacv1.PolicyRule
	timing       timing
	passRequests chan string
	// user is the user that the sharder runs as.
	user string

	webhook *httptest.Server
	// webhookFails makes the webhook fail. hasForeignCA leaves the certificate authority to other components.
	webhookFails, hasForeignCA atomic.Bool
	// replaced is the certificate authority that signs its certificate from now on.
	replaced atomic.Pointer[[]byte]
	roll     atomic.Pointer[members.ShardTracker]

	mu         sync.Mutex
	shards     map[string]*shard
	violations []string
}

// newFixture creates a namespace, and a ring of the same name that assigns its ConfigMaps.
func newFixture(t *testing.T, change ...func(*v1alpha1.ClusterRingSpec)) *fixture {
	t.Helper()
	t.Parallel()
	l := &fixture{T: t, Client: testplane.Client(t), namespace: testplane.Namespace(t), shards: map[string]*shard{}, passRequests: make(chan string, 10)}
	l.timing = timing{
		quietPeriod: 100 * time.Millisecond, retry: 100 * time.Millisecond, requestDelay: 100 * time.Millisecond, poll: 50 * time.Millisecond,
		checkInterval: 300 * time.Millisecond, page: 50, writers: 8,
	}
	l.webhook = httptest.NewTLSServer(http.HandlerFunc(l.serveWebhook))
	t.Cleanup(l.webhook.Close)
	l.setInRing(l.namespace, true)
	l.ring = &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: l.namespace, Labels: map[string]string{l.label(): "true"}}}
	l.ring.Spec = v1alpha1.ClusterRingSpec{
		Resources:         []v1alpha1.RingResource{{GroupResource: configMaps, ControlledResources: []v1alpha1.GroupResource{secrets}}},
		NamespaceSelector: &v1alpha1.PodSelector{MatchLabels: map[string]string{l.label(): "true"}},
		ShardNamespace:    l.namespace, LeaseDurationSeconds: 2, TokensPerShard: 100,
	}
	for _, c := range change {
		c(&l.ring.Spec)
	}
	l.rules = l.rulesOfChart()
	for _, gr := range rulesOf(&l.ring.Spec) {
		l.rules = append(l.rules, resourceRules(gr)...)
	}
	l.must(l.Create(t.Context(), l.ring))
	l.watchTransitions()
	t.Cleanup(l.cleanUp)
	return l
}

// rulesOfChart returns the rules without those for the resources of rings.
func (l *fixture) rulesOfChart() []rbacv1.PolicyRule {
	return slices.Concat(roles.Rules(l, "sharder.cluster"), roles.Rules(l, "sharder.shards"))
}

// resourceRules returns the rules for a resource of a ring. The user who creates a ring grants them.
func resourceRules(gr v1alpha1.GroupResource) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{gr.Group}, Resources: []string{gr.Resource}, Verbs: verbs()}}
}

// label returns the label that selects the namespaces of the lab's ring.
func (l *fixture) label() string { return "of-" + l.namespace }

func (l *fixture) cleanUp() {
	ctx := context.Background()
	for _, object := range []client.Object{
		l.ring, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: configurationPrefix + l.ring.Name}},
	} {
		_ = l.Delete(ctx, object)
	}
	_ = l.DeleteAllOf(ctx, &networkingv1.IngressClass{}, client.MatchingLabels{l.label(): "true"})
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wrong := range l.violations {
		l.Error(wrong)
	}
}

// setInRing adds a namespace to the ring, or removes it.
func (l *fixture) setInRing(name string, inRing bool) {
	l.Helper()
	namespace := &corev1.Namespace{}
	l.must(l.Get(l.Context(), client.ObjectKey{Name: name}, namespace))
	before := namespace.DeepCopy()
	namespace.Labels[l.label()] = fmt.Sprint(inRing)
	l.must(l.Patch(l.Context(), namespace, client.MergeFrom(before)))
}

// grant gives more rights to the running sharder.
func (l *fixture) grant(rules []rbacv1.PolicyRule) {
	l.Helper()
	role := &rbacv1.ClusterRole{}
	l.must(l.Get(l.Context(), client.ObjectKey{Name: l.user}, role))
	role.Rules = append(role.Rules, rules...)
	l.must(l.Update(l.Context(), role))
}

// sharder is a running sharder.
type sharder struct {
	*prometheus.Registry
	stop func()
}

// start runs a sharder with exactly the rights that it declares.
func (l *fixture) start() *sharder {
	l.Helper()
	l.user = fmt.Sprintf("sharder-of-%s-%d", l.namespace, time.Now().UnixNano())
	account := testplane.User(l, l.user, l.rules)
	s := &sharder{Registry: prometheus.NewRegistry()}
	s.stop = testplane.StartManager(l, account, func(ctx context.Context, mgr manager.Manager) error {
		roll, err := members.NewShardTracker(ctx, mgr, func() bool { return true })
		if err != nil {
			return err
		}
		l.roll.Store(roll)
		return setup(ctx, mgr, Options{
			Roll: roll, ClientConfig: l.clientConfig, PassRequests: l.passRequests, Registry: s.Registry,
			Annotations: map[string]string{"cert-manager.io/inject-ca-from": "ns/certificate"},
		}, l.timing)
	}, func(o *manager.Options) {
		o.Cache = clusters.CacheOptions()
		members.Select(&o.Cache)
		l.restrictCache(&o.Cache)
		o.Logger = testr.New(l.T)
	})
	return s
}

// restrictCache keeps a sharder away from other tests' rings.
func (l *fixture) restrictCache(options *cache.Options) {
	for kind, by := range options.ByObject {
		if _, ok := kind.(*coordinationv1.Lease); ok {
			by.Namespaces = map[string]cache.Config{l.namespace: {}}
			options.ByObject[kind] = by
		}
	}
	options.ByObject[&v1alpha1.ClusterRing{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{l.label(): "true"})}
}

func (l *fixture) clientConfig() admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{URL: ptr.To(l.webhook.URL)}
	if !l.hasForeignCA.Load() {
		config.CABundle = l.authority()
	}
	return config
}

func (l *fixture) authority() []byte {
	if other := l.replaced.Load(); other != nil {
		return *other
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.webhook.Certificate().Raw})
}

// serveWebhook is the webhook, which a test plays: it assigns main objects to their shards, and no others.
func (l *fixture) serveWebhook(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	review := admissionv1.AdmissionReview{}
	roll := l.roll.Load()
	if l.webhookFails.Load() || roll == nil || !roll.HasSynced() || r.URL.Path != Path(l.ring.Name) || json.Unmarshal(body, &review) != nil {
		http.Error(w, "away", http.StatusServiceUnavailable)
		return
	}
	o, before := &object{}, &object{}
	_ = json.Unmarshal(review.Request.Object.Raw, o)
	_ = json.Unmarshal(review.Request.OldObject.Raw, before)
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	gr := v1alpha1.GroupResource{Group: review.Request.Resource.Group, Resource: review.Request.Resource.Resource}
	had, has := ring.PlacementOf(l.ring.Name, before.Labels), ring.PlacementOf(l.ring.Name, o.Labels)
	if shard, ok := roll.Shards(l.ring).Admit(had, has, ring.KeyOf(l.ring.Spec.KeyPolicy, gr, o), ring.Load{}); ok && gr != secrets {
		all := maps.Clone(o.Labels)
		if all == nil {
			all = map[string]string{}
		}
		all[v1alpha1.LabelShard(l.ring.Name)] = shard
		if has.Released {
			delete(all, v1alpha1.LabelDrain(l.ring.Name))
		}
		kind := admissionv1.PatchTypeJSONPatch
		review.Response.Patch, _ = json.Marshal([]map[string]any{{"op": "add", "path": "/metadata/labels", "value": all}})
		review.Response.PatchType = &kind
	}
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

func (l *fixture) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) eventually(claim string, unmet func() string) {
	l.Helper()
	testplane.Eventually(l, func() string {
		if seen := unmet(); seen != "" {
			return fmt.Sprintf("%s: %s\n%s", claim, seen, l.state())
		}
		return ""
	})
}

// state returns the status of the ring, for a failure message.
func (l *fixture) state() string {
	now := &v1alpha1.ClusterRing{}
	_ = l.Get(context.Background(), client.ObjectKeyFromObject(l.ring), now)
	text, _ := json.MarshalIndent(now.Status, "", " ")
	return string(text) + "\n" + strings.Join(l.events(), "\n")
}

func (l *fixture) events() []string {
	list := &eventsv1.EventList{}
	_ = l.List(context.Background(), list, client.InNamespace("default"))
	var all []string
	for _, e := range list.Items {
		if e.Regarding.Name == l.ring.Name {
			all = append(all, e.Type+" "+e.Reason+": "+e.Note)
		}
	}
	return all
}

func (l *fixture) waitForEvent(words ...string) {
	l.Helper()
	l.eventually("there is an event", func() string {
		if slices.ContainsFunc(l.events(), func(event string) bool {
			return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(event, word) })
		}) {
			return ""
		}
		return fmt.Sprintf("no event has %q", words)
	})
}

// edit changes the ring's spec.
func (l *fixture) edit(change func(*v1alpha1.ClusterRingSpec)) {
	l.Helper()
	for {
		now := &v1alpha1.ClusterRing{}
		l.must(l.Get(l.Context(), client.ObjectKeyFromObject(l.ring), now))
		change(&now.Spec)
		err := l.Update(l.Context(), now)
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			l.Fatal(err)
		}
	}
}

// waitForStatus waits until unmet returns no complaint about the ring's status.
func (l *fixture) waitForStatus(claim string, unmet func(*v1alpha1.ClusterRingStatus) string) *v1alpha1.ClusterRing {
	l.Helper()
	now := &v1alpha1.ClusterRing{}
	l.eventually(claim, func() string {
		now = &v1alpha1.ClusterRing{}
		l.must(l.Get(l.Context(), client.ObjectKeyFromObject(l.ring), now))
		if now.Status.ObservedGeneration != now.Generation {
			return "status has another observedGeneration"
		}
		return unmet(&now.Status)
	})
	return now
}

// hasCondition requires that a status has a condition.
func hasCondition(condition string, status metav1.ConditionStatus, reason string, words ...string) func(*v1alpha1.ClusterRingStatus) string {
	return func(s *v1alpha1.ClusterRingStatus) string {
		have := meta.FindStatusCondition(s.Conditions, condition)
		if have == nil || have.Status != status || have.Reason != reason {
			return fmt.Sprintf("condition %s is %+v, want status %s with reason %s", condition, have, status, reason)
		}
		for _, word := range words {
			if !strings.Contains(have.Message, word) {
				return fmt.Sprintf("condition %s does not contain %q", condition, word)
			}
		}
		return ""
	}
}

// waitUntilBalanced waits until all objects are with their shards, and that there are that many.
func (l *fixture) waitUntilBalanced(objects int64) *v1alpha1.ClusterRing {
	l.Helper()
	return l.waitForStatus("the ring is balanced", func(s *v1alpha1.ClusterRingStatus) string {
		if s.Assigned != objects || s.Unassigned != 0 || s.Draining != 0 {
			return fmt.Sprintf("got %d assigned, %d draining and %d unassigned objects, want all %d assigned", s.Assigned, s.Draining, s.Unassigned, objects)
		}
		return hasCondition(v1alpha1.ConditionBalanced, metav1.ConditionTrue, v1alpha1.ReasonBalanced)(s)
	})
}

// metric returns the sum of a metric of the ring.
func (s *sharder) metric(l *fixture, name string, values ...string) float64 {
	return sumOfSeries(s.Registry, name, append(values, l.ring.Name)...)
}

// sumOfSeries returns the sum of the series of a metric that have these labels.
func sumOfSeries(of *prometheus.Registry, name string, values ...string) float64 {
	families, err := of.Gather()
	if err != nil {
		panic(err)
	}
	sum := 0.0
	for _, family := range families {
		for _, m := range family.Metric {
			all := []string{}
			for _, label := range m.Label {
				all = append(all, label.GetValue())
			}
			if family.GetName() == name && !slices.ContainsFunc(values, func(label string) bool { return !slices.Contains(all, label) }) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
