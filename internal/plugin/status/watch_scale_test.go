package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

func newHugeState(protectors, reservations int) (*watchState, time.Time) {
	b, now := newTestState(plugin.Scope{})
	for i := range protectors {
		p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("shop-", i%50), Name: fmt.Sprint("web-", i)}}
		p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(20)
		p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "worker-1", Aggregation: v1alpha1.Aggregation{CountedReplicas: int32(20 + i%7), CountedSpec: quota.CountedSpec(&p.Spec)}}}
		for i := range reservations {
			p.Status.Cells[0].AdmissionHistory.Buckets = append(p.Status.Cells[0].AdmissionHistory.Buckets, v1alpha1.Bucket{
				StartTime: metav1.NewMicroTime(now.Add(-time.Duration(i) * time.Second)), Counter: 1, PodUID: types.UID(fmt.Sprint("uid-", i)), PodName: fmt.Sprint("web-", i), Operation: v1alpha1.OperationEvict,
			})
		}
		b.record("", "PodProtectors", p, false)
	}
	return b, now
}

func TestThousandsOfProtectorsFitScreen(t *testing.T) {
	b, now := newHugeState(2000, 0)
	lines := b.frame(160, 50, now)
	if len(lines) > 50 || !strings.Contains(strings.Join(lines, "\n"), "more, with more budget") {
		t.Errorf("frame has %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
	}
}

func TestStatusShowsAllReservationsOnRequest(t *testing.T) {
	b, now := newHugeState(1, 1000)
	v := b.view(now).protectors[0]
	for _, c := range []struct {
		whole bool
		lines int
	}{{false, 30}, {true, 1020}} {
		tree := statusTree{Protector: &v, now: now, showAll: c.whole}
		text := tree.text()
		if got := strings.Count(text, "\n"); got > c.lines || c.whole && !strings.Contains(text, "web-999 ") || !c.whole && !strings.Contains(text, "and 992 more") {
			t.Errorf("status prints %d lines with -o wide %v:\n%.3000s", got, c.whole, text)
		}
	}
}

func TestStatusShowsShares(t *testing.T) {
	b, now := newHugeState(1, 0)
	for _, p := range b.cores[""].protectors {
		p.Status.Cells[0].Share = &v1alpha1.CellShare{Floor: 17, Reserved: 1, Wanted: 4, TermVersion: "1"}
	}
	tree := statusTree{Protector: &b.view(now).protectors[0], now: now}
	for _, want := range []string{"20 of 0 available, 1 under way", "share  keeps 17 of the floor, and admits 2 removals alone besides 1 under way; it has denied 4 and asks other cells for budget"} {
		if text := tree.text(); !strings.Contains(text, want) {
			t.Errorf("status does not contain %q:\n%s", want, text)
		}
	}
}

func BenchmarkFrameOfThousandsOfProtectors(b *testing.B) {
	board, now := newHugeState(2000, 5)
	for b.Loop() {
		board.frame(160, 50, now)
	}
}

func BenchmarkViewOfAThousandReservations(b *testing.B) {
	huge, now := newHugeState(1, 1000)
	for _, p := range huge.cores[""].protectors {
		for b.Loop() {
			status.Of("", p, nil, now)
		}
	}
}
