package realworkloads_test

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

// operator creates and changes objects of one cluster in the role of the operators of the workloads.
type operator struct {
	*e2e.Fixture
	client.Client
}

func newOperator(l *e2e.Fixture, cluster federation.Cluster) operator {
	l.Helper()
	c, err := install.Client(cluster)
	l.Must(err)
	return operator{l, c}
}

// create creates objects with the UIDs of their owners, and writes their status.
func (o operator) create(objects ...*unstructured.Unstructured) {
	o.Helper()
	for _, object := range objects {
		namespaced, err := o.IsObjectNamespaced(object)
		o.Must(err)
		if namespaced {
			object.SetNamespace(o.Namespace)
		}
		o.setOwnerUIDs(object)
		status, hasStatus := object.Object["status"]
		// The API server forbids pods until a new namespace has its ServiceAccount.
		o.Eventually(func() string { return e2e.ErrorText(o.Create(o.Context(), object.DeepCopy())) })
		if hasStatus {
			raw, err := json.Marshal(map[string]any{"status": status})
			o.Must(err)
			o.patch(patch{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName(), Subresource: "status", Patch: raw})
		}
	}
}

// setOwnerUIDs waits until the owners of an object exist: a controller may have to create them.
func (o operator) setOwnerUIDs(object *unstructured.Unstructured) {
	o.Helper()
	owners := object.GetOwnerReferences()
	for i := range owners {
		owner := o.reference(owners[i].APIVersion, owners[i].Kind, owners[i].Name)
		o.Eventually(func() string { return e2e.ErrorText(o.Get(o.Context(), client.ObjectKeyFromObject(owner), owner)) })
		owners[i].UID = owner.GetUID()
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
}

// reference returns an object without content.
func (o operator) reference(apiVersion, kind, name string) *unstructured.Unstructured {
	o.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetName(name)
	namespaced, err := o.IsObjectNamespaced(object)
	o.Must(err)
	if namespaced {
		object.SetNamespace(o.Namespace)
	}
	return object
}

func (o operator) patch(p patch) {
	o.Helper()
	object, content := o.reference(p.APIVersion, p.Kind, p.Name), client.RawPatch(types.MergePatchType, p.Patch)
	if p.Subresource == "" {
		o.Must(o.Patch(o.Context(), object, content))
		return
	}
	o.Must(o.SubResource(p.Subresource).Patch(o.Context(), object, content))
}

// pods returns the pods that a selector selects and that are not terminating.
func (o operator) pods(selector string) []corev1.Pod {
	o.Helper()
	list := &corev1.PodList{}
	parsed, err := metav1.ParseToLabelSelector(selector)
	o.Must(err)
	matches, err := metav1.LabelSelectorAsSelector(parsed)
	o.Must(err)
	o.Must(o.List(o.Context(), list, client.InNamespace(o.Namespace), client.MatchingLabelsSelector{Selector: matches}))
	var existing []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			existing = append(existing, pod)
		}
	}
	return existing
}

// waitForPods waits until a selector selects exactly the given number of pods, and all of them are ready.
func (o operator) waitForPods(selector string, number int) {
	o.Helper()
	o.Eventually(func() string { return o.podsProblem(selector, number) })
}

// podsProblem returns why a selector does not select exactly the given number of ready pods, or "" if it does.
func (o operator) podsProblem(selector string, number int) string {
	o.Helper()
	pods := o.pods(selector)
	ready := 0
	for i := range pods {
		if isReady(&pods[i]) {
			ready++
		}
	}
	if len(pods) == number && ready == number {
		return ""
	}
	return fmt.Sprintf("%s selects %d pods, %d of them ready, want %d ready pods", selector, len(pods), ready, number)
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
