package transport

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/apis/audit"
)

const (
	// DefaultPatience is how long a cluster may be unreachable. It must be longer than a restart of an API server.
	DefaultPatience = 30 * time.Second
	// requestPatiences is the timeout of a request, as a multiple of the patience. An API server answers within a minute.
	requestPatiences = 2
)

// outageGuard lets the requests to a cluster fail at once after none of them had an answer for patience. Without it, each of many resources
// would wait for its own timeout. It never recovers, because the process of a provider is that of one plan or apply.
type outageGuard struct {
	http.RoundTripper
	server   string
	patience time.Duration

	mu sync.Mutex
	// answered is the time of the last answer, and failing the start of the first failed request since; zero if there is none.
	answered, failing time.Time
	outage            *Outage
}

// Outage is the error of all requests to a cluster that is unreachable. It is not transient.
type Outage struct {
	server   string
	patience time.Duration
	reason   string
}

// Error does not name an object, so that all resources report the same.
func (e *Outage) Error() string {
	return fmt.Sprintf("the API server %s has not answered for %s: %s", e.server, e.patience, e.reason)
}

// RoundTrip sends the request, unless the cluster is unreachable.
func (g *outageGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	g.mu.Lock()
	outage, began := g.outage, time.Now()
	g.mu.Unlock()
	if outage != nil {
		return nil, outage
	}
	resp, err := g.RoundTripper.RoundTrip(req)
	if err != nil && !isUnreachable(err) {
		return resp, err
	}
	if outage := g.observe(began, resp, err); outage != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		return nil, outage
	}
	return resp, err
}

// observe records the result of a request. It returns an error if the cluster is unreachable; nil otherwise.
func (g *outageGuard) observe(began time.Time, resp *http.Response, err error) *Outage {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil && !isGatewayError(resp) {
		g.answered, g.failing = time.Now(), time.Time{}
		return nil
	}
	if g.failing.IsZero() {
		g.failing = began
		if began.Before(g.answered) {
			g.failing = g.answered
		}
	}
	if g.outage == nil && time.Since(g.failing) >= g.patience {
		g.outage = &Outage{server: g.server, patience: g.patience}
		if err != nil {
			g.outage.reason = err.Error()
		} else {
			g.outage.reason = resp.Status
		}
	}
	return g.outage
}

// isGatewayError reports whether a proxy has answered because it reaches no API server. API servers set the header Audit-Id.
func isGatewayError(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout && resp.Header.Get(audit.HeaderAuditID) == ""
}

// IsOutage reports whether the guard has stopped the request.
func IsOutage(err error) bool {
	var outage *Outage
	return errors.As(err, &outage)
}
