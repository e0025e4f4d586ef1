package generator

import (
	"context"
	"errors"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/metadata"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// namespacesWith returns an API server that has the namespace of webRef with some labels.
func namespacesWith(t *testing.T, labels map[string]string) metadata.Interface {
	t.Helper()
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return metadatafake.NewSimpleMetadataClient(scheme, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: webRef.Namespace, Labels: labels},
	})
}

// protectorOf makes a protector one that a policy has generated.
func protectorOf(protector *v1alpha1.PodProtector, policy string) *v1alpha1.PodProtector {
	protector.Annotations[v1alpha1.AnnotationPolicy], protector.Annotations[v1alpha1.AnnotationPolicyRule] = policy, "{}"
	return protector
}

// syncedInformer is an informer that has listed its objects.
type syncedInformer struct{ toolscache.SharedIndexInformer }

func (syncedInformer) HasSynced() bool { return true }

// A user labels the namespace, and then makes the policy select that label. The watch of namespaces may be later than that of policies.
func TestReleaseReadsTheLabelsOfTheNamespace(t *testing.T) {
	web, protector := newWebWithProtector(t)
	web.Labels = map[string]string{"team": "shop"}
	protectorOf(protector, "ClusterProtectionPolicy/all")
	all := &v1alpha1.ClusterProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Finalizers: []string{v1alpha1.FinalizerPolicy}}}
	all.Spec.NamespaceSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"env": "production"}}
	all.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	all.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	for claim, c := range map[string]struct {
		stored map[string]string
		want   outcome
	}{
		"the namespace has the label":     {map[string]string{"env": "production"}, protected},
		"the namespace has another label": {map[string]string{"env": "test"}, decreaseHeld},
	} {
		t.Run(claim, func(t *testing.T) {
			stored := []client.Object{web, protector, all}
			d := newStaleDependencies(t, stored, stored)
			d.brake, d.kinds.Metadata = &holdingBrake{}, namespacesWith(t, c.stored)
			d.kinds.watches = newKindWatches(d.kinds.Metadata, "")
			watched := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
			if err := watched.GetStore().Add(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: webRef.Namespace}}); err != nil {
				t.Fatal(err)
			}
			d.kinds.watches.auxiliary[namespaceResource()] = &kindWatch{informer: syncedInformer{watched}}
			got, err := newReconciler(d).reconcileProtectors(t.Context(), webRef, web, []*v1alpha1.PodProtector{protector})
			if err != nil || got != c.want {
				t.Errorf("reconcileProtectors() = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// A user labels a workload for another policy, and then weakens the former one. The watch of workloads may be later than that of policies.
func TestDecreaseReadsTheLabelsOfTheSource(t *testing.T) {
	p := &fixture{t: t, namespace: webRef.Namespace}
	tier := func(name, floor string) *v1alpha1.ProtectionPolicy {
		return p.policy(name, floor, func(pp *v1alpha1.ProtectionPolicy) {
			pp.Finalizers = []string{v1alpha1.FinalizerPolicy}
			pp.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": name}}
			pp.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
		})
	}
	web, protector := newWebWithProtector(t)
	protectorOf(protector, "ProtectionPolicy/bronze").Spec.MinAvailable = v1alpha1.Pods(9)
	labeled := func(name string) *appsv1.Deployment {
		d := web.DeepCopy()
		d.Labels = map[string]string{"tier": name}
		return d
	}
	for stored, want := range map[string]int{"gold": 0, "bronze": 1} {
		policies := []client.Object{tier("bronze", "10%"), tier("gold", "90%"), protector}
		d := newStaleDependencies(t, append(policies, labeled("bronze")), append(policies, labeled(stored)))
		brake := &causeBrake{}
		d.brake = brake
		got, err := newReconciler(d).reconcileSource(t.Context(), webRef)
		if err != nil || len(brake.deleted) != want {
			t.Errorf("a workload of the tier %s: reconcileProtectors() = %q, %v after %d requests for a decrease, want %d", stored, got, err, len(brake.deleted), want)
		}
	}
}

// The labels choose the policy, which says where in the object the parts are. Those of another state would release parts that moved.
func TestFullSourceIsThatOfTheCache(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Game"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kind.GroupVersion()})
	mapper.Add(kind, meta.RESTScopeNamespace)
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(kind)
	stored.SetNamespace("shop")
	stored.SetName("chess")
	stored.SetUID("1")
	stored.SetLabels(map[string]string{"tier": "gold"})
	objects := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), stored)
	k := &Kinds{Dynamic: objects, mapper: mapper, watches: newKindWatches(nil, "")}
	for tier, want := range map[string]bool{"gold": true, "bronze": false} {
		source := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "chess", UID: "1", Labels: map[string]string{"tier": tier}}}
		full, err := k.getFull(t.Context(), policy.RefOf(kind.GroupKind(), source), source, policy.Origin{Record: policy.Record{TemplatePath: "spec.template"}})
		if err != nil || (full != nil) != want {
			t.Errorf("getFull() of a source that the cache shows with the tier %s = %v, %v, want one: %v", tier, full, err, want)
		}
	}
	// The source may be deleted, and another one of its name created, between the read of the object and that of its scale.
	var uid types.UID
	objects.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale"}}
		scale.SetUID(uid)
		return action.GetSubresource() == "scale", scale, nil
	})
	for scale, want := range map[types.UID]bool{"1": true, "": true, "2": false} {
		uid = scale
		source := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "chess", UID: "1", Labels: stored.GetLabels()}}
		full, err := k.getFull(t.Context(), policy.RefOf(kind.GroupKind(), source), source, policy.Origin{})
		if err != nil || (full != nil) != want {
			t.Errorf("getFull() with a scale of the UID %q = %v, %v, want one: %v", scale, full, err, want)
		}
	}
}

// A leader that lags, or was paused, sees a source that a user has deleted since, which another leader has recorded. Without the record the protector would
// stay in force until a user confirms that it is not needed any more.
func TestRecordOfDeletionIsNotReplaced(t *testing.T) {
	web, protector := newWebWithProtector(t)
	web.Finalizers = nil // so that a deletion ends it at once
	unlabeled := web.DeepCopy()
	unlabeled.Labels = nil
	unreadable := protectorOf(protector.DeepCopy(), "ProtectionPolicy/lost")
	unreadable.Annotations[v1alpha1.AnnotationPolicyRule] = "?"
	rule, ruled := ruleDeletedWithItsOwner(), protectorOf(protector.DeepCopy(), "ProtectionPolicy/rule")
	for claim, c := range map[string]struct {
		shown, stored []client.Object
		// at is after which request the other leader records the deletion.
		at string
	}{
		"while it retains a protector":        {[]client.Object{web, unreadable}, []client.Object{web, unreadable}, ""},
		"after it created the protector":      {[]client.Object{web}, []client.Object{web}, "apply"},
		"while it records that none is there": {[]client.Object{protector}, []client.Object{protector}, "get"},
		"while it releases by a policy":       {[]client.Object{unlabeled, rule, ruled}, []client.Object{unlabeled, rule, ruled}, "decide"},
	} {
		t.Run(claim, func(t *testing.T) {
			d := newStaleDependencies(t, c.shown, c.stored)
			d.kinds.Metadata, d.brake = existingDefinition(t), &holdingBrake{}
			other := d.live.(client.WithWatch)
			record := sync.OnceFunc(func() {
				stored := &v1alpha1.PodProtector{}
				if err := other.Get(t.Context(), client.ObjectKeyFromObject(protector), stored); err != nil {
					t.Fatal(err)
				}
				if err := other.Status().Update(t.Context(), withConditions(stored, deletedCause(webRef).heldCondition.Condition)); err != nil {
					t.Fatal(err)
				}
				if err := other.Delete(t.Context(), web); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
			})
			if c.at == "" {
				record()
			}
			live := interceptor.NewClient(other, interceptor.Funcs{
				Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
					err := w.Get(ctx, key, object, options...)
					if _, ok := object.(*v1alpha1.PodProtector); ok && c.at == "get" {
						record()
					}
					return err
				},
				Apply: func(ctx context.Context, w client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					err := w.Apply(ctx, object, options...)
					record()
					return err
				},
			})
			d.client, d.live, d.kinds.Live = splitClient{live, d.client.(splitClient).Reader}, live, live
			if c.at == "decide" {
				d.brake = &recordingBrake{record: record}
			}
			r := newReconciler(d)
			got, err := r.reconcileSource(t.Context(), webRef)
			stored := &v1alpha1.PodProtector{}
			if err := errors.Join(err, other.Get(t.Context(), client.ObjectKeyFromObject(protector), stored)); err != nil {
				t.Fatal(err)
			}
			if !isSourceDeleted(stored) {
				t.Errorf("reconcileSource() = %q, and the conditions are %+v, want the deletion of the source", got, stored.Status.Conditions)
			}
		})
	}
}

// recordingBrake holds all decreases, after it has called record.
type recordingBrake struct {
	holdingBrake
	record func()
}

func (b *recordingBrake) Decide(ctx context.Context, request core.Request) (core.Answer, error) {
	b.record()
	return b.holdingBrake.Decide(ctx, request)
}
