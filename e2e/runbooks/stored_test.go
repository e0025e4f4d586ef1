package runbooks_test

import (
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// storedObjectFaults returns the faults of components that change objects at their creation: the sharder, which assigns them to shards, and
// the webhooks that apply scheduling policies.
func storedObjectFaults() []fault {
	return []fault{
		{page: "objects-not-assigned", breakHook: "create objects of a ring without shards", staysActive: true, hooks: hookMap{
			"create objects of a ring without shards": func(l *fixture) {
				createUntilAlert(l, "BreakwaterObjectsNotAssigned", l.Core, func() client.Object {
					return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "carts", GenerateName: "cart-"}}
				})
			},
			"start a shard": func(l *fixture) { l.Must(l.Core.Create(l.Context(), shardLease())) },
		}},
		{page: "sharder-down", breakHook: "stop the sharder", hooks: hookMap{
			"stop the sharder":  func(l *fixture) { stopComponents(l, []string{install.SharderName(0)}) },
			"start the sharder": func(l *fixture) { startComponents(l, []string{install.SharderName(0)}) },
		}},
		{page: "scheduling-policies-not-applied", breakHook: "create pods of an unknown cell", staysActive: true, hooks: hookMap{
			"create pods of an unknown cell": func(l *fixture) {
				worker, err := install.Client(suite.Federation().Workers()[0])
				l.Must(err)
				createUntilAlert(l, "BreakwaterSchedulingPoliciesNotApplied", worker, func() client.Object {
					return &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: "carts", GenerateName: "cart-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "cart", Image: "cart"}}},
					}
				})
			},
		}},
	}
}

// startSharder starts a sharder for the rings of the core.
func startSharder(l *fixture) {
	l.Helper()
	sharders, err := suite.Breakwater.StartSharders(l.Context(), suite.Program(), suite.Federation().Cores()[0].Kubeconfig(), 1)
	l.Must(err)
	l.Cleanup(sharders.Close)
}

// shardLease returns the Lease of a shard of the ring carts, valid for an hour.
func shardLease() *coordinationv1.Lease {
	now := metav1.NowMicro()
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: install.SystemNamespace, Name: "carts-0", Labels: map[string]string{v1alpha1.LabelRing: "carts"}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("carts-0_1"), LeaseDurationSeconds: ptr.To(int32(3600)), AcquireTime: &now, RenewTime: &now,
		},
	}
}

// createUntilAlert creates one object after the other in a cluster until an alert is active.
func createUntilAlert(l *fixture, alert string, c client.Client, object func() client.Object) {
	l.Helper()
	l.Eventually(func() string {
		l.Must(c.Create(l.Context(), object()))
		active, err := alerts.activeAlerts()
		if err != nil || !slices.Contains(active, alert) {
			return fmt.Sprintf("%s is not active: %q, %v", alert, active, err)
		}
		return ""
	})
}
