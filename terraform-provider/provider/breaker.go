package provider

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-log/tflog"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// defaultPatience is how long a cluster may be unreachable. It must be longer than a restart of an API server.
const defaultPatience = 30 * time.Second

// breaker is a circuit breaker that all requests to a cluster share. When a request finds the cluster unreachable, the breaker
// probes it, and requests wait for the result. If no probe succeeds within patience, the breaker opens: it cancels the requests
// under way, and all later ones fail at once. It never closes again, because the process of a provider is that of one plan or apply.
type breaker struct {
	http.RoundTripper
	server, probeURL string
	patience         time.Duration

	// outage is canceled when the breaker opens. Its cause is an outageError.
	outage context.Context
	open   context.CancelCauseFunc

	mu sync.Mutex
	// probing is closed when the breaker stops to probe; nil while it does not probe.
	probing chan struct{}
	// reason is the last failure that the breaker has observed.
	reason error
}

// outageError is the error of all requests after the breaker has opened. It is not transient.
type outageError struct {
	server   string
	patience time.Duration
	reason   error
}

// Error does not name an object, so that all resources report the same.
func (e *outageError) Error() string {
	return fmt.Sprintf("the API server %s has not answered for %s: %v", e.server, e.patience, e.reason)
}

// noAnswerError is a failure that this file finds itself. As a timeout it counts as an unreachable cluster.
type noAnswerError string

func (e noAnswerError) Error() string { return string(e) }

// Timeout is a method of net.Error.
func (noAnswerError) Timeout() bool { return true }

// Temporary is a method of net.Error.
func (noAnswerError) Temporary() bool { return true }

func newBreaker(transport http.RoundTripper, config *rest.Config, patience time.Duration) (*breaker, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	address.User = nil
	b := &breaker{RoundTripper: transport, server: address.String(), probeURL: address.JoinPath("version").String(), patience: patience}
	b.outage, b.open = context.WithCancelCause(context.Background())
	return b, nil
}

// optionalKey marks the context of a request that a plan can do without.
type optionalKey struct{}

// optional returns a context whose requests do not wait for a cluster that is probed.
func optional(ctx context.Context) context.Context {
	return context.WithValue(ctx, optionalKey{}, true)
}

// RoundTrip sends the request when the cluster is not known to be unreachable.
func (b *breaker) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := b.await(req.Context()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(b.outage, func() { cancel(context.Cause(b.outage)) })
	// An API server that waits for its webhooks is slow as well, but answers the probes.
	slow := b.patience / 6
	watch := time.AfterFunc(slow, func() { b.suspect(ctx, noAnswerError(fmt.Sprintf("no answer for %s", slow))) })
	resp, err := b.RoundTripper.RoundTrip(req.WithContext(ctx))
	watch.Stop()
	stop() // the body of the response is read with the context
	switch {
	case err == nil && isGatewayError(resp):
		b.suspect(ctx, noAnswerError(resp.Status))
	case err == nil:
	case b.outage.Err() != nil:
		return nil, context.Cause(b.outage)
	case isUnreachable(err) && req.Context().Err() == nil:
		b.suspect(ctx, err)
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the underlying transport.
func (b *breaker) WrappedRoundTripper() http.RoundTripper { return b.RoundTripper }

// await waits while the cluster is probed, and returns an error if the cluster is unreachable.
func (b *breaker) await(ctx context.Context) error {
	b.mu.Lock()
	probing, reason := b.probing, b.reason
	b.mu.Unlock()
	if probing == nil {
		return context.Cause(b.outage)
	}
	if ctx.Value(optionalKey{}) != nil {
		return reason
	}
	select {
	case <-probing:
		return context.Cause(b.outage)
	case <-ctx.Done():
		return reason
	}
}

// suspect starts to probe the cluster.
func (b *breaker) suspect(ctx context.Context, reason error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.probing != nil || b.outage.Err() != nil {
		return
	}
	b.probing, b.reason = make(chan struct{}), reason
	tflog.Warn(ctx, "Cluster does not answer", map[string]any{"server": b.server, "error": reason.Error()})
	go b.probe(context.WithoutCancel(ctx))
}

// probe probes the cluster until it answers or patience ends.
func (b *breaker) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	pace := wait.Backoff{Duration: b.patience / 100, Factor: 1.5, Steps: 10, Cap: b.patience / 10}
	err := pace.DelayFunc().Until(ctx, false, true, func(ctx context.Context) (bool, error) {
		err := b.send(ctx)
		if err != nil && ctx.Err() == nil {
			b.mu.Lock()
			b.reason = err
			b.mu.Unlock()
		}
		return err == nil, nil
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.open(&outageError{server: b.server, patience: b.patience, reason: b.reason})
	}
	close(b.probing)
	b.probing = nil
}

// send sends one probe. Every answer of an API server is a success, and so is a failure that is not an outage: the requests then report it.
func (b *breaker) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.patience/6)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.probeURL, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := b.RoundTripper.RoundTrip(req)
	if err != nil {
		if isUnreachable(err) {
			return err
		}
		return nil
	}
	defer resp.Body.Close()
	if isGatewayError(resp) {
		return noAnswerError(resp.Status)
	}
	return nil
}

// isGatewayError reports whether a proxy may have answered because it reaches no API server. API servers that start or stop answer alike.
func isGatewayError(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout
}
