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

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/quota"
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
	// maxHandedOverBytes bounds an ask and its answer.
	maxHandedOverBytes = 64 << 10
)

// handover is what a replica knows of the others, for one core cluster.
type handover struct {
	core  string
	peers Peers

	mu       sync.Mutex
	suspects map[string]time.Time
}

// handedOver is an ask on its way to another replica, and decided is its answer. Only reservations are handed over:
// giving back is rare, and each replica does it by itself.
type handedOver struct {
	Removal quota.Removal `json:"removal"`
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
	body, err := json.Marshal(handedOver{Removal: a.removal})
	if err != nil {
		return answer{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url(replica, key, patience), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	response, err := h.peers.Client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, maxHandedOverBytes))
	if err != nil {
		return answer{}, err
	}
	if response.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("replica %s: %s: %s", replica, response.Status, strings.TrimSpace(string(content)))
	}
	d := decided{}
	if err := json.Unmarshal(content, &d); err != nil {
		return answer{}, fmt.Errorf("replica %s: %w", replica, err)
	}
	*a.claim = d.Claim
	return answer{verdict: d.Verdict, elsewhere: true}, nil
}

func (h *handover) url(replica string, key types.NamespacedName, patience time.Duration) string {
	path := "/peers/v1/cores/" + url.PathEscape(h.core) + "/protectors/" + url.PathEscape(key.Namespace) + "/" + url.PathEscape(key.Name)
	return "https://" + replica + path + "?timeout=" + patience.String()
}

// HandedOver serves what other replicas hand over. It believes them: only replicas may reach it.
func (p *Protection) HandedOver() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /peers/v1/cores/{core}/protectors/{namespace}/{name}", p.takeOver)
	return mux
}

func (p *Protection) takeOver(w http.ResponseWriter, r *http.Request) {
	asked := handedOver{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHandedOverBytes)).Decode(&asked); err != nil {
		http.Error(w, "cannot read what is handed over: "+err.Error(), http.StatusBadRequest)
		return
	}
	core := p.core(r.PathValue("core"))
	if core == nil || !core.read.Load() {
		http.Error(w, fmt.Sprintf("core cluster %q is not known here", r.PathValue("core")), http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTime(r))
	defer cancel()
	claim := &quota.Claim{}
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	// Not handed on: replicas that disagree about who writes would pass it round.
	answer, err := core.flights.Do(ctx, key, ask{removal: asked.Removal, claim: claim})
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if answer.vanished {
		// It may be that this replica has not heard of the protector yet: the one that asks has, and must see for itself.
		http.Error(w, fmt.Sprintf("PodProtector %s is not known here", key), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(decided{Verdict: answer.verdict, Claim: *claim}); err != nil {
		p.log.V(1).Info("Another replica did not take the answer", "error", err.Error())
	}
}

func (p *Protection) core(name string) *core {
	for _, c := range p.cores {
		if c.name == name {
			return c
		}
	}
	return nil
}
