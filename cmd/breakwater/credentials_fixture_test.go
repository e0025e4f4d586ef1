package main

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// createCredentials writes a kubeconfig with a token of a new ServiceAccount to a file.
func createCredentials(t *testing.T, file, namespace, account string) *rest.Config {
	t.Helper()
	config := testplane.AsServiceAccount(t, testplane.Config(t), namespace, account, "cluster-admin")
	if err := os.WriteFile(file, testplane.KubeconfigOf(t, config), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// revokeCredentials deletes the ServiceAccount, and waits until the API server rejects its credentials.
func revokeCredentials(t *testing.T, config *rest.Config, namespace, account string) {
	t.Helper()
	accounts := kubernetes.NewForConfigOrDie(testplane.Config(t)).CoreV1().ServiceAccounts(namespace)
	if err := accounts.Delete(t.Context(), account, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "credentials that are worth nothing", func() string {
		_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if !apierrors.IsUnauthorized(err) {
			return "they still are"
		}
		return ""
	})
}

// removeProtectedPod removes a protected pod, so that the webhook must write to the core.
func removeProtectedPod(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	app := map[string]string{"app": "guarded"}
	protector := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded"}}
	protector.Spec.Selector, protector.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: app}, v1alpha1.Pods(1)
	if err := c.Create(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	protector.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: namespace, Aggregation: v1alpha1.Aggregation{
		TotalReplicas: 3, AvailableReplicas: 3, CountedReplicas: 3, ReadyReplicas: 3,
		CountedSpec: quota.CountedSpec(&protector.Spec), SnapshotVersion: "1", Epoch: 1, LastEventTime: metav1.NowMicro(),
	}}}
	quota.Summarize(protector)
	if err := c.Status().Update(t.Context(), protector); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "guarded", Labels: app}}
	pod.Spec = corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "web", Image: "web"}}}
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	// The webhook reserves only removals of available pods.
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the removal of a protected pod", func() string {
		if err := c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		return ""
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(protector), protector); err != nil {
		t.Fatal(err)
	}
	if reserved := quota.BudgetOf(protector).Reserved; reserved != 1 {
		t.Errorf("%d removals are reserved, want 1", reserved)
	}
}
