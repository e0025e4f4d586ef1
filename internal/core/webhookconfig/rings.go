package webhookconfig

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// RingPath returns the path of the sharder for objects of a ring.
func RingPath(ring string) string { return "/rings/" + ring }

// RingWebhooks returns the webhooks that an API server asks about objects of a ring.
func RingWebhooks(ring string, configurations []admissionregistrationv1.MutatingWebhookConfiguration) []Webhook {
	return MutatingWebhooks(configurations, func(path string) bool { return strings.HasSuffix(path, RingPath(ring)) })
}

// SystemNamespaces returns the namespaces of Kubernetes itself.
func SystemNamespaces() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }

// DefaultExemptNamespaces returns the namespaces that the webhooks for removals leave out unless another list is configured: a cluster, or
// Breakwater, needs their pods to recover.
func DefaultExemptNamespaces() []string { return append(SystemNamespaces(), DefaultNamespace) }

// DefaultNamespace is the namespace of Breakwater where none is configured.
const DefaultNamespace = "breakwater-system"

// RingNamespaces returns the selector of a ring's namespaces. Without spec.namespaceSelector it selects all namespaces except those of
// Kubernetes and that of the sharder, which is the namespace of its Service. A selector in the spec applies as it is, so that it can
// include these.
func RingNamespaces(spec *v1alpha1.ClusterRingSpec, sharder *admissionregistrationv1.WebhookClientConfig) *metav1.LabelSelector {
	if spec.NamespaceSelector != nil {
		return spec.NamespaceSelector.LabelSelector()
	}
	own := DefaultNamespace
	if sharder.Service != nil {
		own = sharder.Service.Namespace
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: append(SystemNamespaces(), own),
	}}}
}

// RingWeaknesses returns the requests that webhooks of a ring miss, or keep from being stored. It returns none if they are as the
// sharder creates them.
func RingWeaknesses(ring *v1alpha1.ClusterRing, hooks []Webhook) []string {
	var must []requiredOperation
	add := func(of v1alpha1.GroupResource) {
		for _, operation := range []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update} {
			must = append(must, requiredOperation{operation, of.Group, "*", of.Resource})
		}
	}
	for _, main := range ring.Spec.Resources {
		add(main.GroupResource)
		for _, of := range main.ControlledResources {
			add(of)
		}
	}
	faults := missingOperations(hooks, must)
	for i := range hooks {
		w := &hooks[i]
		if w.FailurePolicy != admissionregistrationv1.Ignore {
			faults = append(faults, w.describe()+" has failurePolicy "+string(w.FailurePolicy)+", which blocks writes of objects while the sharder is unreachable")
		}
		if metav1.FormatLabelSelector(w.NamespaceSelector) != metav1.FormatLabelSelector(RingNamespaces(&ring.Spec, &w.Client)) {
			faults = append(faults, w.describe()+" selects other namespaces than the ring")
		}
		if unassigned := "!" + v1alpha1.LabelShard(ring.Name); metav1.FormatLabelSelector(w.ObjectSelector) != unassigned {
			faults = append(faults, w.describe()+" does not select all objects without a shard")
		}
		faults = append(faults, w.foreignConditions(nil)...)
	}
	return faults
}
