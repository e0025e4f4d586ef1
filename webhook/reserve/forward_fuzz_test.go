package reserve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const handedOverPath = "/cores/core/protectors/default/web"

// FuzzHandedOver sends arbitrary bodies as a forward batch of another replica. The answer is always either an HTTP
// error or an outcome for each removal. A protector at its floor never gets a reservation, unless a removal is forced.
func FuzzHandedOver(f *testing.F) {
	one := `{"Cell":"c0","PodUID":"u","PodName":"web-0","Operation":"Delete","At":"2026-01-01T00:00:00Z"}`
	for _, seed := range []string{
		`{"removals":[` + one + `]}`, `{"removals":[` + one + `,` + one + `]}`, `{"removals":[{}]}`, `{"removals":[null]}`, `{"removals":null}`, `{}`, `null`, `[]`,
		`{"removals":{}}`, `{"removals":[{"Cell":"c9","PodUID":"u"}]}`, `{"removals":[{"PodUID":"u","Generation":-1,"Containers":[{"name":"a","restarts":2147483647}]}]}`,
		`{"removals":[{"At":"0000-01-01T00:00:00Z","RevocableUntil":"9999-12-31T23:59:59Z"}]}`, `{"removals":[` + one, `{"removals":[],"removals":[` + one + `]}`,
	} {
		f.Add([]byte(seed))
	}
	d := newMemoryFixture(f, memoryProtector("web", 5, 5))
	handler := d.PeerHandler(nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		asked := handedOver{}
		readable := removal.DecodeJSON(body, &asked) == nil
		if slices.ContainsFunc(asked.Removals, func(r quota.Removal) bool { return r.Force }) {
			t.Skip("break-glass removals reserve without budget")
		}
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/peers/"+PeerProtocol+handedOverPath, bytes.NewReader(body)))
		if !readable {
			if recorder.Code != http.StatusBadRequest || recorder.Body.Len() == 0 {
				t.Fatalf("malformed batch: got %d %q, want 400 with a reason", recorder.Code, recorder.Body)
			}
			return
		}
		answer := taken{}
		if err := json.Unmarshal(recorder.Body.Bytes(), &answer); recorder.Code != http.StatusOK || err != nil {
			t.Fatalf("answer %d %q, error %v", recorder.Code, recorder.Body, err)
		}
		if len(answer.Decided) != len(asked.Removals) {
			t.Errorf("%d decisions, want %d", len(answer.Decided), len(asked.Removals))
		}
		for i, one := range answer.Decided {
			if one.Verdict.Outcome == "" || one.Verdict.Outcome.Admitted() {
				t.Errorf("removal %d has the outcome %q, want a refusal", i, one.Verdict.Outcome)
			}
		}
		if reserved := quota.BudgetOf(d.stored(t, "web")).Reserved; reserved != 0 {
			t.Fatalf("%d reservations of a protector without budget", reserved)
		}
	})
}

func TestOversizedForwardBatchUsesLittleMemory(t *testing.T) {
	handler := newMemoryFixture(t, memoryProtector("web", 5, 5)).PeerHandler(nil)
	for claim, element := range map[string]string{"of nothing": "{}", "that are null": "null"} {
		t.Run(claim, func(t *testing.T) {
			body := `{"removals":[` + strings.Repeat(element+",", maxForwardBytes/(len(element)+1)-10) + element + `]}`
			request := httptest.NewRequest(http.MethodPost, "/peers/"+PeerProtocol+handedOverPath, strings.NewReader(body))
			recorder := httptest.NewRecorder()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			handler.ServeHTTP(recorder, request)
			runtime.ReadMemStats(&after)
			if recorder.Code != http.StatusBadRequest || !strings.Contains(recorder.Body.String(), "more than 4096 removals") {
				t.Errorf("answer %d %.200q, want 400 with the limit", recorder.Code, recorder.Body)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 8*maxForwardBytes {
				t.Errorf("decoding a batch of %d bytes allocated %d bytes, want at most %d", len(body), took, 8*maxForwardBytes)
			}
		})
	}
}
