package review

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// recordedEvents returns the events so far.
func (d *memoryFixture) recordedEvents() (all []string) {
	for {
		select {
		case event := <-d.events.Events:
			all = append(all, event)
		default:
			return all
		}
	}
}

func TestUnattributedDenialsAreEventsOfCell(t *testing.T) {
	d := newMemoryFixture(t, memoryProtector("full", 5, 5))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	d.denials.events.now = func() time.Time { return now }
	ask := func(cell string, review *admissionv1.AdmissionRequest) {
		t.Helper()
		review.UserInfo.Username = "alice"
		if answer := d.Review(t.Context(), cell, review); answer.Allowed {
			t.Fatalf("answer %+v, want a refusal", answer)
		}
	}
	raw, err := json.Marshal(memoryPod("web-0"))
	if err != nil {
		t.Fatal(err)
	}
	deletion := func() *admissionv1.AdmissionRequest {
		return &admissionv1.AdmissionRequest{
			UID: "review", Operation: admissionv1.Delete, Namespace: memoryPod("web-0").Namespace, Name: "web-0",
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, OldObject: runtime.RawExtension{Raw: raw},
		}
	}
	want := func(claim string, parts ...string) {
		t.Helper()
		events := d.recordedEvents()
		if len(events) != len(parts) {
			t.Fatalf("%s: got events %q, want %q", claim, events, parts)
		}
		for i, part := range parts {
			if !strings.HasPrefix(events[i], "Warning RemovalRefused ") || !strings.HasSuffix(events[i], part) {
				t.Errorf("%s: event %q, want %q", claim, events[i], part)
			}
		}
	}
	ask("elsewhere", deletion())
	want("a cell that is none", `Asked by "alice" in cell "elsewhere": UnknownCell.`)
	for i := range 100 {
		ask(fmt.Sprint("elsewhere-", i), deletion())
	}
	want("whatever it is called") // a client cannot fill a core with events by inventing names
	now = now.Add(minEventInterval)
	ask("elsewhere", deletion())
	want("after a pause", `UnknownCell. (100 more were refused since the last event.)`)

	d.core.Synced.Store(false)
	ask(memoryCell, deletion())
	want("a core that is not read", `Asked by "alice" in cell "c0": Unknown.`)
	broken := deletion()
	broken.OldObject.Raw = []byte("{")
	ask(memoryCell, broken)
	want("another reason has its own", `Malformed.`)
	trying, yes := deletion(), true
	trying.DryRun = &yes
	now = now.Add(minEventInterval)
	ask(memoryCell, trying)
	want("a dry run")
	d.core.Synced.Store(true)
	now = now.Add(minEventInterval)
	ask(memoryCell, deletion())
	want("one that a protector is to blame for", `NoBudget.`)
}
