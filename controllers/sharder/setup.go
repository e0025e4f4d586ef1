// Package sharder assigns the objects of rings to their shards.
package sharder

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/internal/members"
)

// Name is that of the controller, its Lease and its field manager.
const Name = "breakwater-sharder"

// Options of the sharder.
type Options struct {
	Roll *members.Roll
	// ClientConfig is how apiservers reach the admission of rings, without a path.
	ClientConfig func() admissionregistrationv1.WebhookClientConfig
	// Annotations are put on the webhook configurations.
	Annotations map[string]string
	// Kicks are names of rings whose objects are to be looked at.
	Kicks    chan string
	Registry prometheus.Registerer
}

// Setup adds the controllers to a manager.
func Setup(context.Context, manager.Manager, Options) error { return nil }
