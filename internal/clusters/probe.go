package clusters

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	// ProbeEvery is how often components probe API servers.
	ProbeEvery = 10 * time.Second
	// probeTimeout bounds one request.
	probeTimeout = 5 * time.Second
	// maxRoundTrip is the longest round trip from whose response the probe derives a clock offset.
	maxRoundTrip = 2 * time.Second
)

// Probe requests /readyz of an API server periodically, and compares the clocks by the Date header of the response.
type Probe struct {
	every  time.Duration
	url    *url.URL
	client *http.Client
	now    func() time.Time

	up, ahead *prometheus.Desc

	mu sync.Mutex
	// last is the newest finding; nil before the first.
	last *probeResult
}

// probeResult is the result of one probe.
type probeResult struct {
	up bool
	// ahead is how far the local clock is ahead of the API server's, with an error of half a second plus half the round trip. It is valid
	// only if hasClock is true.
	ahead    time.Duration
	hasClock bool
}

// NewProbe returns a probe that requests the API server of a configuration at the given interval. It exports its findings as metrics of
// these descriptions, which have constant labels: whether the API server is ready (1 or 0), and the seconds by which the local clock is
// ahead.
func NewProbe(config *rest.Config, every time.Duration, up, ahead *prometheus.Desc) (*Probe, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client to probe %s: %w", config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", config.Host, err)
	}
	return &Probe{every: every, url: base.JoinPath("readyz"), client: client, now: time.Now, up: up, ahead: ahead}, nil
}

// NeedLeaderElection is false: each process has its own clock and its own connection to the API server.
func (p *Probe) NeedLeaderElection() bool { return false }

// Start probes until ctx ends.
func (p *Probe) Start(ctx context.Context) error {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		result := p.probe(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = &result
	}, p.every)
	return nil
}

// probe probes once. An API server that answers, but does not permit the request to /readyz, counts as ready.
func (p *Probe) probe(ctx context.Context) probeResult {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url.String(), nil)
	if err != nil {
		return probeResult{}
	}
	sent := p.now()
	response, err := p.client.Do(request)
	if err != nil {
		return probeResult{}
	}
	defer response.Body.Close()
	result := probeResult{up: response.StatusCode < http.StatusInternalServerError}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		result.ahead, result.hasClock = ahead(sent, p.now(), date)
	}
	return result
}

// ahead returns how far the clock of sent and received is ahead of the clock of date, which has a resolution of whole seconds. known is
// false if the response took longer than maxRoundTrip.
func ahead(sent, received, date time.Time) (by time.Duration, known bool) {
	roundTrip := received.Sub(sent)
	if roundTrip > maxRoundTrip {
		return 0, false
	}
	return sent.Add(roundTrip / 2).Sub(date.Add(time.Second / 2)), true
}

// Describe implements prometheus.Collector.
func (p *Probe) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- p.up
	descriptions <- p.ahead
}

// Collect implements prometheus.Collector.
func (p *Probe) Collect(metrics chan<- prometheus.Metric) {
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	if last == nil {
		return
	}
	up := 0.0
	if last.up {
		up = 1
	}
	metrics <- prometheus.MustNewConstMetric(p.up, prometheus.GaugeValue, up)
	if last.hasClock {
		metrics <- prometheus.MustNewConstMetric(p.ahead, prometheus.GaugeValue, last.ahead.Seconds())
	}
}
