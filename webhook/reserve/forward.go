package reserve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/server"
)

// Peers are the replicas of a webhook. Each replica may write every protector, and compare-and-swap keeps the writes
// correct. But when several replicas write the same protector at a time, all writes but one fail. Replicas that meet
// such conflicts, or expect them in a storm, hand their reservations over to the one replica that all of them choose,
// and that replica batches them. Safety does not depend on this: replicas that disagree, or cannot reach each other,
// write themselves.
type Peers struct {
	// Self is the address of this replica, as the other replicas use it.
	Self string
	// All returns the addresses of all replicas that are known now, in any order, with or without this one.
	All func() []string
	// Client calls replicas at https://ADDRESS/.
	Client *http.Client
}

// NewPeers lets the replica of a server hand over to other replicas and take over from them. self is its own address, as the others use it. all
// returns the addresses of all replicas.
func NewPeers(s *server.Server, self string, all func() []string) *Peers {
	return &Peers{Self: self, All: all, Client: s.ShareWith(self, all)}
}

const (
	// forwardAfterConflict is how long after a conflict with another replica a replica hands over. Then it writes again, to find out whether
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
	now    func() time.Time

	mu       sync.Mutex
	suspects map[string]time.Time
	// pending are the forward batches that have not been sent yet.
	pending map[destination]*forwardBatch
}

func newForwarder(core string, peers Peers, tracer *tracing.Tracer) *forwarder {
	return &forwarder{
		core: core, peers: peers, tracer: tracer, now: time.Now,
		suspects: map[string]time.Time{}, pending: map[destination]*forwardBatch{},
	}
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
func (f *forwarder) ownerOf(key types.NamespacedName) string {
	replicas := []string{f.peers.Self}
	f.mu.Lock()
	for _, replica := range f.peers.All() {
		if until, suspected := f.suspects[replica]; suspected && f.now().Before(until) || replica == f.peers.Self {
			continue
		}
		replicas = append(replicas, replica)
	}
	f.mu.Unlock()
	if owner := RendezvousOwner(f.core+"/"+key.String(), replicas); owner != f.peers.Self {
		return owner
	}
	return ""
}

// isPeer reports whether another replica is known by an address, and is not suspected.
func (f *forwarder) isPeer(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	until, suspected := f.suspects[address]
	return address != f.peers.Self && slices.Contains(f.peers.All(), address) && (!suspected || !f.now().Before(until))
}

func (f *forwarder) markSuspect(replica string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.suspects[replica] = f.now().Add(suspectDuration)
}

// reserve asks another replica to reserve. After an error the outcome is unknown: the other replica may have reserved
// anyway. Its reservation is then found in the history and does not consume budget twice.
func (f *forwarder) reserve(ctx context.Context, replica string, key types.NamespacedName, op historyOp) (opResult, error) {
	timeout := maxForwardWait
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	batch, position := f.enqueue(destination{replica, key}, op.removal, f.tracer.Of(ctx))
	select {
	case <-batch.done:
	case <-ctx.Done():
		return opResult{}, fmt.Errorf("replica %s: %w", replica, ctx.Err())
	}
	if batch.err != nil {
		return opResult{}, fmt.Errorf("replica %s: %w", replica, batch.err)
	}
	*op.claim = batch.answers[position].Claim
	return opResult{resultByPeer, batch.answers[position].Verdict}, nil
}

// enqueue adds a removal to the next forward batch to an address. It returns the batch and the position in it.
func (f *forwarder) enqueue(to destination, removal quota.Removal, span trace.Span) (batch *forwardBatch, position int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	batch = f.pending[to]
	if batch == nil || len(batch.removals) == maxForwardRemovals {
		batch = &forwardBatch{done: make(chan struct{})}
		f.pending[to] = batch
		time.AfterFunc(forwardWindow, func() { f.flush(to, batch) })
	}
	batch.removals = append(batch.removals, removal)
	if span.IsRecording() {
		batch.spans = append(batch.spans, span)
	}
	return batch, len(batch.removals) - 1
}

// flush closes a forward batch, sends it and waits for the answer. The callers that wait for the answer may give up
// earlier.
func (f *forwarder) flush(to destination, batch *forwardBatch) {
	f.mu.Lock()
	if f.pending[to] == batch { // a full batch was already replaced
		delete(f.pending, to)
	}
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), maxForwardWait)
	defer cancel()
	ctx, span := f.tracer.StartShared(ctx, tracing.SpanHandOver, batch.spans)
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Replica, to.replica), attribute.String(tracing.Core, f.core),
			attribute.String(tracing.Protector, to.protector.String()), attribute.Int(tracing.BatchSize, len(batch.removals)))
	}
	batch.answers, batch.err = f.send(ctx, to, batch.removals)
	tracing.RecordError(span, batch.err)
	close(batch.done)
}

func (f *forwarder) send(ctx context.Context, to destination, removals []quota.Removal) ([]decided, error) {
	body, err := json.Marshal(handedOver{removals})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.endpoint(to), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	tracing.InjectHeaders(ctx, request.Header)
	response, err := f.peers.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxForwardBytes))
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

func (f *forwarder) endpoint(to destination) string {
	path := "/peers/" + PeerProtocol + "/cores/" + url.PathEscape(f.core) +
		"/protectors/" + url.PathEscape(to.protector.Namespace) + "/" + url.PathEscape(to.protector.Name)
	return "https://" + to.replica + path + "?timeout=" + maxForwardWait.String()
}
