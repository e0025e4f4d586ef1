package generator

import (
	"context"
	"errors"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metadatafake "k8s.io/client-go/metadata/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	core "github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

// confirmableBrake grants what is confirmed by what the request has.
type confirmableBrake struct{ holdingBrake }

func (b *confirmableBrake) Decide(_ context.Context, request core.Request) (core.Answer, error) {
	if request.IsConfirmed(nil, time.Now()) {
		return core.Answer{Verdict: core.Granted}, nil
	}
	return core.Answer{Verdict: core.Held}, nil
}

// The cache still shows a confirmation on the source that the user has withdrawn.
func TestRemovedPartIsNotReleasedByWithdrawnConfirmation(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Bundle"}
	ref := policy.Ref{Group: kind.Group, Kind: kind.Kind, Namespace: "shop", Name: "web"}
	_, protector := newWebWithProtector(t)
	protector.Name = "bundle.example.com-web-front-5bb8e40a"
	d := newStaleDependencies(t, nil, []client.Object{protector})
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{kind.GroupVersion()})
	mapper.Add(kind, meta.RESTScopeNamespace)
	live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Bundle"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	d.kinds.mapper, d.kinds.Metadata = mapper, metadatafake.NewSimpleMetadataClient(scheme, live)
	d.kinds.watches = newKindWatches(d.kinds.Metadata, "")
	d.brake = &confirmableBrake{}
	shown := live.DeepCopy()
	shown.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
	if err := newReconciler(d).protection.releaseRemovedParts(t.Context(), ref, shown, []*v1alpha1.PodProtector{protector}, nil, choiceByLabel()); err != nil && !errors.Is(err, errOutdated) {
		t.Fatal(err)
	}
	if err := d.live.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil {
		t.Errorf("the protector of the part: %v, want it held: nothing confirms its release any more", err)
	}
}

// A leader is paused between the grant of a release and its first write. Meanwhile the user takes the opt-out back, and another leader withdraws the record.
func TestPausedLeaderDoesNotReleaseWhatIsWantedAgain(t *testing.T) {
	web, protector := newWebWithProtector(t)
	web.Labels = nil
	withConditions(protector, metav1.Condition{Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQuietPeriod})
	d := newStaleDependencies(t, []client.Object{web, protector}, []client.Object{web, protector})
	stored := d.live.(client.WithWatch)
	paused := false
	writes := interceptor.NewClient(stored, interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*v1alpha1.PodProtector); ok && !paused {
				paused = true
				if err := w.Get(ctx, client.ObjectKeyFromObject(web), web); err != nil {
					t.Fatal(err)
				}
				web.Labels = map[string]string{v1alpha1.LabelProtect: "true"}
				if err := w.Update(ctx, web); err != nil {
					t.Fatal(err)
				}
				other := &v1alpha1.PodProtector{}
				if err := w.Get(ctx, client.ObjectKeyFromObject(protector), other); err != nil {
					t.Fatal(err)
				}
				withConditions(other, metav1.Condition{Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPending})
				if err := w.Status().Update(ctx, other); err != nil {
					t.Fatal(err)
				}
			}
			return w.Patch(ctx, object, patch, options...)
		},
	})
	d.client, d.brake = splitClient{writes, d.client.(splitClient).Reader}, &grantingBrake{}
	got, err := newReconciler(d).reconcileSource(t.Context(), webRef)
	if errGet := stored.Get(t.Context(), client.ObjectKeyFromObject(protector), &v1alpha1.PodProtector{}); errGet != nil {
		t.Errorf("reconcileSource() = %q, %v; the protector: %v, want it kept: its source wants it again", got, err, errGet)
	}
}

// The API server ends between the removal of the finalizer and the record. The protector was terminating (its namespace, or a user's deletion that was held), so
// that the first of the two ended it.
func TestReleaseOfTerminatingProtectorIsRecorded(t *testing.T) {
	web, protector := newWebWithProtector(t)
	markTerminating(web)
	markTerminating(protector)
	d := newStaleDependencies(t, nil, []client.Object{web, protector})
	failed := false
	one := interceptor.NewClient(d.live.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if _, ok := object.(*eventsv1.Event); ok && !failed {
				failed = true
				return errors.New("connection refused")
			}
			return w.Create(ctx, object, options...)
		},
	})
	d.client, d.live, d.kinds.Live, d.kinds.Cache = one, one, one, one
	r := newReconciler(d)
	for range 3 {
		_, _ = r.reconcileSource(t.Context(), webRef) // the first one fails
	}
	errWeb := one.Get(t.Context(), client.ObjectKeyFromObject(web), web)
	recorded, err := clusters.WasReleased(t.Context(), one, protector)
	if err != nil || !recorded {
		t.Errorf("Deployment: %v. WasReleased() = %v, %v, want true: whose watch was interrupted takes the protector for lost", errWeb, recorded, err)
	}
}
