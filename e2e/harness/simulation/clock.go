package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// skewedClockManager is a manager whose clients write Leases with the wall clock of the process. That clock may be wrong, and no decision may depend
// on it.
type skewedClockManager struct {
	manager.Manager
	skew func() time.Duration
}

// GetConfig implements manager.Manager.
func (m skewedClockManager) GetConfig() *rest.Config {
	config := rest.CopyConfig(m.Manager.GetConfig())
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return skewedLeaseTransport{inner, m.skew} })
	return config
}

type skewedLeaseTransport struct {
	http.RoundTripper
	skew func() time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s skewedLeaseTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || !strings.Contains(request.URL.Path, "/leases") {
		return s.RoundTripper.RoundTrip(request)
	}
	lease := &coordinationv1.Lease{}
	if err := json.NewDecoder(request.Body).Decode(lease); err != nil {
		return nil, fmt.Errorf("decode the Lease to write: %w", err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(s.skew())}
	body, err := json.Marshal(lease)
	if err != nil {
		return nil, fmt.Errorf("encode the Lease: %w", err)
	}
	request = request.Clone(request.Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return s.RoundTripper.RoundTrip(request)
}
