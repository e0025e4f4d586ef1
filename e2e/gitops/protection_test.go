package gitops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A workload, and the manifests of a team that Flux or Argo CD syncs: a protector of all its pods, so that every removal is denied, and a policy
// for new pods.
const (
	web = `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: app}]}
`
	webProtector = `
apiVersion: breakwater.dev/v1alpha1
kind: PodProtector
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  minAvailable: 3
`
	cartProtector = `
apiVersion: breakwater.dev/v1alpha1
kind: PodProtector
metadata: {name: cart, namespace: shop}
spec:
  selector: {matchLabels: {app: cart}}
  minAvailable: 1
`
	poolPolicy = `
apiVersion: breakwater.dev/v1alpha1
kind: PodSchedulingPolicy
metadata: {name: pool, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  tolerations:
  - {key: example.com/pool, operator: Exists}
`
)

// denialProblem returns why Breakwater does not deny the removal of a pod of web, or "" if it does. It uses a dry run.
func (s *Fixture) denialProblem(ctx context.Context) string {
	var pods corev1.PodList
	if err := s.List(ctx, &pods, client.InNamespace("shop"), client.MatchingLabels{"app": "web"}); err != nil {
		return err.Error()
	}
	if len(pods.Items) == 0 {
		return "no pods exist"
	}
	err := s.Delete(ctx, &pods.Items[0], client.DryRunAll)
	if err == nil {
		return "the removal was admitted"
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != 429 || !strings.Contains(err.Error(), "PodProtector shop/web") {
		return fmt.Sprintf("got error %v, want a denial", err)
	}
	return ""
}

// waitForWebhook waits until the API server calls the webhook and the webhook denies a removal.
func (s *Fixture) waitForWebhook(ctx context.Context) error {
	return gitops.WaitUntil(ctx, "the denial of a removal", func() string { return s.denialProblem(ctx) })
}

// expectDenied checks that Breakwater denies the removal of a pod of web.
func expectDenied(t *testing.T) {
	t.Helper()
	if word := fixture.denialProblem(t.Context()); word != "" {
		t.Errorf("want a denial: %s", word)
	}
}

// expectPolicyApplied checks that a new pod of web gets the toleration of the team's policy. It uses a dry run.
func expectPolicyApplied(t *testing.T) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "another", Labels: map[string]string{"app": "web"}}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	noErrors(t, fixture.Create(t.Context(), pod, client.DryRunAll))
	if !slices.ContainsFunc(pod.Spec.Tolerations, func(one corev1.Toleration) bool { return one.Key == "example.com/pool" }) {
		t.Errorf("a new pod has %+v", pod.Spec.Tolerations)
	}
}
