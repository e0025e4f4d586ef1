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
	// contentionLasts is how long after a conflict a replica hands over. Then it writes again, to find out whether
	// other replicas still write the same protector.
	contentionLasts = 5 * time.Second
	// suspectFor is how long a replica that returned no valid answer is not asked again.
	suspectFor = 5 * time.Second
	// longestHandover limits the wait for an answer. The wait is also at most half of the review's time, so that as
	// much remains for a write of its own.
	longestHandover = 2 * time.Second
	// gatherFor is how long a removal waits for others to share its request.
	gatherFor = 2 * time.Millisecond
	// maxHandedOverBytes limits the size of a forward batch and of its answer.
	maxHandedOverBytes = 4 << 20
	// mostHandedOver limits the removals of a forward batch. The limit in bytes is not enough: decoded from the
	// shortest JSON, a forward batch would take a hundred times its size.
	mostHandedOver = 4_096
)

// handover is the state that a replica keeps about the others, for one core cluster.
type handover struct {
	core   string
	peers  Peers
	tracer *tracing.Tracer

	mu       sync.Mutex
	suspects map[string]time.Time
	// open are the forward batches that have not been sent yet.
	open map[address]*parcel
}

// address is the destination of a forward batch: a replica, for a protector.
type address struct {
	replica   string
	protector types.NamespacedName
}

// parcel is a forward batch: removals that one request asks another replica to reserve. Only reservations are handed
// over. Giving back is rare, and each replica does it itself.
type parcel struct {
	removals []quota.Removal
	// by are the spans on whose behalf it is sent.
	by []trace.Span
	// delivered is closed when answers or err are final.
	delivered chan struct{}
	answers   []decided
	err       error
}

// handedOver is the body of a request to another replica, and taken is the body of its answer, in the same order.
type handedOver struct {
	Removals handedRemovals `json:"removals"`
}

// handedRemovals are at most mostHandedOver removals.
type handedRemovals []quota.Removal

// UnmarshalJSONFrom implements json.UnmarshalerFrom. It stops at the first removal over the limit.
func (r *handedRemovals) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	*r = nil
	begin, err := from.ReadToken()
	if err != nil || begin.Kind() == jsontext.KindNull {
		return err
	}
	if begin.Kind() != jsontext.KindBeginArray {
		return fmt.Errorf("removals are %s, want an array", begin.Kind())
	}
	for from.PeekKind() != jsontext.KindEndArray {
		if len(*r) == mostHandedOver {
			return fmt.Errorf("more than %d removals", mostHandedOver)
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

// to returns the replica that writes a contended protector; "" is this one.
func (h *handover) to(key types.NamespacedName) string {
	replicas := []string{h.peers.Self}
	h.mu.Lock()
	for _, replica := range h.peers.All() {
		if until, suspected := h.suspects[replica]; suspected && time.Now().Before(until) || replica == h.peers.Self {
			continue
		}
		replicas = append(replicas, replica)
	}
	h.mu.Unlock()
	if owner := ownerOf(h.core+"/"+key.String(), replicas); owner != h.peers.Self {
		return owner
	}
	return ""
}

func (h *handover) suspect(replica string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.suspects[replica] = time.Now().Add(suspectFor)
}

// ask asks another replica to reserve. After an error the outcome is unknown: the other replica may have reserved
// anyway. Its reservation is then found in the history and does not consume budget twice.
func (h *handover) ask(ctx context.Context, replica string, key types.NamespacedName, a ask) (answer, error) {
	patience := longestHandover
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, place := h.post(address{replica, key}, a.removal, h.tracer.Of(ctx))
	select {
	case <-p.delivered:
	case <-ctx.Done():
		return answer{}, fmt.Errorf("replica %s: %w", replica, ctx.Err())
	}
	if p.err != nil {
		return answer{}, fmt.Errorf("replica %s: %w", replica, p.err)
	}
	*a.claim = p.answers[place].Claim
	return answer{verdict: p.answers[place].Verdict, elsewhere: true}, nil
}

// post adds a removal to the next forward batch to an address. It returns the batch and the position in it.
func (h *handover) post(to address, removal quota.Removal, by trace.Span) (p *parcel, place int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p = h.open[to]
	if p == nil || len(p.removals) == mostHandedOver {
		p = &parcel{delivered: make(chan struct{})}
		h.open[to] = p
		time.AfterFunc(gatherFor, func() { h.deliver(to, p) })
	}
	p.removals = append(p.removals, removal)
	if by.IsRecording() {
		p.by = append(p.by, by)
	}
	return p, len(p.removals) - 1
}

// deliver closes a forward batch, sends it and waits for the answer. The callers that wait for the answer may give up
// earlier.
func (h *handover) deliver(to address, p *parcel) {
	h.mu.Lock()
	if h.open[to] == p { // a full batch was already replaced
		delete(h.open, to)
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), longestHandover)
	defer cancel()
	ctx, span := h.tracer.Share(ctx, tracing.SpanHandOver, p.by)
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(attribute.String(tracing.Replica, to.replica), attribute.String(tracing.Core, h.core),
			attribute.String(tracing.Protector, to.protector.String()), attribute.Int(tracing.FlightSize, len(p.removals)))
	}
	p.answers, p.err = h.send(ctx, to, p.removals)
	tracing.Fail(span, p.err)
	close(p.delivered)
}

func (h *handover) send(ctx context.Context, to address, removals []quota.Removal) ([]decided, error) {
	body, err := json.Marshal(handedOver{removals})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url(to), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	tracing.Tell(ctx, request.Header)
	response, err := h.peers.Client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	content, err := readAll(io.LimitReader(response.Body, maxHandedOverBytes), response.ContentLength)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(content)))
	}
	answer := taken{}
	if err := removal.Read(content, &answer); err != nil {
		return nil, err
	}
	if len(answer.Decided) != len(removals) {
		return nil, fmt.Errorf("%d answers to %d removals", len(answer.Decided), len(removals))
	}
	return answer.Decided, nil
}

func (h *handover) url(to address) string {
	path := "/peers/" + exchange + "/cores/" + url.PathEscape(h.core) +
		"/protectors/" + url.PathEscape(to.protector.Namespace) + "/" + url.PathEscape(to.protector.Name)
	return "https://" + to.replica + path + "?timeout=" + longestHandover.String()
}

// HandedOver serves the requests of other replicas of this version. It trusts their content: only replicas may reach
// it.
func (p *Protection) HandedOver() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /peers/"+exchange+"/cores/{core}/protectors/{namespace}/{name}", p.takeOver)
	mux.HandleFunc("/peers/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this replica exchanges "+exchange+", another version: reserve yourself", http.StatusNotFound)
	})
	return mux
}

func (p *Protection) takeOver(w http.ResponseWriter, r *http.Request) {
	asked := handedOver{}
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxHandedOverBytes), r.ContentLength)
	if err == nil {
		err = removal.Read(body, &asked)
	}
	if err != nil {
		http.Error(w, "cannot read what is handed over: "+err.Error(), http.StatusBadRequest)
		return
	}
	core := p.core(r.PathValue("core"))
	if core == nil || !core.read.Load() {
		http.Error(w, fmt.Sprintf("core cluster %q is not known here", r.PathValue("core")), http.StatusServiceUnavailable)
		return
	}
	ctx, span := p.tracer.Serve(r.Context(), r.Header, tracing.SpanTakeOver)
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, reviewTime(r))
	defer cancel()
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	answer, err := core.takeOver(ctx, key, asked.Removals)
	tracing.Fail(span, err)
	switch {
	case errors.Is(err, errReleased):
		http.Error(w, fmt.Sprintf("PodProtector %s is not known here", key), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(taken{answer}); err != nil {
			p.log.V(1).Info("Another replica did not take the answer", "error", err.Error())
		}
	}
}

// errReleased is the answer for a protector that this replica does not have. This replica may not have read it yet: the
// asking replica has read it, and must check for itself.
var errReleased = errors.New("the protector does not exist")

// takeOver reserves for another replica. It returns decisions for all removals or for none. It does not forward them
// again: replicas that disagree about the owner would pass them in a circle.
func (c *core) takeOver(ctx context.Context, key types.NamespacedName, removals []quota.Removal) ([]decided, error) {
	seat, leave := c.seatOf(ctx)
	defer leave()
	asks := make([]ask, len(removals))
	for i, removal := range removals {
		asks[i] = ask{removal: removal, claim: &quota.Claim{}, seat: seat}
	}
	answers, err := c.flights.DoAll(ctx, key, asks)
	if err != nil {
		return nil, err
	}
	all := make([]decided, len(answers))
	for i, answer := range answers {
		if answer.released {
			return nil, errReleased
		}
		all[i] = decided{Verdict: answer.verdict, Claim: *asks[i].claim}
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
