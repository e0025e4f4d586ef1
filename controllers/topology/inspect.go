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
	admissionclient "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// checkCluster connects to the cell's cluster. It returns the conditions on whether that is reachable, and whether it calls the webhook.
func (r *Reconciler) checkCluster(ctx context.Context, cell *v1alpha1.Cell) (connected, guarded metav1.Condition) {
	connected = metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionUnknown}
	guarded = metav1.Condition{Type: v1alpha1.ConditionGuarded, Status: metav1.ConditionUnknown}
	if cell.Spec.KubeconfigSecretRef == nil && r.Cells[cell.Name] == nil {
		connected.Reason, guarded.Reason = v1alpha1.ReasonNoKubeconfig, v1alpha1.ReasonNoKubeconfig
		connected.Message = "The Cell names no kubeconfig, so the topology controller does not check whether its cluster is reachable."
		guarded.Message = "The Cell names no kubeconfig, so the topology controller does not check whether its cluster calls the webhook."
		return connected, guarded
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
		guarded.Reason = v1alpha1.ReasonConfigurationUnread
		guarded.Message = "The topology controller cannot determine whether the cluster calls the webhook: see the condition Connected."
		return connected, guarded
	}
	expiry, _ := clusters.TokenExpiry(config)
	r.recordCluster(cell, cluster, expiry)
	connected.Status, connected.Reason = metav1.ConditionTrue, v1alpha1.ReasonConnected
	connected.Message = fmt.Sprintf("The kubeconfig connects to the cluster %s.", cluster)
	return connected, guardedCondition(ctx, cell, config, guarded)
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

// guardedCondition reads from the cluster for which requests it calls the webhook.
func guardedCondition(ctx context.Context, cell *v1alpha1.Cell, config *rest.Config, guarded metav1.Condition) metav1.Condition {
	unknown := func(err error) metav1.Condition {
		guarded.Reason = v1alpha1.ReasonConfigurationUnread
		guarded.Message = "The topology controller cannot determine whether the cluster calls the webhook: " + clusters.Sentence(err)
		return guarded
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return unknown(err)
	}
	api := clientset.AdmissionregistrationV1()
	configurations, err := api.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return unknown(err)
	}
	guarded.Status = metav1.ConditionFalse
	weak, found := webhookconfig.Weaknesses(cell.Name, cell.Spec.Namespaces, configurations.Items)
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
	if problem, err := unfixedLabels(ctx, cell, api, configurations.Items); err != nil {
		return unknown(err)
	} else if problem != "" {
		guarded.Reason, guarded.Message = v1alpha1.ReasonLabelsNotFixed, problem
		return guarded
	}
	guarded.Status, guarded.Reason = metav1.ConditionTrue, v1alpha1.ReasonWebhookConfigured
	guarded.Message = "The cluster calls the webhook for every removal of the cell's pods."
	if webhookconfig.HasProtectedScope(cell.Name, configurations.Items) {
		guarded.Message = "The cluster calls the webhook for every removal of the cell's pods in namespaces with the label " + v1alpha1.LabelProtected + "=true."
	}
	if webhookconfig.Anonymous(cell.Name, configurations.Items) {
		// No API object shows whether the API server uses a client certificate.
		guarded.Message += " It sends no caller token: unless the webhook requires client certificates, any client that reaches the webhook can send it reviews."
	}
	return guarded
}

// unfixedLabels returns which labels clients can change although the coverage of the cell's pods depends on them; empty if there are none.
func unfixedLabels(
	ctx context.Context, cell *v1alpha1.Cell, api admissionclient.AdmissionregistrationV1Interface,
	configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) (string, error) {
	const missing = "%s: the ValidatingAdmissionPolicy %s, or its binding, is missing or weaker than the one that breakwater webhook-config %s prints."
	if cell.Spec.PodSelector != nil {
		policy, binding, err := policyOf(ctx, api, webhookconfig.LabelsName(cell.Name))
		if err != nil {
			return "", err
		}
		if !webhookconfig.EnforcesLabels(cell.Name, cell.Spec.PodSelector, policy, binding) {
			return fmt.Sprintf(missing, "Clients can change the labels that assign pods to the cell", webhookconfig.LabelsName(cell.Name), "--pod-selector"), nil
		}
	}
	if webhookconfig.HasProtectedScope(cell.Name, configurations) {
		policy, binding, err := policyOf(ctx, api, webhookconfig.ProtectedName(cell.Name))
		if err != nil {
			return "", err
		}
		if !webhookconfig.KeepsProtected(cell.Name, policy, binding) {
			return fmt.Sprintf(missing, "Clients can remove the label of namespaces with protectors, without which removals there are not checked",
				webhookconfig.ProtectedName(cell.Name), "--scope Protected"), nil
		}
	}
	return "", nil
}

// policyOf returns a policy and the binding of its name; nil for one that does not exist.
func policyOf(ctx context.Context, api admissionclient.AdmissionregistrationV1Interface, name string) (
	*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding, error,
) {
	policy, err := ignoreNotFound(api.ValidatingAdmissionPolicies().Get(ctx, name, metav1.GetOptions{}))
	if err != nil {
		return nil, nil, err
	}
	binding, err := ignoreNotFound(api.ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{}))
	return policy, binding, err
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
