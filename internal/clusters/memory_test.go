package clusters_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// A protector that was written in a storm may never be read again.
func TestOldWritesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		builder := fake.NewClientBuilder().WithScheme(clusters.Scheme()).WithStatusSubresource(&v1alpha1.PodProtector{})
		var stormed []*v1alpha1.PodProtector
		for i := range 100 {
			stormed = append(stormed, &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i)}})
			builder = builder.WithObjects(stormed[i])
		}
		c := builder.Build()
		s := &clusters.Protectors{Cache: c, Live: c, Writer: c}
		store := func(p *v1alpha1.PodProtector) {
			t.Helper()
			now, err := s.Read(t.Context(), client.ObjectKeyFromObject(p))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.WriteStatus(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range stormed {
			store(p)
		}
		if got := s.OwnWrites(); got != 100 {
			t.Fatalf("%d writes are remembered, want all 100 while the watch may not have shown them", got)
		}
		<-time.After(11 * time.Second)
		for range 1000 {
			store(stormed[0])
		}
		if got := s.OwnWrites(); got != 1 {
			t.Errorf("%d writes are remembered after 11 s and 1,000 writes of one protector, want that one", got)
		}
	})
}

// A caller that decided by an own write which the watch never shows looks again when that write is no longer trusted.
func TestOwnWriteIsUnconfirmedUntilWatchShowsIt(t *testing.T) {
	s, cache, _ := newProtectors(t)
	if got := s.Unconfirmed(key); got != 0 {
		t.Errorf("%s before any write, want 0", got)
	}
	ownWrite(t, s, 1)
	if got := s.Unconfirmed(key); got <= 0 || got > 11*time.Second {
		t.Errorf("%s after a write that the watch has not shown, want some seconds", got)
	}
	cache.catchUp(t)
	newest(t, s)
	if got := s.Unconfirmed(key); got != 0 {
		t.Errorf("%s after the watch has shown the write, want 0", got)
	}
}

func TestConfirmedWriteIsForgotten(t *testing.T) {
	s, cache, _ := newProtectors(t)
	before := newest(t, s)
	ownWrite(t, s, 1)
	s.Confirm(before)
	if got := s.OwnWrites(); got != 1 {
		t.Errorf("%d writes are remembered after the watch has shown an earlier state, want 1", got)
	}
	cache.catchUp(t)
	s.Confirm(cache.seen)
	if got := s.OwnWrites(); got != 0 {
		t.Errorf("%d writes are remembered after the watch has shown the write, want 0", got)
	}
	wantNewest(t, s, 1)
}
