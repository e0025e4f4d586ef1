package aggregator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// A count that began before the deletion was seen can finish after it. No later event reports the end of the old protector (simulation,
// seed 222 with relabels).
func TestLateCountOfDeletedProtectorDoesNotDelaySuccessor(t *testing.T) {
	was := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1"}}
	other := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api", UID: "2"}}
	next := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "3"}}
	now := time.Now()
	e := &endedProtectors{}
	e.recordCounted(was)
	e.recordEnd(was, "a", false, now)
	e.recordEnd(other, "a", false, now.Add(time.Second))
	e.recordCounted(was)
	if wait := e.delayFor(next, time.Minute, now.Add(2*time.Second)); wait != 0 {
		t.Errorf("the next protector waits for %s, want 0: nothing was reserved", wait)
	}
}
