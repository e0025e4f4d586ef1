package runbooks_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// setThreeReady sets the readiness of three pods of the application.
func setThreeReady(l *fixture, ready bool) {
	l.Helper()
	pods := suite.Cells[0].Client.CoreV1().Pods(namespace)
	list, err := pods.List(l.Context(), metav1.ListOptions{LabelSelector: "app=web", Limit: 3})
	l.Must(err)
	patch := []byte(`{"metadata":{"annotations":{"` + federation.ReadyAnnotation + `":"` + strconv.FormatBool(ready) + `"}}}`)
	for i := range list.Items {
		_, err := pods.Patch(l.Context(), list.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{})
		l.Must(err)
	}
}

// newUncountedProtector returns a protector of the application's pods that no aggregator has counted.
func newUncountedProtector() *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fresh"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(1)
	return p
}

// setFloor sets the floor of the application.
func setFloor(l *fixture, pods int) {
	l.Helper()
	patch := []byte(`{"spec":{"minAvailable":` + strconv.Itoa(pods) + `}}`)
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	l.Must(l.Core.Patch(l.Context(), p, client.RawPatch(types.MergePatchType, patch)))
}

// backdateExcess waits until a protector observes that more pods are available than are expected, and moves the begin of the observation back.
func backdateExcess(l *fixture, protector string, by time.Duration) {
	l.Helper()
	l.Eventually(func() string {
		p := &v1alpha1.PodProtector{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Namespace: namespace, Name: protector}, p))
		observed := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionExpectationBelowPods)
		if observed == nil || observed.Reason != v1alpha1.ReasonObserving {
			return fmt.Sprintf("%s observes no excess: %+v", protector, p.Status)
		}
		observed.LastTransitionTime = metav1.NewTime(observed.LastTransitionTime.Add(-by))
		if err := l.Core.Status().Update(l.Context(), p); err != nil {
			return err.Error()
		}
		return ""
	})
}

// waitForDenials waits until the webhooks deny removals because of a protector.
func waitForDenials(l *fixture, protector string) {
	l.Helper()
	pods := suite.Cells[0].Client.CoreV1().Pods(namespace)
	list, err := pods.List(l.Context(), metav1.ListOptions{LabelSelector: "app=web", Limit: 1})
	l.Must(err)
	heard := 0
	l.Eventually(func() string {
		// The API server alternates roughly between the two webhook replicas.
		err := pods.Delete(l.Context(), list.Items[0].Name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), namespace+"/"+protector) {
			heard = 0
			return "the webhooks have not seen the protector"
		}
		if heard++; heard < 8 {
			return "a webhook may not have seen the protector"
		}
		return ""
	})
}

// deleteFromEtcd deletes an object from the core's etcd without its API server.
func deleteFromEtcd(l *fixture, key string) {
	l.Helper()
	etcd, err := suite.Federation().Cores()[0].(*local.Cluster).DialEtcd()
	l.Must(err)
	defer etcd.Close()
	erased, err := etcd.Delete(l.Context(), "/registry/"+key)
	l.Must(err)
	if erased.Deleted != 1 {
		l.Fatalf("%d objects were deleted from etcd at %s", erased.Deleted, key)
	}
}
