package webhook

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/guard"
)

// Endpoint is where the apiserver of a cell reaches the webhook: by URL, or as a Service of the cell's cluster.
type Endpoint struct {
	// URL is the address without a path, as https://host:port.
	URL string
	// ServiceNamespace, ServiceName and ServicePort name a Service instead.
	ServiceNamespace, ServiceName string
	ServicePort                   int32
	// CABundle is the PEM certificates that sign the webhook's; nil leaves the field out, for an injector.
	CABundle []byte
}

// ConfigurationOptions describe the webhook configuration of one cell.
type ConfigurationOptions struct {
	Name string
	Cell string
	// Namespaces are those of the cell, if it has only some of its cluster.
	Namespaces []string
	Endpoint
	// ExemptNamespaces are never guarded: what a cluster needs to come up, and Breakwater itself.
	ExemptNamespaces []string
	TimeoutSeconds   int32
}

// DefaultExemptNamespaces are those whose pods a cluster, or Breakwater, recovers by.
func DefaultExemptNamespaces() []string {
	return []string{"kube-system", "kube-public", "kube-node-lease", "breakwater-system"}
}

// costless drops, inside the apiserver, what the webhook would allow without a look: deletions of pods that are
// terminating, finished or not scheduled. It is what lets a node finish its work while the webhook is away.
const costless = `request.operation != 'DELETE' || oldObject == null || !(` +
	`has(oldObject.metadata.deletionTimestamp) || ` +
	`!has(oldObject.spec.nodeName) || oldObject.spec.nodeName == '' || ` +
	`(has(oldObject.status) && has(oldObject.status.phase) && oldObject.status.phase in ['Succeeded', 'Failed']))`

// Configuration returns the configuration that makes the apiserver of a cell ask the webhook about every
// removal of a pod. It has no objectSelector: an Eviction has no labels to match.
func Configuration(o ConfigurationOptions) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	client, err := o.clientConfig(o.Cell)
	if err != nil {
		return nil, err
	}
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	noneOnDryRun, namespaced := admissionregistrationv1.SideEffectClassNoneOnDryRun, admissionregistrationv1.NamespacedScope
	timeout := o.TimeoutSeconds
	rule := func(operation admissionregistrationv1.OperationType, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}, Scope: &namespaced,
			},
		}
	}
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: o.ExemptNamespaces},
		{Key: v1alpha1.LabelExempt, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
	}}
	if len(o.Namespaces) > 0 {
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: o.Namespaces})
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration",
		},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "pods.breakwater.dev",
			ClientConfig: client,
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule(admissionregistrationv1.Delete, "pods"), rule(admissionregistrationv1.Create, "pods/eviction"),
			},
			FailurePolicy:           &fail,
			MatchPolicy:             &equivalent,
			SideEffects:             &noneOnDryRun,
			TimeoutSeconds:          &timeout,
			AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector:       selector,
			MatchConditions:         []admissionregistrationv1.MatchCondition{{Name: "costs-availability", Expression: costless}},
		}},
	}, nil
}

func (e Endpoint) clientConfig(cell string) (admissionregistrationv1.WebhookClientConfig, error) {
	path := guard.Path(cell)
	config := admissionregistrationv1.WebhookClientConfig{CABundle: e.CABundle}
	switch {
	case e.URL == "" && e.ServiceName == "":
		return config, errors.New("say where the webhook is, by --url or by --service")
	case e.URL != "" && e.ServiceName != "":
		return config, errors.New("--url and --service exclude each other")
	case e.ServiceName != "":
		config.Service = &admissionregistrationv1.ServiceReference{
			Namespace: e.ServiceNamespace, Name: e.ServiceName, Path: &path, Port: &e.ServicePort,
		}
		return config, nil
	}
	base, err := url.Parse(e.URL)
	if err != nil || base.Scheme != "https" || base.Host == "" {
		return config, fmt.Errorf("--url %q: want https://HOST:PORT", e.URL)
	}
	if strings.Trim(base.Path, "/") != "" || base.RawQuery != "" || base.User != nil {
		return config, fmt.Errorf("--url %q: want no path, query or user: the path follows from --cell", e.URL)
	}
	full := "https://" + base.Host + path
	config.URL = &full
	return config, nil
}
