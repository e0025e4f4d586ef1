package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// failure adds a remedy to the error of a request to a cluster.
func failure(config *rest.Config, err error) error {
	var unreachable net.Error
	var address *url.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%s is no core cluster of Breakwater, or its CRDs are not installed (chart breakwater-crds): %w", config.Host, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept your credentials: sign in anew (%w)", config.Host, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: ask for the right to that, or see --as", err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &unreachable), errors.As(err, &address):
		return fmt.Errorf("%s does not answer: check the address, the network and that its apiserver runs (%w)", config.Host, err)
	}
	return err
}

// failure adds a remedy, and the core's name, to the error of a request to the core cluster.
func (c core) failure(err error) error {
	err = failure(c.Config, err)
	if err != nil && c.Name != "" {
		return fmt.Errorf("core %q: %w", c.Name, err)
	}
	return err
}
