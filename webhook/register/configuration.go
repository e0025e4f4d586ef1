// Package register makes the webhook configurations with which API servers call Breakwater: as objects, and as the static files of a
// kube-apiserver.
package register

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// Endpoint is the address at which the API server of a cell reaches the webhook: a URL, or a Service of the cell's
// cluster.
type Endpoint struct {
	// URL is the address without a path, in the form https://host:port.
	URL string
	// ServiceNamespace, ServiceName and ServicePort name a Service instead.
	ServiceNamespace, ServiceName string
	ServicePort                   int32
	// CABundle is the PEM certificates of the CAs that sign the webhook's certificate. Nil omits the field, so that an
	// injector can set it.
	CABundle []byte
	// CallerKey is the key from which the caller token in the path is computed. Nil omits the token.
	CallerKey []byte
}

// Options describe the webhook configuration of one cell, or of one core.
type Options struct {
	Name string
	// Release is the Helm release of the chart that owns the configuration, as NAMESPACE/NAME. It is empty without the chart.
	Release    string
	Cell, Core string
	// Namespaces are the namespaces of the cell, if the cell has only some namespaces of its cluster.
	Namespaces []string
	Endpoint
	// ExemptNamespaces are never guarded. They hold the pods that a cluster needs to start, and Breakwater itself.
	ExemptNamespaces []string
	// Scope of removals; empty means ScopeAll. Other configurations have no scope.
	Scope          webhookconfig.Scope
	TimeoutSeconds int32
	// FailurePolicy applies to pods and templates while the webhook is unreachable. Empty means Ignore. It does not
	// affect removals, which are always refused then.
	FailurePolicy admissionregistrationv1.FailurePolicyType
}

// Label gives an object of a configuration the labels by which users find it, and those by which its release owns it: Helm then changes the object
// in an upgrade, and deletes it when the release is uninstalled.
func (o Options) Label(object metav1.Object) {
	labels := map[string]string{"app.kubernetes.io/name": "breakwater", "app.kubernetes.io/part-of": "breakwater"}
	if namespace, name, ok := strings.Cut(o.Release, "/"); ok {
		labels["app.kubernetes.io/instance"], labels["app.kubernetes.io/managed-by"] = name, "Helm"
		object.SetAnnotations(map[string]string{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace})
	}
	object.SetLabels(labels)
}

// Configuration returns the configuration that makes the API server of a cell send every removal of a pod to the
// webhook. It has no objectSelector, because an Eviction has no labels to match.
func Configuration(o Options) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	client, err := o.clientConfig(webhookconfig.RemovalPath(o.Cell))
	if err != nil {
		return nil, err
	}
	hook := o.webhook("pods.breakwater.dev", client, admissionregistrationv1.Fail,
		rule(admissionregistrationv1.Delete, "", "v1", "pods"), rule(admissionregistrationv1.Create, "", "v1", "pods/eviction"),
		rule(admissionregistrationv1.Update, "", "v1", "pods"), rule(admissionregistrationv1.Update, "", "v1", "pods/resize"),
		rule(admissionregistrationv1.Update, "", "v1", "pods/status"))
	hook.NamespaceSelector = o.namespaceSelector()
	if o.Scope == webhookconfig.ScopeProtected {
		hook.NamespaceSelector.MatchExpressions = append(hook.NamespaceSelector.MatchExpressions, webhookconfig.ProtectedRequirement())
	}
	hook.MatchConditions = webhookconfig.RemovalConditions()
	return o.configuration(hook), nil
}

// CoreConfiguration returns the configuration that makes the API server of a core send to the webhook each write of a
// protector that names a workload. While no webhook replica is reachable the API server stores the protector anyway: at
// worst it refuses too much.
func CoreConfiguration(o Options) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	client, err := o.clientConfig(webhookconfig.CorePath(o.Core))
	if err != nil {
		return nil, err
	}
	group, version := v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version
	hook := o.webhook("podprotectors.breakwater.dev", client, admissionregistrationv1.Ignore,
		rule(admissionregistrationv1.Create, group, version, "podprotectors"), rule(admissionregistrationv1.Update, group, version, "podprotectors"))
	hook.MatchConditions = webhookconfig.ProtectorConditions()
	return o.configuration(hook), nil
}

// namespaceSelector selects the namespaces of the cell that are not exempt.
func (o Options) namespaceSelector() *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: o.ExemptNamespaces},
		{Key: v1alpha1.LabelExempt, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
	}}
	if len(o.Namespaces) > 0 {
		selector.MatchExpressions = append(selector.MatchExpressions,
			metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: o.Namespaces})
	}
	return selector
}

func rule(operation admissionregistrationv1.OperationType, group, version, resource string) admissionregistrationv1.RuleWithOperations {
	namespaced := admissionregistrationv1.NamespacedScope
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: &namespaced,
		},
	}
}

func (o Options) webhook(
	name string, client admissionregistrationv1.WebhookClientConfig, onFailure admissionregistrationv1.FailurePolicyType,
	rules ...admissionregistrationv1.RuleWithOperations,
) admissionregistrationv1.ValidatingWebhook {
	equivalent, noneOnDryRun := admissionregistrationv1.Equivalent, admissionregistrationv1.SideEffectClassNoneOnDryRun
	timeout := o.TimeoutSeconds
	return admissionregistrationv1.ValidatingWebhook{
		Name: name, ClientConfig: client, Rules: rules, FailurePolicy: &onFailure, MatchPolicy: &equivalent,
		SideEffects: &noneOnDryRun, TimeoutSeconds: &timeout, AdmissionReviewVersions: []string{"v1"},
	}
}

func (o Options) configuration(
	hook admissionregistrationv1.ValidatingWebhook,
) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration",
		},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{hook},
	}
}

func (e Endpoint) clientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: e.CABundle}
	if len(e.CallerKey) > 0 {
		path = webhookconfig.CallerPath(webhookconfig.CallerToken(e.CallerKey, webhookconfig.CallerScope(path)), path)
	}
	switch {
	case e.URL == "" && e.ServiceName == "":
		return config, errors.New("no address of the webhook: set --url or --service")
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
		return config, fmt.Errorf("--url %q: want no path, query or user: --cell determines the path", e.URL)
	}
	full := "https://" + base.Host + path
	config.URL = &full
	return config, nil
}
