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

// teardowns play what users do on purpose, with no other step than is documented. How long each takes is in the report; the goal is 10 s
// on a machine that does nothing else.
func (s *stage) teardowns(r *report) {
	s.Helper()
	for name, deliberately := range map[string]func() time.Duration{
		"one-deployment":                    s.deleteOne,
		"autoscaler-from-20-to-12":          s.autoscale,
		"helm-uninstall-of-one-application": s.uninstallOne,
		"preview-environment":               s.deletePreview,
	} {
		took := deliberately()
		r.Teardowns[name] = took.Seconds()
		s.Logf("%s: %s", name, took.Round(100*time.Millisecond))
	}
	r.SingleTeardownSeconds = r.Teardowns["one-deployment"]
}

// extra makes a service beside the others, and waits until its pods are counted.
func (s *stage) extra(name string, pods int32) service {
	s.Helper()
	of := service{s.prefix, name}
	d := s.deployment(s.sites[0], of)
	d.Labels, d.Spec.Replicas = map[string]string{v1alpha1.LabelProtect: "true"}, &pods
	s.apply(s.sites[0], d)
	s.awaitCounted(of, pods)
	return of
}

func (s *stage) awaitCounted(of service, pods int32) {
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

// gone waits until a service has neither a protector nor pods.
func (s *stage) gone(of service) {
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

func (s *stage) deleteOne() time.Duration {
	s.Helper()
	of, began := s.extra("single", replicas), time.Now()
	s.kubectl("delete", "deployment", of.name, "--namespace", of.namespace)
	s.gone(of)
	return time.Since(began)
}

func (s *stage) autoscale() time.Duration {
	s.Helper()
	of, began := s.extra("scaled", 20), time.Now()
	s.kubectl("scale", "deployment", of.name, "--namespace", of.namespace, "--replicas=12")
	s.awaitCounted(of, 12)
	return time.Since(began)
}

func (s *stage) uninstallOne() time.Duration {
	s.Helper()
	of := service{s.prefix, "service-9"}
	s.helm("install", "one", s.chart("one", []service{of}))
	s.awaitCounted(of, replicas)
	began := time.Now()
	s.helm("uninstall", "one")
	s.gone(of)
	return time.Since(began)
}

// deletePreview deletes a namespace whose template confirms the release of its floors beforehand.
func (s *stage) deletePreview() time.Duration {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.prefix + "-preview", Annotations: map[string]string{v1alpha1.AnnotationConfirmRelease: "true"},
	}}
	s.Must(s.Core.Create(s.Context(), namespace))
	var services []service
	for i := range perNamespace {
		of := service{namespace.Name, fmt.Sprintf("service-%d", i)}
		services = append(services, of)
		s.apply(s.sites[0], s.deployment(s.sites[0], of))
	}
	for _, of := range services {
		s.awaitCounted(of, replicas)
	}
	began := time.Now()
	s.kubectl("delete", "namespace", namespace.Name, "--wait=false")
	s.awaitNoNamespace(namespace)
	return time.Since(began)
}

func (s *stage) awaitNoNamespace(namespace *corev1.Namespace) {
	s.Helper()
	s.Eventually(func() string {
		if err := s.Core.Get(s.Context(), client.ObjectKeyFromObject(namespace), namespace); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("namespace %s: %v %+v", namespace.Name, err, namespace.Status.Conditions)
		}
		return ""
	})
}

// deleteNamespace is an accident, and then a deliberate teardown that is confirmed.
func (s *stage) deleteNamespace(r *report) accident {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.services[0].namespace}}
	o := s.watchPods()
	s.kubectl("delete", "namespace", namespace.Name, "--wait=false")
	s.awaitAll(func(p *v1alpha1.PodProtector) string {
		if p.Namespace != namespace.Name {
			return ""
		}
		return pending(v1alpha1.ReasonCascade)(p)
	})
	s.attack()
	result := accident{FloorsHeld: s.floorsHeld()}
	result.PodsBelowFloor, result.Removed = o.conclude("namespace-deleted")

	began := time.Now()
	s.kubectl("annotate", "namespace", namespace.Name, v1alpha1.AnnotationConfirmRelease+"=true")
	s.awaitNoNamespace(namespace)
	took := time.Since(began)
	r.Teardowns["namespace-that-is-confirmed"] = took.Seconds()
	s.Logf("a namespace that is confirmed: %s", took.Round(100*time.Millisecond))
	return result
}
