package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// labelsOf returns the known labels of a namespace. The API server sets the name of a namespace as a label.
func (f *explainFlags) labelsOf(ctx context.Context, namespace string) (map[string]string, error) {
	if isSet(&f.cell) {
		clientset, _, err := f.cellClient()
		if err != nil {
			return nil, err
		}
		found, err := clientset.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("--cell-kubeconfig: read namespace %s; you can set its labels with --namespace-labels instead: %w", namespace, err)
		}
		return found.Labels, nil
	}
	given, err := labels.ConvertSelectorToLabelsMap(f.namespaceLabels)
	if err != nil {
		return nil, err
	}
	known := map[string]string{corev1.LabelMetadataName: namespace}
	maps.Copy(known, given)
	return known, nil
}

// usesLabels reports whether a selector of namespaces uses labels other than the name.
func usesLabels(selector *v1alpha1.PodSelector) bool {
	if selector == nil {
		return false
	}
	for key := range selector.MatchLabels {
		if key != corev1.LabelMetadataName {
			return true
		}
	}
	return slices.ContainsFunc(selector.MatchExpressions, func(r v1alpha1.PodSelectorRequirement) bool { return r.Key != corev1.LabelMetadataName })
}
