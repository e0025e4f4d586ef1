package aggregator

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// exemptions determines in which namespaces the API server of the cell does not call the webhook for removals. It watches the webhook
// configurations of the cell's cluster, and the labels of its namespaces.
type exemptions struct {
	cell                       string
	configurations, namespaces toolscache.SharedIndexInformer
	labels                     *namespaceLabels
	// problem is why they cannot be read; nil if the API server does not deny it.
	problem atomic.Pointer[string]
	// enqueue enqueues the protectors of some namespaces.
	enqueue func(in func(namespace string) bool)
}

// newExemptions returns the exemptions of a cell. It must run, and so must the labels, before it knows any.
func newExemptions(cell string, client kubernetes.Interface, labels *namespaceLabels, enqueue func(in func(string) bool)) (*exemptions, error) {
	e := &exemptions{cell: cell, labels: labels, namespaces: labels.namespaces, enqueue: enqueue}
	configurations := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	e.configurations = toolscache.NewSharedIndexInformer(clusters.Retrying(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return configurations.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return configurations.Watch(ctx, options)
		},
	}), &admissionregistrationv1.ValidatingWebhookConfiguration{}, 0, toolscache.Indexers{})
	for _, setUp := range []func() error{
		func() error { return e.configurations.SetTransform(stripConfiguration) },
		func() error {
			return e.configurations.SetWatchErrorHandler(e.recordError("list validatingwebhookconfigurations"))
		},
		func() error { return e.namespaces.SetWatchErrorHandler(e.recordError("list namespaces")) },
		func() error { return addHandler(e.configurations, e.configurationChanged) },
		func() error { return addHandler(e.namespaces, e.namespaceChanged) },
	} {
		if err := setUp(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// addHandler calls changed with the object before and after each change; nil if it did not or does not exist.
func addHandler(informer toolscache.SharedIndexInformer, changed func(before, after any)) error {
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(after any) { changed(nil, after) }, UpdateFunc: changed,
		DeleteFunc: func(before any) {
			if tombstone, ok := before.(toolscache.DeletedFinalStateUnknown); ok {
				before = tombstone.Obj
			}
			changed(before, nil)
		},
	})
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

// run watches until ctx ends. It may be called for nil, which knows no exemption.
func (e *exemptions) run(ctx context.Context) {
	if e == nil {
		return
	}
	go func() { // the handlers of both informers run before the other one has synced
		if toolscache.WaitForCacheSync(ctx.Done(), e.isSynced) {
			e.problem.Store(nil)
			e.enqueue(allNamespaces)
		}
	}()
	e.configurations.RunWithContext(ctx)
}

// recordError records that the API server denies access. Any other error is temporary.
func (e *exemptions) recordError(action string) toolscache.WatchErrorHandler {
	return func(_ *toolscache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			return
		}
		problem := "allow the aggregator to " + action + " in the cluster of the cell"
		if e.problem.Swap(&problem) == nil {
			e.enqueue(allNamespaces)
		}
	}
}

func (e *exemptions) configurationChanged(before, after any) {
	if !e.isSynced() {
		return
	}
	was, is := e.webhooksOf(before), e.webhooksOf(after)
	if !equality.Semantic.DeepEqual(was, is) {
		e.enqueue(allNamespaces)
	}
}

// webhooksOf returns the webhooks of a configuration that are for the cell.
func (e *exemptions) webhooksOf(obj any) []webhookconfig.Webhook {
	configuration, ok := obj.(*admissionregistrationv1.ValidatingWebhookConfiguration)
	if !ok {
		return nil
	}
	return webhookconfig.CellWebhooks(e.cell, []admissionregistrationv1.ValidatingWebhookConfiguration{*configuration})
}

func (e *exemptions) namespaceChanged(before, after any) {
	was, _ := before.(*metav1.PartialObjectMetadata)
	is, _ := after.(*metav1.PartialObjectMetadata)
	if !e.isSynced() || is == nil || was != nil && was.UID == is.UID && maps.Equal(was.Labels, is.Labels) {
		return // a namespace that is deleted has no pods any more
	}
	e.enqueue(func(namespace string) bool { return namespace == is.Name })
}

func (e *exemptions) isSynced() bool { return e.labels.hasSynced() && e.configurations.HasSynced() }

// exemption is whether an API server calls the webhook for removals in a namespace.
type exemption struct {
	cause v1alpha1.Exemption
	// problem is why the cause cannot be determined.
	problem string
	// again is when to determine it again, without another event; 0 is never.
	again time.Duration
}

// of returns whether and why a namespace is exempt. known is false while it is not determined: what was found before then stays. isCounted reports
// that something was found before.
func (e *exemptions) of(namespace string, isCounted bool) (found exemption, known bool) {
	if e == nil {
		return exemption{}, false
	}
	if !e.isSynced() {
		if denied := e.problem.Load(); denied != nil {
			return exemption{problem: *denied}, true
		}
		return exemption{}, false
	}
	// A namespace that does not exist has no pods. It needs no label.
	labels := map[string]string{corev1.LabelMetadataName: namespace, v1alpha1.LabelProtected: "true"}
	stored, exists, _ := e.namespaces.GetStore().GetByKey(namespace)
	if !exists {
		return exemption{cause: e.causeOf(labels)}, true
	}
	object := stored.(*metav1.PartialObjectMetadata)
	labels = object.Labels
	found.cause = e.causeOf(labels)
	left, isListed := e.labels.settling(object)
	if found.cause != "" || left == 0 {
		return found, true
	}
	labels = maps.Clone(labels)
	delete(labels, v1alpha1.LabelProtected)
	unlabeled := e.causeOf(labels)
	if unlabeled == "" { // the label does not matter
		return found, true
	}
	return exemption{cause: unlabeled, again: left}, !isListed || !isCounted
}

func (e *exemptions) causeOf(labels map[string]string) v1alpha1.Exemption {
	var configurations []admissionregistrationv1.ValidatingWebhookConfiguration
	for _, stored := range e.configurations.GetStore().List() {
		configurations = append(configurations, *stored.(*admissionregistrationv1.ValidatingWebhookConfiguration))
	}
	cause, _ := webhookconfig.ExemptionOf(e.cell, labels, configurations)
	return cause
}

// setExemption sets whether the API server of the cell calls the webhook for removals in the namespace.
func (r *reconciler) setExemption(_ context.Context, a *aggregation) (bool, error) {
	r.labels.changed(a.key.Namespace)
	found, known := r.exemptions.of(a.key.Namespace, a.stored.Aggregation.Holder != "")
	if !known {
		found.cause, found.problem = a.stored.Aggregation.Exempt, a.stored.Aggregation.ExemptProblem
	}
	a.cell.Aggregation.Exempt, a.cell.Aggregation.ExemptProblem = found.cause, found.problem
	a.outcome.wait = soonest(a.outcome.wait, found.again)
	return false, nil
}
