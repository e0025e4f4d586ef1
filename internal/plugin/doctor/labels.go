package doctor

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
	"github.com/breakwater-k8s/breakwater/internal/plugin/doctor/findings"
)

// readLabeled returns the metadata of workloads of built-in kinds, and of namespaces, that a label selector selects.
func readLabeled(ctx context.Context, config *rest.Config, selector string) (all []findings.Labeled, err error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	kinds := slices.Collect(maps.Keys(policy.BuiltIn()))
	for _, kind := range append(kinds, corev1.SchemeGroupVersion.WithKind("Namespace")) {
		on := v1alpha1.KeyOnWorkload
		if kind.Kind == "Namespace" {
			on = v1alpha1.KeyOnNamespace
		}
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.Resource(resource).List(ctx, options)
		})
		err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: selector}, func(object runtime.Object) error {
			all = append(all, findings.Labeled{On: on, Kind: kind.Kind, Object: object.(*metav1.PartialObjectMetadata)})
			return nil
		})
		if err != nil {
			return nil, plugin.WithRemedy(config, err)
		}
	}
	return all, nil
}
