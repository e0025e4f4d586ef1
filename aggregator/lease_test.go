package aggregator

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// A leader that was deposed while it did not know gives up what it takes for its own lease.
func TestADeposedLeaderLeavesTheLeaseToItsSuccessor(t *testing.T) {
	namespace := testplane.Namespace(t)
	client, err := kubernetes.NewForConfig(testplane.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	lock := func(identity string) *lease {
		return &lease{LeaseLock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cell"}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}}
	}
	hold := func(l *lease, holder string) {
		t.Helper()
		now := metav1.NewTime(time.Now())
		record := resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
		if _, _, err := l.Get(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Update(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	holder := func() string {
		t.Helper()
		record, _, err := lock("nobody").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return record.HolderIdentity
	}
	former, successor := lock("former"), lock("successor")
	now := metav1.NewTime(time.Now())
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "former", LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now}
	if err := former.Create(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	hold(successor, "successor")
	hold(former, "")
	if got := holder(); got != "successor" {
		t.Errorf("the lease is held by %q after its former holder gave it up, want successor", got)
	}
	hold(successor, "")
	if got := holder(); got != "" {
		t.Errorf("the lease is held by %q after its holder gave it up", got)
	}
}
