package commands

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

// list reads the PodDisruptionBudgets of the cluster, in pages.
func (f *convertFlags) list(ctx context.Context) (sources []convert.Source, notes []string, err error) {
	config, err := f.from.Config(ctx, "convert")
	if err != nil {
		return nil, nil, err
	}
	namespace := f.from.NamespaceFlag()
	if namespace == "" && !f.allNamespaces {
		if namespace, err = f.from.Namespace(); err != nil {
			return nil, nil, err
		}
		notes = append(notes, fmt.Sprintf("read namespace %s; -A reads all", namespace))
	}
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	budgets := cluster.Resource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")).Namespace(namespace)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return budgets.List(ctx, options)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		sources = append(sources, convert.Source{Object: item.(*unstructured.Unstructured)})
		return nil
	})
	return sources, notes, err
}
