package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	admissionregistrationclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// checkCluster connects to the cell's cluster. It returns the conditions on whether that is reachable, whether it calls the webhook, and whether a
// replica of the webhook is ready.
func (r *Reconciler) checkCluster(ctx context.Context, cell *v1alpha1.Cell) (connected, guarded, available metav1.Condition) {
	connected = metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionUnknown}
	if cell.Spec.KubeconfigSecretRef == nil && r.Cells[cell.Name] == nil {
		connected.Reason = v1alpha1.ReasonNoKubeconfig
		connected.Message = "The Cell names no kubeconfig, so the topology controller does not check whether its cluster is reachable."
		guarded = unknown(v1alpha1.ConditionGuarded, v1alpha1.ReasonNoKubeconfig,
			"The Cell names no kubeconfig, so the topology controller does not check whether its cluster calls the webhook.")
		return connected, guarded, unknown(v1alpha1.ConditionWebhookAvailable, v1alpha1.ReasonNoKubeconfig,
			"The Cell names no kubeconfig, so the topology controller does not check whether the webhook runs.")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config, cluster, err := r.connect(ctx, cell)
	if err != nil {
		connected.Status, connected.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnreachable
		if problem := (*clusters.Problem)(nil); errors.As(err, &problem) {
			connected.Reason = problem.Reason
		}
		connected.Message = clusters.Sentence(err)
		guarded = unknown(v1alpha1.ConditionGuarded, v1alpha1.ReasonConfigurationUnread,
			"The topology controller cannot determine whether the cluster calls the webhook: see the condition Connected.")
		return connected, guarded, unknown(v1alpha1.ConditionWebhookAvailable, v1alpha1.ReasonEndpointsUnread,
			"The topology controller cannot determine whether the webhook runs: see the condition Connected.")
	}
	expiry, _ := clusters.TokenExpiry(config)
	r.recordCluster(cell, cluster, expiry)
	connected.Status, connected.Reason = metav1.ConditionTrue, v1alpha1.ReasonConnected
	connected.Message = fmt.Sprintf("The kubeconfig connects to the cluster %s.", cluster)
	guarded, available = checkWebhook(ctx, cell, config)
	return connected, guarded, available
}

// unknown returns a condition that the controller cannot determine.
func unknown(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

// connect returns a configuration for a cell's cluster: from its Secret, or else from r.Cells.
func (r *Reconciler) connect(ctx context.Context, cell *v1alpha1.Cell) (*rest.Config, string, error) {
	if cell.Spec.KubeconfigSecretRef != nil {
		return clusters.Connect(ctx, r.Live, cell, "topology")
	}
	config := r.Cells[cell.Name]
	cluster, err := clusters.VerifyCluster(ctx, cell, config)
	return config, cluster, err
}

// checkWebhook reads from the cluster for which requests it calls the webhook, and whether a replica of that is ready.
func checkWebhook(ctx context.Context, cell *v1alpha1.Cell, config *rest.Config) (guarded, available metav1.Condition) {
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return unreadConfiguration(err), unreadEndpoints(err)
	}
	all, err := clientset.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return unreadConfiguration(err), unreadEndpoints(err)
	}
	return guardedCondition(ctx, cell, clientset.AdmissionregistrationV1(), all.Items), availableCondition(ctx, cell, clientset.DiscoveryV1(), all.Items)
}

func unreadConfiguration(err error) metav1.Condition {
	return unknown(v1alpha1.ConditionGuarded, v1alpha1.ReasonConfigurationUnread,
		"The topology controller cannot determine whether the cluster calls the webhook: "+clusters.Sentence(err))
}

// guardedCondition returns the condition on whether the cluster calls the webhook for all removals of the cell's pods.
func guardedCondition(
	ctx context.Context, cell *v1alpha1.Cell, api admissionregistrationclient.AdmissionregistrationV1Interface,
	configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) metav1.Condition {
	guarded := metav1.Condition{Type: v1alpha1.ConditionGuarded, Status: metav1.ConditionFalse}
	weak, found := webhookconfig.Weaknesses(cell.Name, cell.Spec.Namespaces, configurations)
	switch {
	case !found:
		guarded.Reason = v1alpha1.ReasonWebhookMissing
		guarded.Message = fmt.Sprintf("The cluster does not call the webhook for removals of the cell's pods: no ValidatingWebhookConfiguration has the path %s. "+
			"Generate one with breakwater webhook-config --cell %s.", webhookconfig.RemovalPath(cell.Name), cell.Name)
		return guarded
	case len(weak) > 0:
		guarded.Reason = v1alpha1.ReasonWebhookWeakened
		guarded.Message = "Some removals of the cell's pods can bypass the webhook: " + clusters.Truncate(strings.Join(weak, "; "), 1000) + "."
		return guarded
	}
	missing, err := missingPolicy(ctx, api, cell, configurations)
	if err != nil {
		return unreadConfiguration(err)
	}
	if missing != "" {
		guarded.Reason, guarded.Message = v1alpha1.ReasonLabelsNotFixed, missing
		return guarded
	}
	guarded.Status, guarded.Reason = metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured
	guarded.Message = "The cluster calls the webhook for every removal of the cell's pods."
	if webhookconfig.DependsOnProtectedLabel(cell.Name, configurations) {
		guarded.Message = "The cluster calls the webhook for every removal of the cell's pods in namespaces with the label " + v1alpha1.LabelProtected + "=true."
	}
	if webhookconfig.Anonymous(cell.Name, configurations) {
		// No API object shows whether the API server uses a client certificate.
		guarded.Message += " It sends no caller token: unless the webhook requires client certificates, any client that reaches the webhook can send it reviews."
	}
	return guarded
}

// missingPolicy returns which labels clients can change because the cluster does not enforce an admission policy. It is empty if it enforces all.
func missingPolicy(
	ctx context.Context, api admissionregistrationclient.AdmissionregistrationV1Interface, cell *v1alpha1.Cell,
	configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) (string, error) {
	read := func(name string) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error) {
		policy, policyErr := ignoreNotFound(api.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{}))
		binding, bindingErr := ignoreNotFound(api.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{}))
		return policy, binding, errors.Join(policyErr, bindingErr)
	}
	if cell.Spec.PodSelector != nil {
		name := webhookconfig.LabelsName(cell.Name)
		policy, binding, err := read(name)
		if err != nil {
			return "", err
		}
		if !webhookconfig.EnforcesLabels(cell.Name, cell.Spec.PodSelector, policy, binding) {
			return fmt.Sprintf("Clients can change the labels that assign pods to the cell: the ValidatingAdmissionPolicy %s, or its binding, "+
				"is missing or weaker than the one that breakwater webhook-config --pod-selector prints.", name), nil
		}
	}
	if webhookconfig.DependsOnProtectedLabel(cell.Name, configurations) {
		name := webhookconfig.ProtectedName(cell.Name)
		policy, binding, err := read(name)
		if err != nil {
			return "", err
		}
		if !webhookconfig.EnforcesProtected(policy, binding) {
			return fmt.Sprintf("Clients can remove the label %s from namespaces with PodProtectors, in which the cluster then does not call the webhook: the "+
				"ValidatingAdmissionPolicy %s, or its binding, is missing or weaker than the one that breakwater webhook-config --scope Protected prints.",
				v1alpha1.LabelProtected, name), nil
		}
	}
	return "", nil
}

// ignoreNotFound returns the object; nil if it does not exist.
func ignoreNotFound[Object admissionregistrationv1.ValidatingAdmissionPolicy | admissionregistrationv1.ValidatingAdmissionPolicyBinding](
	object *Object, err error,
) (*Object, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}
