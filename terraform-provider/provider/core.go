package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// core reads facts about the cluster itself. It leaves out what the provider's user may not read.
func (c *cluster) core(ctx context.Context) (coreModel, error) {
	var m coreModel
	var err error
	if m.Server, err = serverOf(c.config); err != nil {
		return m, err
	}
	clientset, err := kubernetes.NewForConfigAndClient(c.config, c.client)
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	m.Version, err = valueOrNull(ctx, func(ctx context.Context) (string, error) {
		v, err := clientset.Discovery().ServerVersionWithContext(ctx)
		if err != nil {
			return "", err
		}
		return v.GitVersion, nil
	})
	if err != nil {
		return m, err
	}
	m.UID, err = valueOrNull(ctx, func(ctx context.Context) (string, error) { return clusters.ClusterOf(ctx, clientset) })
	return m, err
}

// serverOf returns the URL of an API server, without a password that the URL may contain.
func serverOf(config *rest.Config) (string, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", err
	}
	address.User = nil
	return address.String(), nil
}

// valueOrNull returns a text that ask reads from the cluster, or null if the provider's user may not read it.
func valueOrNull(ctx context.Context, ask func(context.Context) (string, error)) (types.String, error) {
	var text string
	err := retryTransient(ctx, func(ctx context.Context) (err error) {
		text, err = ask(ctx)
		return err
	})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return types.StringNull(), nil
	}
	return stringOrNull(text), err
}

// stringOrNull returns the text, or null if it is empty.
func stringOrNull(s string) types.String {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}
