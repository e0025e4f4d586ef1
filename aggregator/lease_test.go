package aggregator

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// A deposed leader that has not noticed releases what it believes to be its own Lease.
func TestDeposedLeaderKeepsLeaseOfSuccessor(t *testing.T) {
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
		record, _, err := lock("nonexistent").Get(t.Context())
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
		t.Errorf("the lease is held by %q after its former holder released it, want successor", got)
	}
	hold(successor, "")
	if got := holder(); got != "" {
		t.Errorf("the lease is held by %q after its holder released it, want none", got)
	}
}

func TestLeaseCreateBacksOffWithoutNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, attempts := fake.NewClientset(), 0
		core.PrependReactor("create", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			attempts++
			return true, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "system")
		})
		var errors []string
		log := funcr.New(func(_, arguments string) {
			if strings.Contains(arguments, `"error"=`) {
				errors = append(errors, arguments)
			}
		}, funcr.Options{})
		a := &Aggregator{options: Options{Cell: "worker-1", Identity: "one", LeaseNamespace: "system", LeaseDuration: 4 * time.Second}, core: coreCluster{clientset: core}, log: log}
		ctx, end := context.WithTimeout(t.Context(), 10*time.Minute)
		defer end()
		if err := a.runElectionOnce(ctx); err != nil {
			t.Fatal(err)
		}
		if attempts < 15 || attempts > 30 || len(errors) > attempts {
			t.Errorf("%d attempts and %d errors in ten minutes: %q", attempts, len(errors), errors)
		}
		if len(errors) == 0 || !strings.Contains(errors[0], "--leader-election-namespace") {
			t.Errorf("no error names the remedy: %q", errors)
		}
	})
}
