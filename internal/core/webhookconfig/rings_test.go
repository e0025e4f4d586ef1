package webhookconfig_test

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func TestRingNamespaces(t *testing.T) {
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "platform", Name: "sharder"}}
	address := admissionregistrationv1.WebhookClientConfig{}
	byName := func(operator metav1.LabelSelectorOperator, names ...string) *v1alpha1.PodSelector {
		return &v1alpha1.PodSelector{MatchExpressions: []v1alpha1.PodSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: operator, Values: names}}}
	}
	for claim, test := range map[string]struct {
		selector *v1alpha1.PodSelector
		sharder  admissionregistrationv1.WebhookClientConfig
		in, out  []string
	}{
		"without a selector, the ring excludes Kubernetes and the namespace of the sharder": {nil, service,
			[]string{"shop", "default", "breakwater-system"}, []string{"kube-system", "kube-public", "kube-node-lease", "platform"}},
		"without a selector and without a Service, it excludes the default namespace of Breakwater": {nil, address,
			[]string{"shop", "platform"}, []string{"kube-system", "breakwater-system"}},
		"an empty selector includes all namespaces": {&v1alpha1.PodSelector{}, service,
			[]string{"shop", "kube-system", "kube-public", "kube-node-lease", "platform"}, nil},
		"a selector that names these namespaces includes them": {byName(metav1.LabelSelectorOpIn, "kube-system", "platform"), service,
			[]string{"kube-system", "platform"}, []string{"shop"}},
		"a selector that excludes another namespace excludes only that": {byName(metav1.LabelSelectorOpNotIn, "shop"), service,
			[]string{"kube-system", "platform"}, []string{"shop"}},
		"a selector by a label includes a namespace of Kubernetes that has the label": {&v1alpha1.PodSelector{MatchLabels: map[string]string{"sharded": "kube-system"}},
			service, []string{"kube-system"}, []string{"shop", "platform"}},
	} {
		t.Run(claim, func(t *testing.T) {
			selector, err := metav1.LabelSelectorAsSelector(webhookconfig.RingNamespaces(&v1alpha1.ClusterRingSpec{NamespaceSelector: test.selector}, &test.sharder))
			if err != nil {
				t.Fatal(err)
			}
			for want, names := range map[bool][]string{true: test.in, false: test.out} {
				for _, name := range names {
					if selector.Matches(labels.Set{corev1.LabelMetadataName: name, "sharded": name}) != want {
						t.Errorf("RingNamespaces() = %s, includes namespace %s = %t, want %t", selector, name, !want, want)
					}
				}
			}
		})
	}
}
