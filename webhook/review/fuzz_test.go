package review

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/webhook/server"
)

// FuzzReview sends arbitrary bodies to the handler. The answer is always either an HTTP error or a complete review. A
// protector at its floor never gets a reservation, and refusals state the reason.
func FuzzReview(f *testing.F) {
	seeds, err := filepath.Glob(filepath.Join("testdata", "reviews", "*.json"))
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no reviews to begin with: %v", err)
	}
	for _, seed := range seeds {
		raw, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(bytes.ReplaceAll(raw, []byte("web-0"), bytes.Repeat([]byte("x"), 64<<10)))
	}
	f.Add([]byte(`null`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`))
	d := newMemoryFixture(f, memoryProtector("web", 5, 5))
	handler := d.handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/cells/"+memoryCell+"/validate", bytes.NewReader(body)))
		checkAnswer(t, recorder)
		if reserved := quota.BudgetOf(d.stored(t, "web")).Reserved; reserved != 0 {
			t.Fatalf("%d reservations of a protector without budget", reserved)
		}
	})
}

// handler returns the handler of a server for the protection of the fixture.
func (d *memoryFixture) handler() http.Handler {
	s := &server.Server{}
	s.SetUp(d.Protection, prometheus.NewRegistry(), d.tracer, logr.Discard())
	return s.Handler()
}

func checkAnswer(t *testing.T, recorder *httptest.ResponseRecorder) {
	t.Helper()
	if recorder.Code == http.StatusBadRequest && recorder.Body.Len() > 0 {
		return
	}
	review := &admissionv1.AdmissionReview{}
	err := json.Unmarshal(recorder.Body.Bytes(), review)
	if err != nil || recorder.Code != http.StatusOK || review.Response == nil {
		t.Fatalf("answer %d %q, error %v", recorder.Code, recorder.Body, err)
	}
	r := review.Response
	if r.AuditAnnotations[v1alpha1.AuditVerdict] == "" {
		t.Errorf("response %+v has no verdict", r)
	}
	if !r.Allowed && (r.Result == nil || r.Result.Code < 400 || r.Result.Message == "") {
		t.Errorf("response %+v refuses without a reason", r)
	}
}

// The answers must match the purpose of the seeds: a seed that is merely malformed would be no starting point.
func TestFuzzSeedsReachTheirVerdicts(t *testing.T) {
	handler := newMemoryFixture(t, memoryProtector("web", 5, 5)).handler()
	for seed, want := range map[string]string{
		"delete-available": "NoBudget", "delete-dry-run": "NoBudget", "delete-terminating": "NotAvailable",
		"delete-collection": "NoBudget", "delete-other": "Unprotected", "delete-nameless": "Nameless",
		"delete-forged-glass": "NoPod", "evict-missing": "NoPod", "evict-dry-run": "NoPod", "update": "Unguarded", "delete-broken": "Malformed",
	} {
		t.Run(seed, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("testdata", "reviews", seed+".json"))
			if err != nil {
				t.Fatal(err)
			}
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/cells/"+memoryCell+"/validate", bytes.NewReader(raw)))
			checkAnswer(t, recorder)
			review := &admissionv1.AdmissionReview{}
			if err := json.Unmarshal(recorder.Body.Bytes(), review); err != nil {
				t.Fatal(err)
			}
			if got := review.Response.AuditAnnotations[v1alpha1.AuditVerdict]; got != want {
				t.Errorf("verdict %s, want %s: %s", got, want, recorder.Body)
			}
		})
	}
}
