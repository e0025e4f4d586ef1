package living_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
)

// farBehind is after how many refusals a ReplicaSet tries again by itself no sooner than after two seconds.
const farBehind = 9

// A ReplicaSet that is refused tries again after 5 ms, 10 ms, and so on, to a quarter of an hour.
func TestAControllerIsWokenWhenBudgetReturns(t *testing.T) {
	claim(t, "a scale-down that was refused goes on when there is budget, since its ReplicaSet was touched, and its Deployment was not", func(l *lab) {
		deploy(l, here(l), "here", 4)
		deploy(l, elsewhere(l), "elsewhere", 4)
		k := keep(l, 8, 8)
		scale(l, here(l), "here", 2)
		awaitRefusals(l, here(l), "ReplicaSet", "FailedDelete", 2*farBehind)
		k.untouched()
		before := deployment(l, here(l), "here")

		k.lower(6)
		awaitPods(l, 2)
		sets, err := here(l).Client.AppsV1().ReplicaSets(l.Namespace).List(l.Context(), metav1.ListOptions{})
		l.Must(err)
		if len(sets.Items) != 1 || sets.Items[0].Annotations[v1alpha1.AnnotationNudgedAt] == "" {
			l.Errorf("nobody touched the ReplicaSet, or there is another: %+v", sets.Items)
		}
		if after := deployment(l, here(l), "here"); after.Generation != before.Generation {
			l.Errorf("the Deployment was changed, from generation %d to %d", before.Generation, after.Generation)
		}
	})
}

func TestAHorizontalPodAutoscaler(t *testing.T) {
	claim(t, "an HPA scales down and is told of no refusal, its ReplicaSet is, and the pods go when there is budget", func(l *lab) {
		serveMetric(l, 2)
		deploy(l, here(l), "here", 4)
		deploy(l, elsewhere(l), "elsewhere", 4)
		k := keep(l, 8, 8)
		scalers := here(l).Client.AutoscalingV2().HorizontalPodAutoscalers(l.Namespace)
		_, err := scalers.Create(l.Context(), loadScaler(), metav1.CreateOptions{})
		l.Must(err)
		awaitRefusal(l, here(l), "ReplicaSet", "FailedDelete")
		scaler, err := scalers.Get(l.Context(), "here", metav1.GetOptions{})
		l.Must(err)
		for _, c := range scaler.Status.Conditions {
			if c.Type == autoscalingv2.AbleToScale && c.Status != corev1.ConditionTrue {
				l.Errorf("the HPA was told of something: %+v", c)
			}
		}
		if got := *deployment(l, here(l), "here").Spec.Replicas; got != 2 {
			l.Errorf("the HPA has asked for %d replicas, want 2", got)
		}
		k.untouched()

		k.lower(6)
		awaitPods(l, 2)
	})
}

// awaitPods waits until so many pods are left in the cell here.
func awaitPods(l *lab, want int) {
	l.Helper()
	l.Eventually(func() string {
		if left := len(l.Pods(here(l))); left != want {
			return fmt.Sprintf("%d pods are left, want %d", left, want)
		}
		return ""
	})
}

// loadScaler wants a pod for each unit of load.
func loadScaler() *autoscalingv2.HorizontalPodAutoscaler {
	one, atOnce, least := resource.MustParse("1"), int32(0), int32(1)
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	h.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "here"},
		MinReplicas:    &least, MaxReplicas: 10,
		Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{
			ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &atOnce},
		},
		Metrics: []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ExternalMetricSourceType,
			External: &autoscalingv2.ExternalMetricSource{
				Metric: autoscalingv2.MetricIdentifier{Name: "load"},
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &one},
			},
		}},
	}
	return h
}

const metricsVersion = "v1beta1.external.metrics.k8s.io"

// serveMetric is a metrics API like those that HPAs ask, which the apiserver of the cell here leads to until the test ends.
func serveMetric(l *lab, load int) {
	l.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind, answer := "ExternalMetricValueList", map[string]any{}
		switch r.URL.Path {
		case "/apis/external.metrics.k8s.io/v1beta1":
			kind, answer = "APIResourceList", map[string]any{"groupVersion": "external.metrics.k8s.io/v1beta1", "resources": []any{}}
			answer["apiVersion"] = "v1"
		case "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + l.Namespace + "/load":
			answer["apiVersion"], answer["metadata"] = "external.metrics.k8s.io/v1beta1", map[string]any{}
			answer["items"] = []any{map[string]any{"metricName": "load", "timestamp": metav1.Now(), "value": fmt.Sprint(load)}}
		default:
			http.NotFound(w, r)
			return
		}
		answer["kind"] = kind
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}))
	l.Cleanup(server.Close)
	leadTo(l, server.Listener.Addr().(*net.TCPAddr).Port)
}

// leadTo makes the apiserver ask a port of the loopback interface about external metrics. It goes before the server does: while it
// leads nowhere, nobody can find out which kinds there are, and no namespace is deleted.
func leadTo(l *lab, port int) {
	l.Helper()
	_, err := here(l).Client.CoreV1().Services(l.Namespace).Create(l.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "metrics"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	l.Must(err)
	config := l.Federation().Workers()[0].RESTConfig()
	dynamically, err := dynamic.NewForConfig(config)
	l.Must(err)
	services := dynamically.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
	_, err = services.Create(l.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": metricsVersion},
		"spec": map[string]any{
			"group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"namespace": l.Namespace, "name": "metrics", "port": int64(port)},
		},
	}}, metav1.CreateOptions{})
	l.Must(err)
	l.Cleanup(func() { _ = services.Delete(context.Background(), metricsVersion, metav1.DeleteOptions{}) })
	l.Eventually(func() string {
		_, err := here(l).Client.Discovery().ServerResourcesForGroupVersion("external.metrics.k8s.io/v1beta1")
		return e2e.Word(err)
	})
}
