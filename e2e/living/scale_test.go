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

// backoffDenials is the number of denials after which a ReplicaSet waits five seconds before it retries by itself.
const backoffDenials = 10

// The ReplicaSet controller retries after 5 ms, 10 ms, and so on, up to 15 minutes.
func TestControllerIsWokenWhenBudgetReturns(t *testing.T) {
	claim(t, "a denied scale-down continues when budget exists, because Breakwater annotates the ReplicaSet, not the Deployment", func(l *fixture) {
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 4)
		k := startFloorWatch(l, 8, 8)
		scaleDeployment(l, here(l), "here", 2)
		waitForDenialEvents(l, here(l), "ReplicaSet", "FailedDelete", 2*backoffDenials)
		k.expectNoRemoval()
		before := getDeployment(l, here(l), "here")

		k.lowerFloor(6)
		waitForPods(l, 2)
		sets, err := here(l).Client.AppsV1().ReplicaSets(l.Namespace).List(l.Context(), metav1.ListOptions{})
		l.Must(err)
		if len(sets.Items) != 1 || sets.Items[0].Annotations[v1alpha1.AnnotationNudgedAt] == "" {
			l.Errorf("the ReplicaSet was not annotated, or was replaced: %+v", sets.Items)
		}
		if after := getDeployment(l, here(l), "here"); after.Generation != before.Generation {
			l.Errorf("the Deployment was changed, from generation %d to %d", before.Generation, after.Generation)
		}
	})
}

func TestHorizontalPodAutoscaler(t *testing.T) {
	claim(t, "an HPA scales down without an error, its ReplicaSet is denied, and the pods are removed when budget exists", func(l *fixture) {
		serveExternalMetric(l, 2)
		createDeployment(l, here(l), "here", 4)
		createDeployment(l, elsewhere(l), "elsewhere", 4)
		k := startFloorWatch(l, 8, 8)
		scalers := here(l).Client.AutoscalingV2().HorizontalPodAutoscalers(l.Namespace)
		_, err := scalers.Create(l.Context(), newLoadScaler(), metav1.CreateOptions{})
		l.Must(err)
		waitForDenialEvent(l, here(l), "ReplicaSet", "FailedDelete")
		scaler, err := scalers.Get(l.Context(), "here", metav1.GetOptions{})
		l.Must(err)
		for _, c := range scaler.Status.Conditions {
			if c.Type == autoscalingv2.AbleToScale && c.Status != corev1.ConditionTrue {
				l.Errorf("the HPA reports an error: %+v", c)
			}
		}
		if got := *getDeployment(l, here(l), "here").Spec.Replicas; got != 2 {
			l.Errorf("the HPA requested %d replicas, want 2", got)
		}
		k.expectNoRemoval()

		k.lowerFloor(6)
		waitForPods(l, 2)
	})
}

// waitForPods waits until exactly the wanted number of pods exists in the cell here.
func waitForPods(l *fixture, want int) {
	l.Helper()
	l.Eventually(func() string {
		if left := len(l.ExistingPods(here(l))); left != want {
			return fmt.Sprintf("%d pods remain, want %d", left, want)
		}
		return ""
	})
}

// newLoadScaler returns an HPA that requests one pod for each unit of load.
func newLoadScaler() *autoscalingv2.HorizontalPodAutoscaler {
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

// serveExternalMetric serves the metric load as an external metrics API, and registers it with the API server of the cell here until the test
// ends.
func serveExternalMetric(l *fixture, load int) {
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
	registerMetricsAPI(l, server.Listener.Addr().(*net.TCPAddr).Port)
}

// registerMetricsAPI makes the API server forward external metrics requests to a port of the loopback interface. The cleanup removes the
// APIService before the server stops: while it has no backend, discovery fails, and the namespace controller deletes no namespace.
func registerMetricsAPI(l *fixture, port int) {
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
		return e2e.ErrorText(err)
	})
}
