package generator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

var webRef = policy.RefOf(schema.GroupKind{Group: "apps", Kind: "Deployment"}, &metav1.ObjectMeta{Namespace: "shop", Name: "web"})

// newWebWithProtector returns a Deployment and its protector, as they are stored.
func newWebWithProtector(t *testing.T) (*appsv1.Deployment, *v1alpha1.PodProtector) {
	t.Helper()
	web := (&fixture{t: t, namespace: webRef.Namespace}).deployment("web", func(d *appsv1.Deployment) {
		d.UID, d.Finalizers = "1", []string{v1alpha1.FinalizerSource}
	})
	wanted, err := policy.FromDeployment(web)
	if err != nil {
		t.Fatal(err)
	}
	wanted.Object.UID = "2"
	return web, wanted.Object
}

// markTerminating marks an object as being deleted.
func markTerminating[T client.Object](object T) T {
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)
	return object
}

// withConditions gives a protector conditions, as they are when the brake holds its release.
func withConditions(protector *v1alpha1.PodProtector, conditions ...metav1.Condition) *v1alpha1.PodProtector {
	for _, c := range conditions {
		meta.SetStatusCondition(&protector.Status.Conditions, c)
	}
	return protector
}

func targetNotResolved(reason string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: reason}
}

// newStaleDependencies returns the dependencies of a reconciler whose cache shows some objects, while the API server has others.
func newStaleDependencies(t *testing.T, shown, stored []client.Object) dependencies {
	t.Helper()
	metrics := NewMetrics(prometheus.NewRegistry(), nil)
	build := func(objects []client.Object) client.WithWatch {
		return fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(&v1alpha1.PodProtector{}).
			WithIndex(&v1alpha1.PodProtector{}, sourceIndex, indexSource).WithObjects(objects...).Build()
	}
	cache, live := build(shown), build(stored)
	return dependencies{
		client: splitClient{live, cache}, live: live, metrics: metrics, events: events.NewFakeRecorder(100),
		kinds: &Kinds{
			Cache: cache, Live: live, Scheme: clusters.Scheme(),
			Watched: []schema.GroupVersionKind{appsv1.SchemeGroupVersion.WithKind("Deployment")},
		},
		selector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}),
	}
}

// splitClient reads from a cache and writes to the API server.
type splitClient struct {
	client.WithWatch
	client.Reader
}

func (s splitClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return s.Reader.Get(ctx, key, object, options...)
}

func (s splitClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.Reader.List(ctx, list, options...)
}

// A status update causes no event that passes the generator's predicates, and a Deployment that a restored core has deleted again looks
// unchanged.
func TestReconcileRequeuesOnOutdatedCache(t *testing.T) {
	web, protector := newWebWithProtector(t)
	unfinished := protector.DeepCopy()
	unfinished.Annotations[v1alpha1.AnnotationRestored] = "0"
	for claim, c := range map[string]struct {
		shown, stored []client.Object
		want          bool
	}{
		"a protector waits for its status": {[]client.Object{unfinished}, []client.Object{unfinished}, true},
		"a restored core reverted a deletion": {
			[]client.Object{markTerminating(web.DeepCopy()), protector}, []client.Object{web, protector}, true,
		},
		"the cache is up to date": {[]client.Object{protector}, []client.Object{protector}, false},
	} {
		t.Run(claim, func(t *testing.T) {
			result, err := newReconciler(newStaleDependencies(t, c.shown, c.stored)).Reconcile(t.Context(), webRef)
			if err != nil || (result.RequeueAfter == clusters.RecheckInterval) != c.want {
				t.Errorf("Reconcile() = %+v, %v, want a requeue: %v", result, err, c.want)
			}
		})
	}
}

// The API server may have another state of the source than the one by which the cache says that it needs no protector any more. A cascade may have
// deleted it meanwhile, or another source of its name: a request for the cached one would not name that, and would withdraw its record.
func TestReleaseWaitsForCacheToShowTheSource(t *testing.T) {
	web, protector := newWebWithProtector(t)
	optedOut, deleted, another := web.DeepCopy(), markTerminating(web.DeepCopy()), markTerminating(web.DeepCopy())
	optedOut.Labels[v1alpha1.LabelProtect] = "false"
	another.UID = "9"
	for claim, c := range map[string]struct {
		shown  *appsv1.Deployment
		stored []client.Object
		want   outcome
		asked  int
	}{
		"it opted out before it was deleted": {optedOut, []client.Object{deleted}, outdated, 0},
		"it opted out before it vanished":    {optedOut, nil, outdated, 0},
		"it was deleted before it vanished":  {deleted, nil, outdated, 0},
		"another one of its name is deleted": {deleted, []client.Object{another}, outdated, 0},
		"it opted out":                       {optedOut, []client.Object{optedOut}, decreaseHeld, 1},
		"it is being deleted":                {deleted, []client.Object{deleted}, outdated, 1}, // the cache does not show yet why it is held
	} {
		t.Run(claim, func(t *testing.T) {
			d, brake := newStaleDependencies(t, []client.Object{c.shown, protector}, append(c.stored, protector)), &causeBrake{}
			d.brake = brake
			got, err := newReconciler(d).reconcileProtectors(t.Context(), webRef, c.shown, []*v1alpha1.PodProtector{protector})
			if err != nil || got != c.want || len(brake.deleted) != c.asked {
				t.Errorf("reconcileProtectors() = %q, %v after %d requests to the brake, want %q after %d", got, err, len(brake.deleted), c.want, c.asked)
			}
		})
	}
}

// A cache that does not show a protector yet hides that the deletion of its policy releases it, which may be part of a cascade (simulation, 1804089).
func TestReleaseWithoutCachedProtectorNamesDeletedPolicy(t *testing.T) {
	web, protector := newWebWithProtector(t)
	web.Labels = map[string]string{"rule": "true"}
	rule := ruleDeletedWithItsOwner()
	protector.Annotations[v1alpha1.AnnotationPolicy], protector.Annotations[v1alpha1.AnnotationPolicyRule] = "ProtectionPolicy/rule", "{}"
	d, brake := newStaleDependencies(t, []client.Object{web, rule}, []client.Object{web, rule, protector}), &causeBrake{}
	d.brake, d.kinds.Metadata = brake, existingDefinition(t)
	if got, err := newReconciler(d).reconcileProtectors(t.Context(), webRef, web, nil); err != nil || got != decreaseHeld {
		t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, decreaseHeld)
	}
	if len(brake.deleted) != 1 || brake.deleted[0] == nil || len(brake.deleted[0].GetOwnerReferences()) != 1 {
		t.Errorf("the brake was asked about the deletions of %v, want that of the policy with its owner", brake.deleted)
	}
}

// The deletion of a policy waits for a protector that vanished and is about to be recreated (simulation, 1804089).
func TestVanishedProtectorDependsOnItsPolicy(t *testing.T) {
	for claim, c := range map[string]struct {
		policy string
		want   int
	}{"of this policy": {"ProtectionPolicy/rule", 1}, "of another policy": {"ProtectionPolicy/other", 0}, "of a label": {"", 0}} {
		_, last := newWebWithProtector(t)
		last.Annotations[v1alpha1.AnnotationPolicy], last.Annotations[v1alpha1.AnnotationPolicyRule] = c.policy, "{}"
		d := newStaleDependencies(t, nil, nil)
		cache := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithIndex(&v1alpha1.PodProtector{}, policyIndex, indexPolicy).Build()
		r := &PolicyReconciler{Client: cache, Live: d.live, Losses: &fakeLosses{last: last}}
		rule := policy.NewPolicy(&v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: webRef.Namespace, Name: "rule"}})
		if got, err := r.countDependents(t.Context(), rule); err != nil || got != c.want {
			t.Errorf("a lost protector %s: countDependents() = %d, %v, want %d", claim, got, err, c.want)
		}
	}
}

// ruleDeletedWithItsOwner returns a policy for workloads with the label rule, which is being deleted as the garbage collector does.
func ruleDeletedWithItsOwner() *v1alpha1.ProtectionPolicy {
	rule := markTerminating(&v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: webRef.Namespace, Name: "rule", Finalizers: []string{v1alpha1.FinalizerSource},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "release", UID: "3"}},
	}})
	rule.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"rule": "true"}}
	rule.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	return rule
}

// existingDefinition returns an API server that has the CustomResourceDefinition of ruleDeletedWithItsOwner.
func existingDefinition(t *testing.T) metadata.Interface {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "protectionpolicies.breakwater.dev"},
	})
}

// Nor does a cache that shows the protector as it was before the policy applied.
func TestDecreaseWaitsForCacheToShowThePolicy(t *testing.T) {
	web, shown := newWebWithProtector(t)
	web.Labels["rule"] = "true"
	stored := shown.DeepCopy()
	stored.Spec.MinAvailable = v1alpha1.Pods(100)
	stored.Annotations[v1alpha1.AnnotationPolicy], stored.Annotations[v1alpha1.AnnotationPolicyRule] = "ProtectionPolicy/rule", "{}"
	shown.Spec.MinAvailable = v1alpha1.Pods(6) // so that there is something to change
	rule := ruleDeletedWithItsOwner()
	d, brake := newStaleDependencies(t, []client.Object{web, rule, shown}, []client.Object{web, rule, stored}), &causeBrake{}
	d.brake, d.kinds.Metadata = brake, existingDefinition(t)
	for _, err := range []error{d.live.Get(t.Context(), webRef.Key(), web), d.client.Get(t.Context(), client.ObjectKeyFromObject(shown), shown)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := newReconciler(d).reconcileProtectors(t.Context(), webRef, web, []*v1alpha1.PodProtector{shown})
	if err != nil || got != outdated || len(brake.deleted) > 0 {
		t.Errorf("reconcileProtectors() = %q, %v, and the brake got %d requests; want %q and none", got, err, len(brake.deleted), outdated)
	}
}

// causeBrake holds all decreases, and records the objects whose deletions cause them.
type causeBrake struct {
	holdingBrake
	deleted []metav1.Object
}

func (b *causeBrake) Decide(_ context.Context, request core.Request) (core.Answer, error) {
	b.deleted = append(b.deleted, request.Deleted)
	return core.Answer{Verdict: core.Held}, nil
}

// The record that the core lost may have been that of a cascade, which is not granted without a confirmation.
func TestNoReleaseRequestForRecordMissingFromAPIServer(t *testing.T) {
	_, protector := newWebWithProtector(t)
	recorded := withConditions(protector.DeepCopy(), deletedCause(webRef).heldCondition.Condition, targetNotResolved(v1alpha1.ReasonCascade))
	for claim, c := range map[string]struct {
		stored *v1alpha1.PodProtector
		want   outcome
		asked  int
	}{
		"the API server lost the record": {protector, outdated, 0},
		"the API server has the record":  {recorded, decreaseHeld, 1},
	} {
		t.Run(claim, func(t *testing.T) {
			brake, d := &holdingBrake{}, newStaleDependencies(t, []client.Object{recorded}, []client.Object{c.stored})
			d.brake = brake
			if got, err := newReconciler(d).retainer.retainWithoutSource(t.Context(), webRef, []*v1alpha1.PodProtector{recorded}); err != nil || got != c.want {
				t.Errorf("retainWithoutSource() = %q, %v, want %q", got, err, c.want)
			}
			if len(brake.requests) != c.asked {
				t.Errorf("brake got the requests %q, want %d", brake.requests, c.asked)
			}
		})
	}
}

// The keeper recreates a protector that vanishes as the cache last showed it. Only its condition records that its source was deleted.
func TestSourceKeepsFinalizerUntilCacheShowsHeldCondition(t *testing.T) {
	web, protector := newWebWithProtector(t)
	markTerminating(web)
	recorded := withConditions(protector.DeepCopy(), deletedCause(webRef).heldCondition.Condition, targetNotResolved(v1alpha1.ReasonLimitExceeded))
	another := recorded.DeepCopy()
	another.UID = "0"
	for claim, c := range map[string]struct {
		shown *v1alpha1.PodProtector
		want  outcome
		stays bool
	}{
		"the cache is behind":                {protector, outdated, true},
		"the cache shows a former protector": {another, outdated, true},
		"the cache shows the condition":      {recorded, decreaseHeld, false},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newStaleDependencies(t, []client.Object{web, c.shown}, []client.Object{web, recorded})
			d.brake = &holdingBrake{}
			if got, err := newReconciler(d).reconcileProtectors(t.Context(), webRef, web, []*v1alpha1.PodProtector{c.shown}); err != nil || got != c.want {
				t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, c.want)
			}
			err := d.live.Get(t.Context(), webRef.Key(), &appsv1.Deployment{})
			if (err == nil) != c.stays {
				t.Errorf("Deployment exists: %v, want %v", err, c.stays)
			}
		})
	}
}

// A response that comes late may be older than a restore of the core, which has the source again and has lost the record.
func TestSourceKeepsFinalizerAfterSlowRead(t *testing.T) {
	for claim, c := range map[string]struct {
		takes time.Duration
		want  outcome
		stays bool
	}{
		"in time": {time.Second, decreaseHeld, false},
		"late":    {10 * time.Second, outdated, true},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, protector := newWebWithProtector(t)
				markTerminating(web)
				recorded := withConditions(protector, deletedCause(webRef).heldCondition.Condition, targetNotResolved(v1alpha1.ReasonLimitExceeded))
				d := newStaleDependencies(t, []client.Object{web, recorded}, []client.Object{web, recorded})
				d.brake, d.live = &holdingBrake{}, slowReader{d.live, c.takes}
				if got, err := newReconciler(d).reconcileProtectors(t.Context(), webRef, web, []*v1alpha1.PodProtector{recorded}); err != nil || got != c.want {
					t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, c.want)
				}
				err := d.live.Get(t.Context(), webRef.Key(), &appsv1.Deployment{})
				if (err == nil) != c.stays {
					t.Errorf("Deployment exists: %v, want %v", err == nil, c.stays)
				}
			})
		})
	}
}

// slowReader delays reads of protectors.
type slowReader struct {
	client.Reader
	delay time.Duration
}

func (s slowReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*v1alpha1.PodProtector); ok {
		<-time.After(s.delay)
	}
	return s.Reader.Get(ctx, key, object, options...)
}
