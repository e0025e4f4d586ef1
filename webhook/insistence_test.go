package webhook

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

func schedulerAsks(pod types.UID) removal.Request {
	return removal.Request{User: scheduler, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: pod}}}
}

func TestTheSchedulerIsRefusedAPodOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held, began := &insistence{}, time.Now()
		for i := range 5 {
			held.hold(t.Context(), schedulerAsks("a"), time.Now())
			if got, want := time.Since(began), time.Duration(i)*insistPause; got != want {
				t.Errorf("refusal %d is given after %s, want %s", i, got, want)
			}
		}
		began = time.Now()
		held.hold(t.Context(), schedulerAsks("b"), time.Now())
		other := schedulerAsks("a")
		other.User = "jane"
		held.hold(t.Context(), other, time.Now())
		if got := time.Since(began); got != 0 {
			t.Errorf("another pod, and another user, waited for %s", got)
		}
		<-time.After(insistPause)
		began = time.Now()
		held.hold(t.Context(), schedulerAsks("a"), time.Now())
		if got := time.Since(began); got != 0 {
			t.Errorf("one who waited by himself waited for %s more", got)
		}
	})
}

func TestARefusalIsNotHeldBackLongerThanItsReviewLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &insistence{}
		held.hold(t.Context(), schedulerAsks("a"), time.Now())
		ctx, cancel := context.WithTimeout(t.Context(), insistPause/4)
		defer cancel()
		began := time.Now()
		held.hold(ctx, schedulerAsks("a"), time.Now())
		if got := time.Since(began); got != insistPause/4 {
			t.Errorf("it was held back for %s, want %s", got, insistPause/4)
		}
	})
}

func TestWhoInsistsIsForgotten(t *testing.T) {
	held, now := &insistence{}, time.Now()
	for i := range 2 * mostInsistent {
		held.pause(types.UID(fmt.Sprint(i)), now)
		if len(held.last) > mostInsistent {
			t.Fatalf("%d are remembered", len(held.last))
		}
	}
	held.pause("one more", now.Add(2*insistPause))
	if len(held.last) > mostInsistent {
		t.Errorf("%d are remembered", len(held.last))
	}
}
