package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	json2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
	// maxForwardBytes limits the size of a forward batch and of its answer.
	maxForwardBytes = 4 << 20
	// maxForwardRemovals limits the removals of a forward batch. The limit in bytes is not enough: decoded from the
	// shortest JSON, a forward batch would take a hundred times its size.
	maxForwardRemovals = 4_096
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

// handedOver is the body of a request to another replica, and taken is the body of its answer, in the same order.
type handedOver struct {
	Removals handedRemovals `json:"removals"`
}

// handedRemovals are at most maxForwardRemovals removals.
type handedRemovals []quota.Removal

// UnmarshalJSONFrom implements json.UnmarshalerFrom. It stops at the first removal over the limit.
func (r *handedRemovals) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	*r = nil
	begin, err := from.ReadToken()
	if err != nil || begin.Kind() == jsontext.KindNull {
		return err
	}
	if begin.Kind() != jsontext.KindBeginArray {
		return fmt.Errorf("field removals has kind %s, want an array", begin.Kind())
	}
	for from.PeekKind() != jsontext.KindEndArray {
		if len(*r) == maxForwardRemovals {
			return fmt.Errorf("more than %d removals", maxForwardRemovals)
		}
		one := quota.Removal{}
		if err := json2.UnmarshalDecode(from, &one); err != nil {
			return err
		}
		*r = append(*r, one)
	}
	_, err = from.ReadToken()
	return err
}

type taken struct {
	Decided []decided `json:"decided"`
}

type decided struct {
	Verdict quota.Verdict `json:"verdict"`
	Claim   quota.Claim   `json:"claim"`
}

// rendezvousOwner returns the replica that writes a contended protector; "" is this one.
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
	return opResult{verdict: p.answers[position].Verdict, byPeer: true}, nil
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

// PeerHandler serves the requests of other replicas of this version. It trusts their content: only replicas may reach
// it.
func (p *Protection) PeerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /peers/"+peerProtocol+"/cores/{core}/protectors/{namespace}/{name}", p.serveForward)
	mux.HandleFunc("/peers/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this replica speaks peer protocol "+peerProtocol+", another version: reserve locally", http.StatusNotFound)
	})
	return mux
}

func (p *Protection) serveForward(w http.ResponseWriter, r *http.Request) {
	forwarded := handedOver{}
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxForwardBytes), r.ContentLength)
	if err == nil {
		err = removal.DecodeJSON(body, &forwarded)
	}
	if err != nil {
		http.Error(w, "cannot decode forwarded removals: "+err.Error(), http.StatusBadRequest)
		return
	}
	core := p.core(r.PathValue("core"))
	if core == nil || !core.synced.Load() {
		http.Error(w, fmt.Sprintf("this replica does not serve core cluster %q, or has not read it yet", r.PathValue("core")), http.StatusServiceUnavailable)
		return
	}
	ctx, span := p.tracer.Serve(r.Context(), r.Header, tracing.SpanTakeOver)
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout(r))
	defer cancel()
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	answer, err := core.reserveForPeer(ctx, key, forwarded.Removals)
	tracing.RecordError(span, err)
	switch {
	case errors.Is(err, errUnknownProtector):
		http.Error(w, fmt.Sprintf("this replica has no PodProtector %s", key), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(taken{answer}); err != nil {
			p.log.V(1).Info("Could not send answer to another replica", "error", err.Error())
		}
	}
}

// errUnknownProtector is the answer for a protector that this replica does not have. This replica may not have read it yet: the
// asking replica has read it, and must check for itself.
var errUnknownProtector = errors.New("the protector does not exist")

// reserveForPeer reserves for another replica. It returns decisions for all removals or for none. It does not forward them
// again: replicas that disagree about the owner would pass them in a circle.
func (c *core) reserveForPeer(ctx context.Context, key types.NamespacedName, removals []quota.Removal) ([]decided, error) {
	spans, end := c.startWaitSpan(ctx)
	defer end()
	ops := make([]historyOp, len(removals))
	for i, removal := range removals {
		ops[i] = historyOp{removal: removal, claim: &quota.Claim{}, spans: spans}
	}
	results, err := c.batches.DoAll(ctx, key, ops)
	if err != nil {
		return nil, err
	}
	all := make([]decided, len(results))
	for i, answer := range results {
		if answer.released {
			return nil, errUnknownProtector
		}
		all[i] = decided{Verdict: answer.verdict, Claim: *ops[i].claim}
	}
	return all, nil
}

func (p *Protection) core(name string) *core {
	for _, c := range p.cores {
		if c.name == name {
			return c
		}
	}
	return nil
}
