package clusters

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Problem is the reason why a cell's cluster cannot be used.
type Problem struct {
	// Reason is the reason of the condition Connected.
	Reason string
	// text is informational; cause is nil when no other component returned an error.
	text  string
	cause error
}

func (p *Problem) Error() string {
	if p.cause == nil {
		return p.text
	}
	return p.text + ": " + p.cause.Error()
}

// Unwrap returns the underlying error, or nil.
func (p *Problem) Unwrap() error { return p.cause }

func problem(reason string, cause error, format string, arguments ...any) *Problem {
	return &Problem{Reason: reason, cause: cause, text: fmt.Sprintf(format, arguments...)}
}

// diagnose describes the error of a request to a cluster.
func diagnose(config *rest.Config, err error) *Problem {
	host := config.Host
	switch {
	case isCertificateError(err):
		return problem(v1alpha1.ReasonWrongCA, err,
			"%s presents a certificate that the kubeconfig does not trust: correct its certificate-authority-data, or its address", host)
	case apierrors.IsUnauthorized(err):
		if expired, ok := jwtExpiry(config.BearerToken); ok && expired.Before(time.Now()) {
			return problem(v1alpha1.ReasonTokenExpired, err,
				"%s does not accept the token of the kubeconfig, which expired at %s: put a new one into the Secret", host, expired.UTC().Format(time.RFC3339))
		}
		return problem(v1alpha1.ReasonUnauthorized, err, "%s does not accept the credentials of the kubeconfig: put new ones into the Secret", host)
	case apierrors.IsForbidden(err):
		return problem(v1alpha1.ReasonForbidden, err, "%s denies the user of the kubeconfig a permission that Breakwater needs", host)
	default:
		return problem(v1alpha1.ReasonUnreachable, err, "the request to %s failed", host)
	}
}

func isCertificateError(err error) bool {
	verification, authority := (*tls.CertificateVerificationError)(nil), x509.UnknownAuthorityError{}
	hostname, invalid := x509.HostnameError{}, x509.CertificateInvalidError{}
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}
