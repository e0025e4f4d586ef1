package wake

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func schedulerRequest(pod types.UID) removal.Request {
	return removal.Request{User: schedulerUser, Pod: removal.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod}})}
}

func TestSchedulerDenialsAreDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, began := &PreemptionBackoff{}, time.Now()
		for i := range 5 {
			held.Delay(t.Context(), schedulerRequest("a"), time.Now())
			if got, want := time.Since(began), time.Duration(i)*minDenialInterval; got != want {
				t.Errorf("refusal %d after %s, want %s", i, got, want)
			}
		}
		began = time.Now()
		held.Delay(t.Context(), schedulerRequest("b"), time.Now())
		other := schedulerRequest("a")
		other.User = "jane"
		held.Delay(t.Context(), other, time.Now())
		if got := time.Since(began); got != 0 {
			t.Errorf("refusals of another pod and another user were delayed by %s, want no delay", got)
		}
		<-time.After(minDenialInterval)
		began = time.Now()
		held.Delay(t.Context(), schedulerRequest("a"), time.Now())
		if got := time.Since(began); got != 0 {
			t.Errorf("client that paused by itself was delayed by %s, want no delay", got)
		}
	})
}

func TestDenialDelayEndsWithReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &PreemptionBackoff{}
		held.Delay(t.Context(), schedulerRequest("a"), time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), minDenialInterval/4)
		defer cancel()
		began := time.Now()
		held.Delay(ctx, schedulerRequest("a"), time.Now())
		if got := time.Since(began); got != minDenialInterval/4 {
			t.Errorf("delay %s, want %s", got, minDenialInterval/4)
		}
	})
}

func TestPreemptionBackoffIsBounded(t *testing.T) {
	held, now := &PreemptionBackoff{}, time.Now()
	for i := range 2 * maxTrackedVictims {
		held.reserveDelay(types.UID(fmt.Sprint(i)), now)
		if len(held.last) > maxTrackedVictims {
			t.Fatalf("%d tracked pods, want at most %d", len(held.last), maxTrackedVictims)
		}
	}
	held.reserveDelay("another", now.Add(2*minDenialInterval))
	if len(held.last) > maxTrackedVictims {
		t.Errorf("%d tracked pods, want at most %d", len(held.last), maxTrackedVictims)
	}
}
