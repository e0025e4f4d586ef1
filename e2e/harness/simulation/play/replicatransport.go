package play

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// replicaTransport is the connection of a webhook to the other replicas. It has the network faults of the storm.
type replicaTransport struct {
	from      *process
	processes *processes
}

var errConnectionBroken = errors.New("connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (l *replicaTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if !l.from.pauseState.wait(ctx) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	answered := make(chan *http.Response, 1)
	// The request is in transit, even if its client stops waiting for the answer.
	l.from.env.tasks.Go(func() {
		answered <- l.sendToReplica(request.Clone(context.WithoutCancel(ctx))) //nolint:bodyclose // its body is memory
	})
	select {
	case response := <-answered:
		if response == nil {
			return nil, errConnectionBroken
		}
		return response, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sendToReplica carries a request to another replica and its answer back; nil is a broken connection.
func (l *replicaTransport) sendToReplica(request *http.Request) *http.Response {
	env := l.from.env
	luck := fmt.Sprintf("%s to %s%s %d", l.from.name, request.URL.Host, request.URL.Path, time.Now().UnixNano())
	transit := func(where string) bool {
		time.Sleep(env.dice.Between(50*time.Microsecond, max(env.storm.Weather.Slow, time.Millisecond), luck+where))
		return !env.dice.Chance(env.storm.Weather.Lose, luck+" lose"+where)
	}
	if !transit(" there") {
		return nil
	}
	ctx, cancel := context.WithTimeout(request.Context(), scenario.WebhookTimeout)
	defer cancel()
	for _, p := range l.processes.webhooksOf(l.from.cell) {
		if p.name != request.URL.Host {
			continue
		}
		if !p.pauseState.wait(ctx) {
			return nil
		}
		env.trace.Add("%s is handed over", luck)
		recorder := httptest.NewRecorder()
		p.handler.PeerHandler().ServeHTTP(recorder, request)
		if !p.pauseState.wait(ctx) || !transit(" back") || !l.from.pauseState.wait(ctx) {
			return nil
		}
		env.trace.Add("%s is answered with %d", luck, recorder.Code)
		return recorder.Result()
	}
	return nil
}
