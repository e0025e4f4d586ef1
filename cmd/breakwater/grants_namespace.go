package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// grantsNamespace returns the namespace that stores grants of large decreases. This is the namespace of the Lease. If that does not
// exist, it is "default": this happens to a process outside of a pod that elects no leader.
func (f *electionFlags) grantsNamespace(ctx context.Context, config *rest.Config) (string, error) {
	if f.namespace != "" {
		return f.namespace, nil
	}
	namespace, err := ownNamespace(inClusterNamespace)
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return metav1.NamespaceDefault, nil
	}
	if err != nil {
		return "", fmt.Errorf("find the namespace for grants of large decreases: %w", err)
	}
	return namespace, nil
}
