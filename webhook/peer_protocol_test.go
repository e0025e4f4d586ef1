package webhook_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/webhook"
)

func TestPeerProtocolNameDependsOnTypes(t *testing.T) {
	type inner struct{ A int }
	type plain struct{ Removals []inner }
	type wider struct {
		Removals []struct{ A, B int }
	}
	type renamed struct {
		Removals []inner `json:"removals"`
	}
	type retyped struct{ Removals []struct{ A string } }
	names := map[string]string{}
	for kind, name := range map[string]string{
		"plain":          webhook.PeerProtocolName(1, reflect.TypeFor[plain]()),
		"a field more":   webhook.PeerProtocolName(1, reflect.TypeFor[wider]()),
		"another name":   webhook.PeerProtocolName(1, reflect.TypeFor[renamed]()),
		"another type":   webhook.PeerProtocolName(1, reflect.TypeFor[retyped]()),
		"a later number": webhook.PeerProtocolName(2, reflect.TypeFor[plain]()),
	} {
		if other, taken := names[name]; taken {
			t.Errorf("peerProtocolName() of %s and of %s are both %s", kind, other, name)
		}
		names[name] = kind
	}
	if a, b := webhook.PeerProtocolName(1, reflect.TypeFor[plain]()), webhook.PeerProtocolName(1, reflect.TypeFor[plain]()); a != b {
		t.Errorf("peerProtocolName() of one type is %s and %s", a, b)
	}
}

// During an upgrade, replicas with different exchange versions hand nothing over, which causes conflicts. A refactoring
// must not change the version.
func TestPeerProtocolIsUnchanged(t *testing.T) {
	if want := "v2-cc4c023f683f"; webhook.PeerProtocol != want {
		t.Errorf("peer protocol %s, want %s: change this test only if the messages between replicas change on purpose", webhook.PeerProtocol, want)
	}
}

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
		if err != nil || code != http.StatusNotFound || !strings.Contains(answer, webhook.PeerProtocol) {
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
