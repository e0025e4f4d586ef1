package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"
)

// wire is the connection of a webhook to the other replicas. It has the network faults of the storm.
type wire struct {
	from *process
}

var errBroken = errors.New("connection reset by peer")

// webhookNames returns the addresses of all replicas, including killed ones that are not replaced yet.
func (w *world) webhookNames() []string {
	var names []string
	for _, p := range w.webhooks() {
		names = append(names, p.name)
	}
	return names
}

// RoundTrip implements http.RoundTripper.
func (l *wire) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if !l.from.paused.wait(ctx) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	answered := make(chan *http.Response, 1)
	// The request is in transit, even if its client stops waiting for the answer.
	l.from.world.busy.Go(func() {
		answered <- l.travel(request.Clone(context.WithoutCancel(ctx))) //nolint:bodyclose // its body is memory
	})
	select {
	case response := <-answered:
		if response == nil {
			return nil, errBroken
		}
		return response, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// travel carries a request to another replica and its answer back; nil is a broken connection.
func (l *wire) travel(request *http.Request) *http.Response {
	world := l.from.world
	luck := fmt.Sprintf("%s to %s%s %d", l.from.name, request.URL.Host, request.URL.Path, time.Now().UnixNano())
	way := func(where string) bool {
		time.Sleep(world.dice.Between(50*time.Microsecond, max(world.storm.Weather.Slow, time.Millisecond), luck+where))
		return !world.dice.Chance(world.storm.Weather.Lose, luck+" lose"+where)
	}
	if !way(" there") {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), reviewPatience)
	defer cancel()
	for _, p := range world.webhooks() {
		if p.name != request.URL.Host {
			continue
		}
		if !p.paused.wait(ctx) {
			return nil
		}
		world.trace.add("%s is handed over", luck)
		recorder := httptest.NewRecorder()
		p.reviews.HandedOver().ServeHTTP(recorder, request)
		if !p.paused.wait(ctx) || !way(" back") || !l.from.paused.wait(ctx) {
			return nil
		}
		world.trace.add("%s is answered with %d", luck, recorder.Code)
		return recorder.Result()
	}
	return nil
}
