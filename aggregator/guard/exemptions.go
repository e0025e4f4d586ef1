package guard

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Exemptions determines in which namespaces the API server of the cell does not call the webhook for removals. It watches the webhook
// configurations of the cell's cluster, and the labels of its namespaces.
type Exemptions struct {
	cell string
	// ofShares reports that the leadership counts for shares, which report no exemption themselves.
	ofShares                   bool
	configurations, namespaces toolscache.SharedIndexInformer
	// handled report whether the handlers have had all objects of the first lists.
	handled []toolscache.InformerSynced
	// problem is why they cannot be read; nil if the API server does not deny it.
	problem atomic.Pointer[string]
	// enqueue enqueues the protectors of some namespaces.
	enqueue func(in func(namespace string) bool)
	// labels labels namespaces; nil if the core has no identity.
	labels *namespaceLabels
}

// NewExemptions returns the exemptions of a cell. It must run before it knows any.
func NewExemptions(
	cell string, ofShares bool, client kubernetes.Interface, objects metadata.Interface, enqueue func(in func(string) bool),
) (*Exemptions, error) {
	e := &Exemptions{cell: cell, ofShares: ofShares, enqueue: enqueue}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	e.configurations = toolscache.NewSharedIndexInformer(clusters.Retrying(stream.Source(
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return configurations.List(ctx, options)
		},
		configurations.Watch,
	)), &admissionregistrationv1.ValidatingWebhookConfiguration{}, 0, toolscache.Indexers{})
	namespaces := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	e.namespaces = toolscache.NewSharedIndexInformer(clusters.Retrying(stream.Source(
		func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return namespaces.List(ctx, options)
		},
		namespaces.Watch,
	)), &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{})
	for _, setUp := range []func() error{
		func() error { return e.configurations.SetTransform(stripConfiguration) },
		func() error { return e.namespaces.SetTransform(stripNamespace) },
		func() error {
			return e.configurations.SetWatchErrorHandler(e.recordError("list validatingwebhookconfigurations"))
		},
		func() error { return e.namespaces.SetWatchErrorHandler(e.recordError("list namespaces")) },
		func() error { return e.addHandler(e.configurations, e.configurationChanged) },
		func() error { return e.addHandler(e.namespaces, e.namespaceChanged) },
	} {
		if err := setUp(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// addHandler calls changed with the object before and after each change; nil if it did not or does not exist.
func (e *Exemptions) addHandler(informer toolscache.SharedIndexInformer, changed func(before, after any)) error {
	handler, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(after any) { changed(nil, after) }, UpdateFunc: changed,
		DeleteFunc: func(before any) {
			if tombstone, ok := before.(toolscache.DeletedFinalStateUnknown); ok {
				before = tombstone.Obj
			}
			changed(before, nil)
		},
	})
	if err == nil {
		e.handled = append(e.handled, handler.HasSynced)
	}
	return err
}

// stripConfiguration keeps what decides which requests an API server sends to a webhook of Breakwater.
func stripConfiguration(obj any) (any, error) {
	whole, ok := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	if !ok {
		return obj, nil
	}
	kept := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion},
	}
	for i := range whole.Webhooks {
		hook := whole.Webhooks[i]
		hook.ClientConfig.CABundle = nil
		kept.Webhooks = append(kept.Webhooks, hook)
	}
	return kept, nil
}

// stripNamespace keeps the labels of a namespace, and which cores need the label of namespaces with protectors.
func stripNamespace(obj any) (any, error) {
	whole, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion, Labels: whole.Labels,
	}}
	if by, has := whole.Annotations[v1alpha1.AnnotationProtectedBy]; has {
		kept.Annotations = map[string]string{v1alpha1.AnnotationProtectedBy: by}
	}
	return kept, nil
}

// LabelNamespaces makes the leadership label namespaces, if the core is known. retention is how long the label stays after the last protector; 0 is ten
// minutes.
func (e *Exemptions) LabelNamespaces(
	core Core, objects metadata.Interface, owns func(namespace string) bool, retention time.Duration, monotonic func() time.Time, log logr.Logger,
) {
	e.labels = newNamespaceLabels(e, core, objects, owns, retention, monotonic, log)
}

// Run watches until ctx ends. It may be called for nil, which knows no exemption.
func (e *Exemptions) Run(ctx context.Context) {
	if e == nil {
		return
	}
	go e.namespaces.RunWithContext(ctx)
	go e.labels.run(ctx)
	go func() { // the handlers of both informers run before the other one has synced
		if toolscache.WaitForCacheSync(ctx.Done(), e.handled...) {
			e.problem.Store(nil)
			e.labels.start()
			e.enqueue(func(string) bool { return true })
		}
	}()
	e.configurations.RunWithContext(ctx)
}

// ShutDown ends the queue of the labels, which exists before run is called. It may be called for nil.
func (e *Exemptions) ShutDown() {
	if e != nil && e.labels != nil {
		e.labels.queue.ShutDown()
	}
}

// recordError records that the API server denies access. Any other error is temporary.
func (e *Exemptions) recordError(action string) toolscache.WatchErrorHandler {
	return func(_ *toolscache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			return
		}
		problem := "allow the aggregator to " + action + " in the cluster of the cell"
		if e.problem.Swap(&problem) == nil {
			e.enqueue(func(string) bool { return true })
		}
	}
}

func (e *Exemptions) configurationChanged(before, after any) {
	if !e.isSynced() {
		return
	}
	was, is := e.webhooksOf(before), e.webhooksOf(after)
	if !equality.Semantic.DeepEqual(was, is) {
		e.enqueue(func(string) bool { return true })
	}
}

// webhooksOf returns the webhooks of a configuration that are for the cell.
func (e *Exemptions) webhooksOf(obj any) []webhookconfig.Webhook {
	configuration, ok := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	if !ok {
		return nil
	}
	return webhookconfig.CellWebhooks(e.cell, []admissionregistrationv1.ValidatingWebhookConfiguration{*configuration})
}

func (e *Exemptions) namespaceChanged(before, after any) {
	was, _ := before.(*metav1.PartialObjectMetadata)
	is, _ := after.(*metav1.PartialObjectMetadata)
	switch {
	case !e.isSynced():
	case is == nil:
		e.labels.namespaceChanged(was, false)
	case was == nil || was.UID != is.UID || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(was.Annotations, is.Annotations):
		e.labels.namespaceChanged(is, true)
		e.enqueue(func(namespace string) bool { return namespace == is.Name })
	}
}

func (e *Exemptions) isSynced() bool {
	return !slices.ContainsFunc(e.handled, func(hasSynced toolscache.InformerSynced) bool { return !hasSynced() })
}

// of returns whether and why a namespace is exempt, or why that cannot be determined. A label of namespaces with protectors counts only if it is
// settled. known is false while it is not determined yet: what was found before then stays.
func (e *Exemptions) of(namespace string, isSettled bool) (exempt v1alpha1.Exemption, problem string, known bool) {
	if !e.isSynced() {
		if denied := e.problem.Load(); denied != nil {
			return "", *denied, true
		}
		return "", "", false
	}
	// A namespace that does not exist has no pods, and needs no label.
	labels := map[string]string{corev1.LabelMetadataName: namespace, v1alpha1.LabelProtected: "true"}
	if stored, exists, _ := e.namespaces.GetStore().GetByKey(namespace); exists {
		labels = maps.Clone(stored.(*metav1.PartialObjectMetadata).Labels)
	}
	if !isSettled {
		delete(labels, v1alpha1.LabelProtected)
	}
	var configurations []admissionregistrationv1.ValidatingWebhookConfiguration
	for _, stored := range e.configurations.GetStore().List() {
		configurations = append(configurations, *stored.(*admissionregistrationv1.ValidatingWebhookConfiguration))
	}
	exempt, _ = webhookconfig.ExemptionOf(e.cell, labels, configurations)
	return exempt, "", true
}

// hasCounts reports whether what an entry says of its namespace is still true until the namespace is read: it has counts that are not void.
func hasCounts(stored *v1alpha1.Aggregation) bool { return stored.CountedSpec != "" && !stored.Void }

// Awaited reports whether the first count of a protector, or the first one after its counts were void, must wait until it is known which namespaces
// are exempt, or why not. It may be called for nil.
func (e *Exemptions) Awaited(stored *v1alpha1.Aggregation) bool {
	return e != nil && !e.ofShares && !hasCounts(stored) && !e.isSynced() && e.problem.Load() == nil
}

// Set sets in counts whether the API server of the cell calls the webhook for removals in the namespace of a protector. It may be called for nil, which
// keeps what is stored.
func (e *Exemptions) Set(p *v1alpha1.PodProtector, stored, counts *v1alpha1.Aggregation) {
	if e == nil {
		counts.Exempt, counts.ExemptProblem = stored.Exempt, stored.ExemptProblem
		return
	}
	wasSettled := hasCounts(stored) && stored.Exempt != v1alpha1.ExemptNotLabeled
	isSettled := e.labels.isSettled(p, wasSettled)
	if e.ofShares {
		return // the protectors of the core report it for their shares
	}
	exempt, problem, known := e.of(p.Namespace, isSettled)
	if !known {
		exempt, problem = stored.Exempt, stored.ExemptProblem
	}
	counts.Exempt, counts.ExemptProblem = exempt, problem
}
