package webhook_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// During a rolling upgrade a replica can meet one of another version. That replica must not reserve on the basis of a
// message that it does not understand, and the first replica decides itself.
func TestPeerRejectsOtherProtocolVersion(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 10)
	body := `{"removals": [{"Cell": "` + l.cell + `", "PodUID": "u", "PodName": "web-0", "Operation": "Delete", "At": "2026-01-01T00:00:00Z", "New": true}]}`
	r := l.serve()
	own, err := tls.LoadX509KeyPair(r.server.CertFile, r.server.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1", "v99-0123456789ab"} {
		code, answer, err := r.post(t.Context(), "/peers/"+version+"/cores/core/protectors/"+l.namespace+"/web", strings.NewReader(body), own)
		if err != nil || code != http.StatusNotFound || !strings.Contains(answer, reserve.PeerProtocol) {
			t.Errorf("request with protocol %s: got %d %q %v, want 404 and the protocol of this replica", version, code, answer, err)
		}
	}
	l.wantReserved("web", 0)
}

func TestReservesLocallyWhenPeerHasOtherVersion(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 100_000)
	certFile, keyFile := newAuthority(t).store(t.TempDir())
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	// It accepts requests with the path of its version, and admits all without a reservation.
	older := func(listener net.Listener) {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /peers/v1/cores/{core}/protectors/{namespace}/{name}", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, `{"decided": [{"verdict": {"Outcome": "Reserved"}}]}`)
		})
		l.serveHTTP(listener, cert, mux.ServeHTTP)
	}
	self := testplane.FreeAddress(l)
	listener := l.listenAsOwner(self)
	older(listener)
	r := []*replica{l.serve(asPeer(self, []string{listener.Addr().String(), self}, certFile, keyFile))}
	removed := l.removeUnderContention(r, func() bool { return handedOver(r, "failed")+handedOver(r, "answered") > 0 })
	if answered := handedOver(r, "answered"); answered > 0 {
		t.Errorf("a replica of an older version answered %d removals, want 0", answered)
	}
	l.wantReserved("web", removed)
}
