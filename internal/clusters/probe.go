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
	// ProbeEvery is how often components probe apiservers.
	ProbeEvery = 10 * time.Second
	// probeTime bounds one question.
	probeTime = 5 * time.Second
	// slowest is how long an answer may be under way whose time says something of the clock that it was taken from.
	slowest = 2 * time.Second
)

// Probe asks an apiserver again and again whether it is ready, and by the way what time it has.
type Probe struct {
	every  time.Duration
	url    *url.URL
	client *http.Client

	up, ahead *prometheus.Desc

	mu sync.Mutex
	// last is the newest finding; nil before the first.
	last *finding
}

// finding is what one question showed.
type finding struct {
	up bool
	// ahead is how far our clock is ahead of the apiserver's, give or take half a second and half the time of the answer; not
	// known when timed is false.
	ahead time.Duration
	timed bool
}

// NewProbe returns one that asks the apiserver of a configuration every so often. What it finds are metrics of these descriptions, whose
// labels are constant: whether the apiserver is ready (1 or 0), and how many seconds our clock is ahead of its.
func NewProbe(config *rest.Config, every time.Duration, up, ahead *prometheus.Desc) (*Probe, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client to probe %s: %w", config.Host, err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", config.Host, err)
	}
	return &Probe{every: every, url: base.JoinPath("readyz"), client: client, up: up, ahead: ahead}, nil
}

// NeedLeaderElection is false: each process has a clock, and its own way to the apiserver.
func (p *Probe) NeedLeaderElection() bool { return false }

// Start asks until ctx ends.
func (p *Probe) Start(ctx context.Context) error {
	again := time.NewTicker(p.every)
	defer again.Stop()
	for ctx.Err() == nil {
		found := p.ask(ctx)
		p.mu.Lock()
		p.last = &found
		p.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
	return nil
}

// ask asks once. An apiserver that answers, but does not let us know whether it is ready, counts as ready.
func (p *Probe) ask(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url.String(), nil)
	if err != nil {
		return finding{}
	}
	sent := time.Now()
	response, err := p.client.Do(request)
	if err != nil {
		return finding{}
	}
	defer response.Body.Close()
	found := finding{up: response.StatusCode < http.StatusInternalServerError}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		found.ahead, found.timed = ahead(sent, time.Now(), date)
	}
	return found
}

// ahead is how far the clock of sent and received is ahead of the one that an answer was dated by, which tells whole seconds. It is not
// known when the answer took long.
func ahead(sent, received, date time.Time) (by time.Duration, known bool) {
	took := received.Sub(sent)
	if took > slowest {
		return 0, false
	}
	return sent.Add(took / 2).Sub(date.Add(time.Second / 2)), true
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
	if last.timed {
		metrics <- prometheus.MustNewConstMetric(p.ahead, prometheus.GaugeValue, last.ahead.Seconds())
	}
}
