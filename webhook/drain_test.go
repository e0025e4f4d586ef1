package webhook_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"
)

// An API server that kept using a connection would lose the review in flight when the replica exits.
func TestDrainingReplicaAnswersAndClosesConnections(t *testing.T) {
	l := newFixture(t)
	raw, err := json.Marshal(deleteReview(l.pod("web-0")))
	if err != nil {
		t.Fatal(err)
	}
	r := l.serve(func(s *replicaOptions) { s.server.Drain = 5 * time.Second })
	client := r.reader()
	closes := func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://"+r.server.Address()+"/cells/"+l.cell+"/validate", bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("a review was not answered: %v", err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("answer %s", response.Status)
		}
		return response.Close
	}
	if closes() {
		t.Error("the connection was closed although the replica is not draining")
	}
	stopped := after(func() { _ = r.stop() })
	l.eventually(func() string {
		if r.server.Ready(nil) == nil {
			return "it does not drain"
		}
		return ""
	})
	if !closes() {
		t.Error("the connection was kept although the replica is draining")
	}
	<-stopped
}
