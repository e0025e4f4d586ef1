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

// Peers are the replicas of a webhook. Each may write every protector, and the compare-and-swap keeps them right; but
// when several write the same one at a time, all but one write in vain. Those who meet that hand what they are asked
// over to the one replica that all agree on, whose flights then carry it all. Nothing is less safe when they do not agree,
// or cannot reach each other: they write themselves.
type Peers struct {
	// Self is the address by which the others know this replica.
	Self string
	// All gives the addresses of all replicas that are known now, in any order, with or without this one.
	All func() []string
	// Client reaches them by https://ADDRESS/.
	Client *http.Client
}

const (
	// contentionLasts is how long after a conflict a replica hands over. It then writes again, to find out whether it
	// still has company.
	contentionLasts = 5 * time.Second
	// suspectFor is how long a replica that did not answer well is not asked again.
	suspectFor = 5 * time.Second
	// longestHandover bounds how long an answer is waited for: half of the review's time, so that there is as
	// much left to write.
	longestHandover = 2 * time.Second
	// gatherFor is how long what is to be handed over waits for more, with which it shares a request.
	gatherFor = 2 * time.Millisecond
	// maxHandedOverBytes bounds a parcel and its answer.
	maxHandedOverBytes = 4 << 20
	// mostHandedOver bounds the removals of a parcel. Of the shortest JSON the bytes alone would let a parcel take a hundred times its size.
	mostHandedOver = 4_096
)

// handover is what a replica knows of the others, for one core cluster.
type handover struct {
	core   string
	peers  Peers
	tracer *tracing.Tracer

	mu       sync.Mutex
	suspects map[string]time.Time
	// open are the parcels that are not on their way yet.
	open map[address]*parcel
}

// address is where a parcel goes: to a replica, for a protector.
type address struct {
	replica   string
	protector types.NamespacedName
}

// parcel is what is asked of another replica in one request. Only reservations are handed over: giving back is rare, and
// each replica does it by itself.
type parcel struct {
	removals []quota.Removal
	// by are the spans that it is sent for.
	by []trace.Span
	// delivered is closed when answers, or err, are there to stay.
	delivered chan struct{}
	answers   []decided
	err       error
}

// handedOver is a parcel on its way to another replica, and taken is its answer, in the same order.
type handedOver struct {
	Removals handedRemovals `json:"removals"`
}

// handedRemovals are at most mostHandedOver.
type handedRemovals []quota.Removal

// UnmarshalJSONFrom implements json.UnmarshalerFrom: it stops reading at the first removal too many.
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

// to returns the replica that writes a protector which several want to write; "" is this one.
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

// ask lets another replica reserve. After an error nothing is known: it may have reserved all the same, which is then
// found in the history and costs nothing twice.
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

// post puts a removal into the next parcel to a place, and returns where in it.
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

// deliver closes a parcel, sends it and waits for the answer. Those who wait for it may leave before.
func (h *handover) deliver(to address, p *parcel) {
	h.mu.Lock()
	if h.open[to] == p { // unless it was full before
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

// HandedOver serves what other replicas of this version hand over. It believes them: only replicas may reach it.
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

// errReleased is the answer for a protector that is not known here. It may be that this replica has not heard of it yet:
// the one that asks has, and must see for itself.
var errReleased = errors.New("the protector does not exist")

// takeOver reserves for another replica, for all or for none that it tells of. Nothing is handed on: replicas that
// disagree about who writes would pass it round.
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
