package clusters

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
)

const (
	// ProbeEvery is how often components probe API servers. Each replica of a webhook finds out for itself that one is silent.
	ProbeEvery = 5 * time.Second
	// probeTimeout bounds one request.
	probeTimeout = 2 * time.Second
	// silentProbeInterval is how often an API server is probed that did not answer, and silentAfter is how many probes in a row it must not answer
	// to count as silent: a connection may break once. So it counts as silent at most silentProbeInterval + silentAfter*probeTimeout, 5 s, after
	// Suspect, and ProbeEvery + silentAfter*probeTimeout, 9 s, without it.
	silentProbeInterval = time.Second
	silentAfter         = 2
	// maxRoundTrip is the longest round trip from whose response the probe derives a clock offset.
	maxRoundTrip = 2 * time.Second
)

// Probe requests /readyz of an API server periodically, and compares the clocks by the Date header of the response. It tells since when the API server
// does not answer. A nil Probe knows nothing.
type Probe struct {
	every  time.Duration
	url    *url.URL
	client *http.Client
	now    func() time.Time

	up, ahead *prometheus.Desc

	// suspected is signaled when Suspect is called, so that the API server is probed soon.
	suspected chan struct{}

	mu sync.Mutex
	// last is the newest finding; nil before the first.
	last    *probeResult
	silence silence
}

// silence is what a Probe knows about the silence of its API server.
type silence struct {
	// answered is when the API server last answered, or else when the probe was made, and unanswered is the number of probes since then.
	answered   time.Time
	unanswered int
	// answering ends, by fallSilent, when the API server begins to count as silent. When it answers again, there is another.
	answering  context.Context //nolint:containedctx // it is a signal: context.AfterFunc waits for it without a goroutine
	fallSilent context.CancelFunc
}

// probeResult is the result of one probe.
type probeResult struct {
	// hasAnswered reports whether there was a response, up whether it says that the API server is ready, and isRejected whether it says that the
	// credentials are not accepted.
	hasAnswered, up, isRejected bool
	// ahead is how far the local clock is ahead of the API server's, with an error of half a second plus half the round trip. It is valid
	// only if hasClock is true.
	ahead    time.Duration
	hasClock bool
}

// NewProbe returns a probe that requests the API server of a configuration at the given interval. It exports its findings as metrics of
// these descriptions, which have constant labels: whether the API server is ready and accepts the credentials (1 or 0), and the seconds by which the
// local clock is ahead.
func NewProbe(config *rest.Config, every time.Duration, up, ahead *prometheus.Desc) (*Probe, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client to probe %s: %w", config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", config.Host, err)
	}
	p := &Probe{
		every: every, url: base.JoinPath("readyz"), client: client, now: time.Now, up: up, ahead: ahead,
		suspected: make(chan struct{}, 1), silence: silence{answered: time.Now()},
	}
	p.silence.answering, p.silence.fallSilent = context.WithCancel(context.Background())
	return p, nil
}

// NeedLeaderElection is false: each process has its own clock and its own connection to the API server.
func (p *Probe) NeedLeaderElection() bool { return false }

// Start probes until ctx ends: periodically, more often while the API server does not answer, and soon when it is suspected. However many requests fail,
// it sends one probe in each silentProbeInterval.
func (p *Probe) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		next := p.record(p.probe(ctx))
		soonest := min(next, silentProbeInterval)
		pause(ctx, soonest-time.Since(began), nil)
		pause(ctx, next-soonest, p.suspected)
	}
	return nil
}

// pause waits for a time, or until ctx ends or there is a signal.
func pause(ctx context.Context, d time.Duration, signal <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-signal:
	case <-ctx.Done():
	}
}

// record records a finding, and returns when to probe again.
func (p *Probe) record(result probeResult) (next time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = &result
	if result.hasAnswered {
		if p.silence.unanswered >= silentAfter {
			p.silence.answering, p.silence.fallSilent = context.WithCancel(context.Background())
		}
		p.silence.answered, p.silence.unanswered = p.now(), 0
		if result.isRejected {
			return min(p.every, silentProbeInterval) // the credentials may be replaced at any time
		}
		return p.every
	}
	if p.silence.unanswered++; p.silence.unanswered == silentAfter {
		p.silence.fallSilent()
	}
	return min(p.every, silentProbeInterval)
}

// Suspect has the API server probed soon, because a request got no answer, or its credentials were not accepted.
func (p *Probe) Suspect() {
	if p == nil {
		return
	}
	select {
	case p.suspected <- struct{}{}:
	default:
	}
}

// Answering returns a context that ends when the API server begins to count as silent. It has ended already while SilentSince reports silence.
func (p *Probe) Answering() context.Context {
	if p == nil {
		return context.Background()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence.answering
}

// SilentSince returns when an API server that does not answer last did, or when the process began to probe it; ok is false if it may answer.
func (p *Probe) SilentSince() (since time.Time, ok bool) {
	if p == nil {
		return time.Time{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence.answered, p.silence.unanswered >= silentAfter
}

// IsRejected reports whether the API server answered the newest probe, and did not accept its credentials: no request to it succeeds.
func (p *Probe) IsRejected() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last != nil && p.last.isRejected
}

// probe probes once. An API server that answers, but does not permit the request to /readyz, counts as ready. One that does not accept the
// credentials does not.
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
	result := probeResult{hasAnswered: true, isRejected: response.StatusCode == http.StatusUnauthorized}
	result.up = response.StatusCode < http.StatusInternalServerError && !result.isRejected
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
