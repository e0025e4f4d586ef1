package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
)

// Peers are the replicas of a webhook. Each replica may write every protector, and compare-and-swap keeps the writes
// correct. But when several replicas write the same protector at a time, all writes but one fail. Replicas that meet
// such conflicts hand their reservations over to the one replica that all of them choose, and that replica batches
// them. Safety does not depend on this: replicas that disagree, or cannot reach each other, write themselves.
type Peers struct {
	// Self is the address of this replica, as the other replicas use it.
	Self string
	// All returns the addresses of all replicas that are known now, in any order, with or without this one.
	All func() []string
	// Client calls replicas at https://ADDRESS/.
	Client *http.Client
}

const (
	// forwardAfterConflict is how long after a conflict a replica hands over. Then it writes again, to find out whether
	// other replicas still write the same protector.
	forwardAfterConflict = 5 * time.Second
	// suspectDuration is how long a replica that returned no valid answer is not asked again.
	suspectDuration = 5 * time.Second
	// maxForwardWait limits the wait for an answer. The wait is also at most half of the review's time, so that as
	// much remains for a write of its own.
	maxForwardWait = 2 * time.Second
	// forwardWindow is how long a removal waits for others to share its request.
	forwardWindow = 2 * time.Millisecond
)

// forwarder is the state that a replica keeps about the others, for one core cluster.
type forwarder struct {
	core   string
	peers  Peers
	tracer *tracing.Tracer

	mu       sync.Mutex
	suspects map[string]time.Time
	// pending are the forward batches that have not been sent yet.
	pending map[destination]*forwardBatch
}

func newForwarder(core string, peers Peers, tracer *tracing.Tracer) *forwarder {
	return &forwarder{core: core, peers: peers, tracer: tracer, suspects: map[string]time.Time{}, pending: map[destination]*forwardBatch{}}
}

// destination is the destination of a forward batch: a replica, for a protector.
type destination struct {
	replica   string
	protector types.NamespacedName
}

// forwardBatch is a forward batch: removals that one request asks another replica to reserve. Only reservations are handed
// over. Giving back is rare, and each replica does it itself.
type forwardBatch struct {
	removals []quota.Removal
	// spans are the spans on whose behalf it is sent.
	spans []trace.Span
	// done is closed when answers or err are final.
	done    chan struct{}
	answers []decided
	err     error
}

// ownerOf returns the replica that writes a contended protector; "" is this one.
func (h *forwarder) ownerOf(key types.NamespacedName) string {
	replicas := []string{h.peers.Self}
	h.mu.Lock()
	for _, replica := range h.peers.All() {
		if until, suspected := h.suspects[replica]; suspected && time.Now().Before(until) || replica == h.peers.Self {
			continue
		}
		replicas = append(replicas, replica)
	}
	h.mu.Unlock()
	if owner := rendezvousOwner(h.core+"/"+key.String(), replicas); owner != h.peers.Self {
		return owner
	}
	return ""
}

func (h *forwarder) markSuspect(replica string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.suspects[replica] = time.Now().Add(suspectDuration)
}

// reserve asks another replica to reserve. After an error the outcome is unknown: the other replica may have reserved
// anyway. Its reservation is then found in the history and does not consume budget twice.
func (h *forwarder) reserve(ctx context.Context, replica string, key types.NamespacedName, a historyOp) (opResult, error) {
	timeout := maxForwardWait
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p, position := h.enqueue(destination{replica, key}, a.removal, h.tracer.Of(ctx))
	select {
	case <-p.done:
	case <-ctx.Done():
		return opResult{}, fmt.Errorf("replica %s: %w", replica, ctx.Err())
	}
	if p.err != nil {
		return opResult{}, fmt.Errorf("replica %s: %w", replica, p.err)
	}
	*a.claim = p.answers[position].Claim
	return opResult{resultByPeer, p.answers[position].Verdict}, nil
}

// enqueue adds a removal to the next forward batch to an address. It returns the batch and the position in it.
func (h *forwarder) enqueue(to destination, removal quota.Removal, span trace.Span) (p *forwardBatch, position int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p = h.pending[to]
	if p == nil || len(p.removals) == maxForwardRemovals {
		p = &forwardBatch{done: make(chan struct{})}
		h.pending[to] = p
		time.AfterFunc(forwardWindow, func() { h.flush(to, p) })
	}
	p.removals = append(p.removals, removal)
	if span.IsRecording() {
		p.spans = append(p.spans, span)
	}
	return p, len(p.removals) - 1
}

// flush closes a forward batch, sends it and waits for the answer. The callers that wait for the answer may give up
// earlier.
func (h *forwarder) flush(to destination, p *forwardBatch) {
	h.mu.Lock()
	if h.pending[to] == p { // a full batch was already replaced
		delete(h.pending, to)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), maxForwardWait)
	defer cancel()
	ctx, span := h.tracer.StartShared(ctx, tracing.SpanHandOver, p.spans)
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Replica, to.replica), attribute.String(tracing.Core, h.core),
			attribute.String(tracing.Protector, to.protector.String()), attribute.Int(tracing.BatchSize, len(p.removals)))
	}
	p.answers, p.err = h.send(ctx, to, p.removals)
	tracing.RecordError(span, p.err)
	close(p.done)
}

func (h *forwarder) send(ctx context.Context, to destination, removals []quota.Removal) ([]decided, error) {
	body, err := json.Marshal(handedOver{removals})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.endpoint(to), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	tracing.InjectHeaders(ctx, request.Header)
	response, err := h.peers.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := readAll(io.LimitReader(response.Body, maxForwardBytes), response.ContentLength)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(content)))
	}
	answer := taken{}
	if err := removal.DecodeJSON(content, &answer); err != nil {
		return nil, err
	}
	if len(answer.Decided) != len(removals) {
		return nil, fmt.Errorf("got %d answers to %d removals", len(answer.Decided), len(removals))
	}
	return answer.Decided, nil
}

func (h *forwarder) endpoint(to destination) string {
	path := "/peers/" + peerProtocol + "/cores/" + url.PathEscape(h.core) +
		"/protectors/" + url.PathEscape(to.protector.Namespace) + "/" + url.PathEscape(to.protector.Name)
	return "https://" + to.replica + path + "?timeout=" + maxForwardWait.String()
}
