package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/dice"
)

// Weather is the quality of connections. The zero value is a good local network.
type Weather struct {
	// Slow is the maximum latency of a request or an answer, one way; 0 means a millisecond.
	Slow time.Duration
	// Lag is the maximum delay of an event of a watch; 0 means a few milliseconds.
	Lag time.Duration
	// Lose is the probability that a request or an answer is lost. The client sees a broken connection.
	Lose float64
	// Break is the probability that a watch ends after an event.
	Break float64
}

// Link is the connection of one client to a cluster.
type Link struct {
	name  string
	store *Store
	dice  *dice.Dice

	weather atomic.Pointer[Weather]
	// requests and answers hold all messages in transit; watches holds only the events of watches.
	requests, answers, watches *gate
	// frozen reports whether its process is stopped.
	frozen atomic.Bool
	// seen is the version of the newest delivered state of the protectors, and skips are the changes that no watch delivered.
	mu    sync.Mutex
	seen  uint64
	skips []Skip
}

// Skip is a range of versions of which a client has received the result, but no change: it listed the objects again.
type Skip struct {
	// After is the version that the client had before, and To is the version of the list.
	After, To uint64
}

// NewLink connects a client. name identifies the client in the history.
func (s *Store) NewLink(name string, d *dice.Dice) *Link {
	l := &Link{name: name, store: s, dice: d, requests: newGate(), answers: newGate(), watches: newGate()}
	l.weather.Store(&Weather{})
	return l
}

// Config returns a client configuration for the link.
func (l *Link) Config() *rest.Config {
	return &rest.Config{
		Host: "http://" + l.name, Transport: l, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	}
}

// SetWeather changes the quality of the connection.
func (l *Link) SetWeather(w Weather) { l.weather.Store(&w) }

// Hold keeps all messages in transit, in both directions, until Heal. A request that has reached the API server takes effect.
func (l *Link) Hold() {
	l.requests.set(true, false)
	l.answers.set(true, false)
}

// HoldRequests keeps the requests of the client until Heal, and HoldAnswers what the API server sends: they cut one direction.
func (l *Link) HoldRequests() { l.requests.set(true, false) }

// HoldAnswers is described at HoldRequests.
func (l *Link) HoldAnswers() { l.answers.set(true, false) }

// HoldWatches keeps the events of watches until Heal.
func (l *Link) HoldWatches() { l.watches.set(true, false) }

// Heal ends all holds.
func (l *Link) Heal() {
	l.frozen.Store(false)
	for _, g := range []*gate{l.requests, l.answers, l.watches} {
		if !g.isSevered() {
			g.set(false, false)
		}
	}
}

// Mute prevents all further sends, permanently.
func (l *Link) Mute() { l.requests.set(false, true) }

// Sever ends the connection permanently. A message that was sent earlier may still arrive.
func (l *Link) Sever() {
	l.Mute()
	l.answers.set(false, true)
	l.watches.set(false, true)
}

// Seen returns the version up to which the protectors that this client watches have been delivered.
func (l *Link) Seen() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Skips returns the ranges of versions whose changes of protectors this client has not received, and never will.
func (l *Link) Skips() []Skip {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.skips)
}

// recordSeen records that a list or a watch has delivered the protectors up to a version.
func (l *Link) recordSeen(version uint64, isList bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if version <= l.seen {
		return
	}
	if isList {
		l.skips = append(l.skips, Skip{l.seen, version})
	}
	l.seen = version
}

const (
	minLatency     = 50 * time.Microsecond
	defaultLatency = time.Millisecond
	defaultLag     = 5 * time.Millisecond
	brokenPipe     = "connection reset by peer"
	contentType    = "Content-Type"
	jsonContent    = "application/json"
	initialEnd     = "k8s.io/initial-events-end"
	trueParam      = "true"
)

// latency returns the one-way latency of a message.
func (l *Link) latency(what string) time.Duration {
	most := l.weather.Load().Slow
	if most == 0 {
		most = defaultLatency
	}
	return l.dice.Between(minLatency, most, l.name+" "+what)
}

// passGate passes a gate. Messages that are released at one instant are spread out again.
func (l *Link) passGate(ctx context.Context, g *gate, what string) error {
	waited, err := g.pass(ctx)
	if waited && err == nil {
		return sleepContext(ctx, l.latency(what+" let go"))
	}
	return err
}

// RoundTrip implements http.RoundTripper.
func (l *Link) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	c, err := l.parse(request)
	if err != nil {
		return nil, err
	}
	if l.frozen.Load() && c.renewsLease() {
		return renewalReply(c).response(request), nil
	}
	if err := l.passGate(ctx, l.requests, c.drawKey); err != nil {
		return nil, err
	}
	if c.watch {
		return l.openWatch(ctx, request, c)
	}
	// From here on the request is in transit, even if its client stops waiting.
	answered := make(chan *reply, 1)
	l.store.inProgress.Go(func() { l.deliver(context.WithoutCancel(ctx), c, answered) })
	select {
	case r := <-answered:
		switch {
		case r == nil:
			return nil, fmt.Errorf("%s %s: %s", request.Method, request.URL.Path, brokenPipe)
		case r.denied:
			return nil, refusedError(c)
		}
		return r.response(request), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// refusedError is the error of a request to an API server that is stopped. Clients recognize its cause.
func refusedError(c *call) error {
	return fmt.Errorf("%s %s: %w", c.method, c.path, syscall.ECONNREFUSED)
}

// deliver carries a request to the store and its answer back; nil is a lost one.
func (l *Link) deliver(ctx context.Context, c *call, answered chan<- *reply) {
	what := c.drawKey
	time.Sleep(l.latency(what + " there"))
	weather := l.weather.Load()
	if l.dice.Chance(weather.Lose, l.name+" lose "+what) {
		answered <- nil
		return
	}
	if l.store.IsStopped() {
		l.store.Traffic("%s: %s %s is refused", l.name, c.method, c.path)
		answered <- &reply{denied: true}
		return
	}
	r := handler{store: l.store, by: l}.serve(c)
	l.store.Traffic("%s: %s %s is answered with %d", l.name, c.method, c.path, r.code)
	time.Sleep(l.latency(what + " back"))
	if l.dice.Chance(weather.Lose, l.name+" lose answer "+what) ||
		(!l.frozen.Load() || !c.renewsLease()) && l.passGate(ctx, l.answers, what+" answer") != nil {
		answered <- nil
		return
	}
	l.sawProtectors(c, c.listVersion, true)
	l.store.Traffic("%s: %s %s has its answer", l.name, c.method, c.path)
	answered <- r
}

// reply is an answer: a code and an object.
type reply struct {
	code int
	body []byte
	// refused reports that the API server is stopped, and has no answer.
	denied bool
}

func (r *reply) response(request *http.Request) *http.Response {
	return &http.Response{
		StatusCode: r.code, Status: strconv.Itoa(r.code) + " " + http.StatusText(r.code), Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{contentType: {jsonContent}}, Body: io.NopCloser(bytes.NewReader(r.body)),
		ContentLength: int64(len(r.body)), Request: request,
	}
}
