package topology

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

// availableCondition returns the condition on whether a replica of the webhook is ready, by the EndpointSlices of the Services that the
// cluster calls. It is False if one of them has none, because then each removal of a pod of the cell fails. It is Unknown for a webhook that the
// cluster calls by a URL, and for a Service that has no EndpointSlice, such as one of type ExternalName.
func availableCondition(
	ctx context.Context, cell *v1alpha1.Cell, api discoveryclient.DiscoveryV1Interface, configurations []admissionregistrationv1.ValidatingWebhookConfiguration,
) metav1.Condition {
	services := webhookconfig.RemovalServices(cell.Name, configurations)
	if len(services) == 0 {
		return unknown(v1alpha1.ConditionWebhookAvailable, v1alpha1.ReasonNoService,
			"The cluster calls no webhook of the cell by a Service, so the topology controller cannot see whether it runs.")
	}
	for _, service := range services {
		found, err := api.EndpointSlices(service.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service.Name})
		if err != nil {
			return unreadEndpoints(err)
		}
		switch {
		case len(found.Items) == 0:
			return unknown(v1alpha1.ConditionWebhookAvailable, v1alpha1.ReasonNoService, fmt.Sprintf("The Service %s has no EndpointSlice.", service))
		case !hasReadyEndpoint(found.Items):
			return metav1.Condition{
				Type: v1alpha1.ConditionWebhookAvailable, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNoReplicaReady,
				Message: fmt.Sprintf("No endpoint of the Service %s is ready: API servers get no answer from the webhook.", service),
			}
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionWebhookAvailable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReplicasReady,
		Message: "A replica of the webhook is ready.",
	}
}

func unreadEndpoints(err error) metav1.Condition {
	return unknown(v1alpha1.ConditionWebhookAvailable, v1alpha1.ReasonEndpointsUnread,
		"The topology controller cannot determine whether the webhook runs: "+clusters.Sentence(err))
}

// hasReadyEndpoint reports whether an endpoint gets traffic. One without the condition Ready is ready, by the API.
func hasReadyEndpoint(all []discoveryv1.EndpointSlice) bool {
	return slices.ContainsFunc(all, func(slice discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready })
	})
}
