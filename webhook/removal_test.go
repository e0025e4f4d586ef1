package webhook_test

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// removalMethod is a way to request the removal of a pod from an API server.
type removalMethod func(l *fixture, pod *corev1.Pod) error

// removalMethods are the ways that remove a pod, by name.
func removalMethods() map[string]removalMethod {
	return map[string]removalMethod{"deletion": deletion, "eviction": eviction}
}

// dryRuns are the ways to request a dry run of the removal.
func dryRuns() map[string]removalMethod {
	return map[string]removalMethod{
		"deletion with dryRun": func(l *fixture, pod *corev1.Pod) error {
			return l.client.Delete(l.Context(), pod.DeepCopy(), client.DryRunAll)
		},
		"eviction with dryRun": func(l *fixture, pod *corev1.Pod) error {
			return evict(l, pod, metav1.DeleteOptions{}, client.DryRunAll)
		},
		"eviction with dryRun in its deleteOptions": func(l *fixture, pod *corev1.Pod) error {
			return evict(l, pod, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		},
	}
}

func deletion(l *fixture, pod *corev1.Pod) error {
	return l.client.Delete(l.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0))
}

func eviction(l *fixture, pod *corev1.Pod) error {
	now := int64(0)
	return evict(l, pod, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

func evict(l *fixture, pod *corev1.Pod, how metav1.DeleteOptions, options ...client.SubResourceCreateOption) error {
	return l.client.SubResource("eviction").Create(l.Context(), pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, DeleteOptions: &how,
	}, options...)
}

// removeAll requests the removal of all pods at once. It waits for all answers, and returns the errors in the order of
// the pods.
func (l *fixture) removeAll(remove removalMethod, pods []*corev1.Pod) []error {
	answers := make([]error, len(pods))
	var asking sync.WaitGroup
	for i, pod := range pods {
		asking.Go(func() { answers[i] = remove(l, pod) })
	}
	asking.Wait()
	return answers
}

// admitted counts the admitted removals; all others must have been refused with 429.
func (l *fixture) admitted(answers []error) int {
	l.Helper()
	admitted := 0
	for _, err := range answers {
		switch {
		case err == nil:
			admitted++
		case !apierrors.IsTooManyRequests(err):
			l.Errorf("a removal ended in %v, want success or 429", err)
		}
	}
	return admitted
}

func asStatus(err error, status *apierrors.APIStatus) bool { return errors.As(err, status) }
