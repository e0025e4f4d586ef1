package plugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

// WithRemedy adds a remedy to the error of a request to a cluster.
func WithRemedy(config *rest.Config, err error) error {
	var unreachable net.Error
	var address *url.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	case meta.IsNoMatchError(err):
		return fmt.Errorf("%s is not a core cluster of Breakwater, or its CRDs are not installed (chart breakwater-crds): %w", config.Host, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s does not accept your credentials: sign in again (%w)", config.Host, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: request this permission, or use --as", err)
	case errors.As(err, &address), errors.Is(err, context.DeadlineExceeded), errors.As(err, &unreachable):
		host := config.Host
		if address != nil { // the cluster may be another one, such as the core of a cell
			if asked, parseErr := url.Parse(address.URL); parseErr == nil {
				host = asked.Scheme + "://" + asked.Host
			}
		}
		return fmt.Errorf("%s does not answer: check the address, the network and that the API server runs (%w)", host, err)
	}
	return err
}

// WithRemedy adds a remedy, and the core's name, to the error of a request to the core cluster.
func (c Core) WithRemedy(err error) error {
	err = WithRemedy(c.Config, err)
	if err != nil && c.Name != "" {
		return fmt.Errorf("core %q: %w", c.Name, err)
	}
	return err
}
