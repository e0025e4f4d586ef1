package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// core tells of the cluster itself. What the provider's user may not see is left out.
func (c *cluster) core(ctx context.Context) (coreModel, error) {
	var m coreModel
	var err error
	if m.Server, err = serverOf(c.config); err != nil {
		return m, err
	}
	clientset, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	m.Version, err = seen(ctx, func(ctx context.Context) (string, error) {
		v, err := clientset.Discovery().ServerVersionWithContext(ctx)
		if err != nil {
			return "", err
		}
		return v.GitVersion, nil
	})
	if err != nil {
		return m, err
	}
	m.UID, err = seen(ctx, func(ctx context.Context) (string, error) { return clusters.ClusterOf(ctx, clientset) })
	return m, err
}

// serverOf is the URL of an apiserver, without a password that it can hold.
func serverOf(config *rest.Config) (string, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", err
	}
	address.User = nil
	return address.String(), nil
}

// seen is a text that the cluster tells; null when it does not tell it to the provider's user.
func seen(ctx context.Context, ask func(context.Context) (string, error)) (types.String, error) {
	var text string
	err := persist(ctx, func(ctx context.Context) (err error) {
		text, err = ask(ctx)
		return err
	})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return types.StringNull(), nil
	}
	return said(text), err
}

// said is a text, or null when there is none.
func said(s string) types.String {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}
