package webhook_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/webhook/reserve"
)

// servePeers starts replicas that are peers of each other.
func (l *fixture) servePeers(replicas int) []*replica {
	l.Helper()
	var addresses []string
	for range replicas {
		addresses = append(addresses, testplane.FreeAddress(l))
	}
	a := newAuthority(l)
	cert, key := a.store(l.TempDir())
	var all []*replica
	for _, address := range addresses {
		all = append(all, l.serve(asPeer(address, addresses, cert, key)))
	}
	return all
}

// asPeer makes a replica one of several that share a certificate.
func asPeer(address string, all []string, cert, key string) func(*replicaOptions) {
	return func(s *replicaOptions) {
		s.server.Listen, s.server.CertFile, s.server.KeyFile = address, cert, key
		s.peers = reserve.NewPeers(s.server, address, func() []string { return all })
	}
}

func (l *fixture) listen() net.Listener {
	l.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		l.Fatal(err)
	}
	return listener
}

// remove reviews the deletion of a pod that exists only in the review.
func (r *replica) remove(serial int) removal.Answer {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 9*time.Second)
	defer cancel()
	return r.protection.Review(ctx, r.cell, deleteReview(benchPod(r.namespace, serial)).Request)
}

// removeUnderContention removes pods through all replicas, while another replica writes the protector, until enough returns true. All
// removals must be admitted. It returns the number of removals.
func (l *fixture) removeUnderContention(replicas []*replica, enough func() bool) (removed int) {
	l.Helper()
	ctx, stop := context.WithCancel(l.Context())
	defer stop()
	var writer sync.WaitGroup
	defer writer.Wait()
	writer.Go(func() { l.reserveRepeatedly(ctx, "web") })
	l.eventually(func() string {
		for _, r := range replicas {
			if answer := r.remove(removed); !answer.Allowed {
				l.Fatalf("removal %d: %+v", removed, answer.Status)
			}
			removed++
		}
		if removed < 20 || !enough() {
			return "nothing is handed over"
		}
		return ""
	})
	stop()
	return removed
}

// reserveRepeatedly writes a protector as another replica does, as fast as it can: it adds and removes a reservation. When ctx has ended,
// the reservation is removed.
func (l *fixture) reserveRepeatedly(ctx context.Context, name string) {
	for {
		p := l.protector(name)
		history := &p.Status.Cells[0].AdmissionHistory
		buckets := len(history.Buckets)
		history.Buckets = slices.DeleteFunc(history.Buckets, func(b v1alpha1.Bucket) bool { return b.PodUID == "other" })
		switch {
		case len(history.Buckets) < buckets:
		case ctx.Err() != nil:
			return
		default:
			revocable := metav1.NewMicroTime(time.Now().Add(time.Hour)) // it is not merged with others
			history.Buckets = append(history.Buckets, v1alpha1.Bucket{
				StartTime: metav1.NowMicro(), PodUID: "other", PodName: "other", Counter: 1, Operation: v1alpha1.OperationDelete, RevocableUntil: &revocable,
			})
		}
		if err := l.client.Status().Update(context.Background(), p); err != nil && !apierrors.IsConflict(err) {
			l.Errorf("another replica: %v", err)
		}
	}
}

func handedOver(replicas []*replica, result string) (sum int) {
	for _, r := range replicas {
		sum += r.count("breakwater_webhook_handed_over_total", "result", result)
	}
	return sum
}

func TestContendingReplicasForward(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 100_000)
	replicas := l.servePeers(2)
	removed := l.removeUnderContention(replicas, func() bool { return handedOver(replicas, "answered") >= 5 })
	if failed := handedOver(replicas, "failed"); failed > 0 {
		t.Errorf("%d removals could not be forwarded, want 0", failed)
	}
	l.wantReserved("web", removed)
}

// An aggregator counts and settles, and reserves nothing. Replicas that conflict with it alone would gain nothing by forwarding.
func TestConflictsWithAggregatorAreNoContention(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 100_000)
	r := l.servePeers(2)[:1]
	ctx, stop := context.WithCancel(t.Context())
	var aggregator sync.WaitGroup
	aggregator.Go(func() { l.writeStatusRepeatedly(ctx, "web") })
	removed := 0
	l.eventually(func() string {
		if answer := r[0].remove(removed); !answer.Allowed {
			t.Fatalf("removal %d: %+v", removed, answer.Status)
		}
		removed++
		if conflicts := r[0].count("breakwater_webhook_status_writes_total", "result", "conflict"); conflicts < 10 {
			return fmt.Sprintf("%d conflicts in %d removals, want 10", conflicts, removed)
		}
		return ""
	})
	stop()
	aggregator.Wait()
	if forwarded := handedOver(r, "answered") + handedOver(r, "failed"); forwarded > 0 {
		t.Errorf("%d of %d removals were forwarded, want 0", forwarded, removed)
	}
	l.wantReserved("web", removed)
}

// Every removal is admitted anyway, and the faulty replica is not asked for each one.
func TestFaultyPeerIsSuspected(t *testing.T) {
	for claim, other := range map[string]func(l *fixture, listener net.Listener, cert tls.Certificate){
		"it is unreachable": func(_ *fixture, listener net.Listener, _ tls.Certificate) { _ = listener.Close() },
		"it has stopped": func(l *fixture, listener net.Listener, cert tls.Certificate) {
			l.serveHTTP(listener, cert, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		},
		"it knows no such protector": func(l *fixture, listener net.Listener, cert tls.Certificate) {
			l.serveHTTP(listener, cert, http.NotFound)
		},
		"it does not answer all": func(l *fixture, listener net.Listener, cert tls.Certificate) {
			l.serveHTTP(listener, cert, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"decided": []}`) })
		},
		"it answers nonsense": func(l *fixture, listener net.Listener, cert tls.Certificate) {
			l.serveHTTP(listener, cert, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "nonsense") })
		},
		"it has another certificate": func(l *fixture, listener net.Listener, _ tls.Certificate) {
			l.serveHTTP(listener, newAuthority(l).client("webhook"), func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, `{"decided": [{"verdict": {"Outcome": "Reserved"}}]}`)
			})
		},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 1, 100_000)
			certFile, keyFile := newAuthority(t).store(t.TempDir())
			cert, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			self := testplane.FreeAddress(l)
			listener := l.listenAsOwner(self)
			other(l, listener, cert)
			r := []*replica{l.serve(asPeer(self, []string{listener.Addr().String(), self}, certFile, keyFile))}
			began := time.Now()
			removed := l.removeUnderContention(r, func() bool { return handedOver(r, "failed") > 0 })
			l.wantReserved("web", removed)
			if failed := handedOver(r, "failed"); failed > 1+int(time.Since(began)/(5*time.Second)) {
				t.Errorf("%d failed forwards in %s, want one in five seconds", failed, time.Since(began))
			}
		})
	}
}

// listenAsOwner returns a listener whose address owns the protector, rather than the replica at the other address.
func (l *fixture) listenAsOwner(other string) net.Listener {
	l.Helper()
	key := l.core + "/" + types.NamespacedName{Namespace: l.namespace, Name: "web"}.String()
	for {
		listener := l.listen()
		if address := listener.Addr().String(); reserve.RendezvousOwner(key, []string{address, other}) == address {
			l.Cleanup(func() { _ = listener.Close() })
			return listener
		}
		_ = listener.Close()
	}
}

func (l *fixture) serveHTTP(listener net.Listener, cert tls.Certificate, handle http.HandlerFunc) {
	server := &http.Server{Handler: handle, ReadHeaderTimeout: time.Minute}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}}
	go func() { _ = server.Serve(tls.NewListener(listener, config)) }()
	l.Cleanup(func() { _ = server.Close() })
}

func TestOnlyPeersMayForward(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 10)
	path := "/peers/" + reserve.PeerProtocol + "/cores/core/protectors/" + l.namespace + "/web"
	body := `{"removals": [{"Cell": "` + l.cell + `", "PodUID": "u", "PodName": "web-0", "Operation": "Delete", "At": "2026-01-01T00:00:00Z"}]}`
	for _, clientCA := range []bool{false, true} {
		r := l.serve(func(s *replicaOptions) {
			if clientCA {
				s.server.ClientCAFile = write(t, t.TempDir(), "ca.crt", newAuthority(t).pem())
			}
		})
		own, err := tls.LoadX509KeyPair(r.server.CertFile, r.server.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		for claim, present := range map[string][]tls.Certificate{
			"absent": nil, "another authority's": {newAuthority(t).client("webhook")}, "another of the same authority": {r.authority.client("webhook")},
		} {
			code, answer, err := r.post(t.Context(), path, strings.NewReader(body), present...)
			if err == nil && code != http.StatusForbidden {
				t.Errorf("certificate %s: %d %q, want 403", claim, code, answer)
			}
		}
		l.wantReserved("web", 0)
		code, answer, err := r.post(t.Context(), path, strings.NewReader("{"), own)
		if err != nil || code != http.StatusBadRequest {
			t.Errorf("truncated request: %d %q %v, want 400", code, answer, err)
		}
		for name, want := range map[string]int{path + "-other": http.StatusNotFound, strings.Replace(path, "core/", "other/", 1): http.StatusServiceUnavailable} {
			if code, answer, err := r.post(t.Context(), name, strings.NewReader(body), own); err != nil || code != want {
				t.Errorf("%s: %d %q %v, want %d", name, code, answer, err, want)
			}
		}
	}
	r := l.serve()
	own, err := tls.LoadX509KeyPair(r.server.CertFile, r.server.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	code, answer, err := r.post(t.Context(), path, strings.NewReader(body), own)
	if err != nil || code != http.StatusOK || !strings.Contains(answer, `"Outcome":"Reserved"`) {
		t.Errorf("with the certificate of a replica: %d %q %v, want a reservation", code, answer, err)
	}
	l.wantReserved("web", 1)
}
