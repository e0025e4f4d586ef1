package reserve

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// The counts of leaderships that began before a restore of the core admit nothing (rule 11).
func TestCountsOfALostIncarnationAdmitNothing(t *testing.T) {
	detector := &clusters.RestoreDetector{}
	detector.Observe(detector.Mark(), "100")
	detector.Observe(detector.Mark(), "1000000050")
	for name, c := range map[string]struct {
		began string
		want  quota.Outcome
	}{
		"before the restore": {"100", quota.DeniedRestored},
		"after it":           {"1000000040", quota.Reserved},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p"}}
			p.Spec.MinAvailable = v1alpha1.Pods(1)
			p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{
				CountedReplicas: 3, AvailableReplicas: 3, CountedSpec: quota.CountedSpec(&p.Spec), SnapshotVersion: "7", Epoch: 1, TermVersion: c.began,
			}}}
			w := &batchWriter{restoreDetector: detector, now: time.Now, escrows: newEscrows(func() bool { return false })}
			results, _ := w.decide(p, []historyOp{{
				removal: quota.Removal{Cell: "a", PodUID: "1", PodName: "web-1", Operation: v1alpha1.OperationDelete, At: time.Now()}, claim: &quota.Claim{},
			}}, &escrowDraft{})
			if got := results[0].verdict.Outcome; got != c.want {
				t.Errorf("counts of a leadership that began %s: %s, want %s", name, got, c.want)
			}
		})
	}
}
