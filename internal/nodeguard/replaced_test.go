package nodeguard

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
	"github.com/breakwater-k8s/breakwater/internal/nodeguard/podwire"
)

// slowFirst answers the first question for an admission late.
type slowFirst struct {
	asked, answer chan struct{}
	first         bool
}

func (c *slowFirst) Protects(*corev1.Pod) bool { return true }

func (c *slowFirst) Admission(context.Context, string, types.UID) podhold.Admission {
	if c.first {
		c.first = false
		close(c.asked)
		<-c.answer
	}
	return podhold.Admitted
}

// A late decision on a pod whose removal was admitted must not drop the next pod of its name (rule N1): the guard would not hold that one.
func TestLateDecisionKeepsTheNextPodOfTheName(t *testing.T) {
	f := newAskingFixture(t)
	earlier := f.run("web-1")
	c := &slowFirst{asked: make(chan struct{}), answer: make(chan struct{}), first: true}
	f.guard.cluster = c
	decided := make(chan struct{})
	go func() { // an earlier watch of the kubelet, or a list
		defer close(decided)
		f.guard.decideLost(t.Context(), earlier)
	}()
	<-c.asked
	next := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "next", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{ContainerID: "containerd://2"}}},
	}
	raw, err := podwire.Encode(podwire.JSON, next)
	if err != nil {
		t.Fatal(err)
	}
	if _, change, err := f.guard.observe(t.Context(), podhold.PodOf(next), encoded{podwire.JSON, raw}); err != nil || change != podhold.Show {
		t.Fatalf("observe() = %v, %v, want that the kubelet sees the next pod", change, err)
	}
	close(c.answer)
	select {
	case <-decided:
	case <-time.After(5 * time.Second):
		t.Fatal("no decision")
	}
	if e, ok := f.guard.entry(podhold.PodOf(next).NamespacedName); !ok || e.Pod.UID != "next" {
		t.Errorf("the guard knows %+v (%v), want the next pod: it would not hold it", e.Pod, ok)
	}
}
