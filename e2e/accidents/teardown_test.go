package accidents_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// measureTeardowns measures deletions and reductions that users make on purpose, with only the documented steps. The report contains the
// time that each takes. The goal is 10 s on an otherwise idle machine.
func (s *fixture) measureTeardowns(r *report) {
	s.Helper()
	for name, deliberately := range map[string]func() time.Duration{
		"one-deployment":                    s.timeDelete,
		"autoscaler-from-20-to-12":          s.timeAutoscaling,
		"helm-uninstall-of-one-application": s.timeUninstall,
		"preview-environment":               s.timePreviewDeletion,
	} {
		took := deliberately()
		r.Teardowns[name] = took.Seconds()
		s.Logf("%s: %s", name, took.Round(100*time.Millisecond))
	}
	r.SingleTeardownSeconds = r.Teardowns["one-deployment"]
}

// createExtraService creates an additional service, and waits until its pods are counted.
func (s *fixture) createExtraService(name string, pods int32) service {
	s.Helper()
	of := service{s.prefix, name}
	d := s.newDeployment(s.clusters[0], of)
	d.Labels, d.Spec.Replicas = map[string]string{v1alpha1.LabelProtect: "true"}, &pods
	s.applyDeployment(s.clusters[0], d)
	s.waitForCounted(of, pods)
	return of
}

func (s *fixture) waitForCounted(of service, pods int32) {
	s.Helper()
	s.Eventually(func() string {
		p := &v1alpha1.PodProtector{}
		if err := s.Core.Get(s.Context(), of.protector(), p); err != nil {
			return err.Error()
		}
		if p.Status.Summary.Available != pods || p.Spec.MinAvailable.IntValue() != int(pods)-1 {
			return fmt.Sprintf("%v has %+v and floor %s, want %d pods", of, p.Status.Summary, p.Spec.MinAvailable, pods)
		}
		return ""
	})
}

// waitForRemoved waits until a service has neither a protector nor pods.
func (s *fixture) waitForRemoved(of service) {
	s.Helper()
	s.Eventually(func() string {
		p := &v1alpha1.PodProtector{}
		if err := s.Core.Get(s.Context(), of.protector(), p); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the protector of %v: %v %+v", of, err, p.Status.Conditions)
		}
		pods := &corev1.PodList{}
		s.Must(s.Core.List(s.Context(), pods, client.InNamespace(of.namespace), client.MatchingLabels{"app": of.name}))
		if len(pods.Items) > 0 {
			return fmt.Sprintf("%v has %d pods", of, len(pods.Items))
		}
		return ""
	})
}

func (s *fixture) timeDelete() time.Duration {
	s.Helper()
	of, began := s.createExtraService("single", replicas), time.Now()
	s.runKubectl("delete", "deployment", of.name, "--namespace", of.namespace)
	s.waitForRemoved(of)
	return time.Since(began)
}

func (s *fixture) timeAutoscaling() time.Duration {
	s.Helper()
	of, began := s.createExtraService("scaled", 20), time.Now()
	s.runKubectl("scale", "deployment", of.name, "--namespace", of.namespace, "--replicas=12")
	s.waitForCounted(of, 12)
	return time.Since(began)
}

func (s *fixture) timeUninstall() time.Duration {
	s.Helper()
	of := service{s.prefix, "service-9"}
	s.runHelm("install", "one", s.writeChart("one", []service{of}))
	s.waitForCounted(of, replicas)
	began := time.Now()
	s.runHelm("uninstall", "one")
	s.waitForRemoved(of)
	return time.Since(began)
}

// timePreviewDeletion measures the deletion of a namespace whose template already confirms the release of its floors.
func (s *fixture) timePreviewDeletion() time.Duration {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.prefix + "-preview", Annotations: map[string]string{v1alpha1.AnnotationConfirmRelease: "true"},
	}}
	s.Must(s.Core.Create(s.Context(), namespace))
	var services []service
	for i := range perNamespace {
		of := service{namespace.Name, fmt.Sprintf("service-%d", i)}
		services = append(services, of)
		s.applyDeployment(s.clusters[0], s.newDeployment(s.clusters[0], of))
	}
	for _, of := range services {
		s.waitForCounted(of, replicas)
	}
	began := time.Now()
	s.runKubectl("delete", "namespace", namespace.Name, "--wait=false")
	s.waitForNamespaceDeleted(namespace)
	return time.Since(began)
}

func (s *fixture) waitForNamespaceDeleted(namespace *corev1.Namespace) {
	s.Helper()
	s.Eventually(func() string {
		if err := s.Core.Get(s.Context(), client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("namespace %s: %v %+v", namespace.Name, err, namespace.Status.Conditions)
		}
		return ""
	})
}

// deleteNamespace deletes a namespace by accident and judges the result. Then it confirms the release and measures the teardown.
func (s *fixture) deleteNamespace(r *report) accident {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.services[0].namespace}}
	o := s.watchPods()
	s.runKubectl("delete", "namespace", namespace.Name, "--wait=false")
	s.waitForAllProtectors(func(p *v1alpha1.PodProtector) string {
		if p.Namespace != namespace.Name {
			return ""
		}
		return pending(v1alpha1.ReasonCascade)(p)
	})
	s.removeAllPods()
	result := accident{FloorsHeld: s.floorsHeld()}
	result.PodsBelowFloor, result.Removed = o.judgeSince("namespace-deleted")

	began := time.Now()
	s.runKubectl("annotate", "namespace", namespace.Name, v1alpha1.AnnotationConfirmRelease+"=true")
	s.waitForNamespaceDeleted(namespace)
	took := time.Since(began)
	r.Teardowns["namespace-that-is-confirmed"] = took.Seconds()
	s.Logf("deletion of a confirmed namespace: %s", took.Round(100*time.Millisecond))
	return result
}
