package reserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/telemetry/tracing"
	"github.com/breakwater-k8s/breakwater/webhook/reviews"
)

// PeerHandler serves the requests of other replicas of this version. It trusts their content: only replicas may reach
// it.
func (s *Cores) PeerHandler(tracer *tracing.Tracer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /peers/"+PeerProtocol+"/cores/{core}/protectors/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
		s.serveForward(w, r, tracer)
	})
	mux.HandleFunc("/peers/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this replica speaks peer protocol "+PeerProtocol+", another version: reserve locally", http.StatusNotFound)
	})
	return mux
}

func (s *Cores) serveForward(w http.ResponseWriter, r *http.Request, tracer *tracing.Tracer) {
	forwarded := handedOver{}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForwardBytes))
	if err == nil {
		err = removal.DecodeJSON(body, &forwarded)
	}
	if err != nil {
		http.Error(w, "cannot decode forwarded removals: "+err.Error(), http.StatusBadRequest)
		return
	}
	core := s.Named(r.PathValue("core"))
	if core == nil || !core.Synced.Load() {
		http.Error(w, fmt.Sprintf("this replica does not serve core cluster %q, or has not read it yet", r.PathValue("core")), http.StatusServiceUnavailable)
		return
	}
	ctx, span := tracer.Serve(r.Context(), r.Header, tracing.SpanTakeOver)
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, reviews.Timeout(r, maxForwardWait))
	defer cancel()
	key := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	answer, err := core.reserver.reserveForPeer(ctx, key, forwarded.Removals)
	tracing.RecordError(span, err)
	switch {
	case errors.Is(err, errUnknownProtector):
		http.Error(w, fmt.Sprintf("this replica has no PodProtector %s", key), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(taken{answer}); err != nil {
			s.log.V(1).Info("Could not send answer to another replica", "error", err.Error())
		}
	}
}
