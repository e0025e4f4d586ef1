package doctor

import (
	"crypto/x509"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// Read is what was read, or why it could not be.
type Read[T any] struct {
	Value T
	Err   error
}

// Reading is all that was read.
type Reading struct {
	Now time.Time
	// Version is that of whoever looks.
	Version string
	// Definitions are the CRDs of that version.
	Definitions []apiextensionsv1.CustomResourceDefinition
	Cores       []Core
	Cells       []Cell
}

// Core is what was read of a core cluster.
type Core struct {
	// Name is empty where there is but one.
	Name        string
	Clock       Read[Clock]
	Definitions Read[[]apiextensionsv1.CustomResourceDefinition]
	Cells       Read[[]v1alpha1.Cell]
	Protectors  Read[[]v1alpha1.PodProtector]
	// Denials are the refusals of the last minutes.
	Denials Read[[]denial.Denial]
	// Held are objects that were deleted and wait for finalizers of ours.
	Held   Read[[]Held]
	Pods   Read[[]corev1.Pod]
	Rights Read[[]Right]
	// Validating and Mutating are the webhook configurations of its own apiserver.
	Validating Read[[]admissionregistrationv1.ValidatingWebhookConfiguration]
	Mutating   Read[[]admissionregistrationv1.MutatingWebhookConfiguration]
	// Doubled is what the apiserver answered to a second protector for a workload, as a dry run; nil when it was not asked.
	Doubled *Doubled
	Rings   Read[[]v1alpha1.ClusterRing]
	// Leases are those of shards, in the namespaces that rings name.
	Leases Read[[]coordinationv1.Lease]
	// Policies are the names of scheduling policies.
	Policies Read[[]string]
	// Hooks are its webhooks about protectors and objects of rings as they were asked from here.
	Hooks []Hook
}

// Doubled is what an apiserver answered to a second protector for the workload of one that is there.
type Doubled struct {
	// Of is the one that is there, as namespace/name.
	Of  string
	Err error
}

// Cell is what was read of the cluster of a cell.
type Cell struct {
	Name string
	// Namespaces are those that the cell has; none is all.
	Namespaces []string
	// Lent tells that whoever looks is there by the kubeconfig of the Cell's Secret, with the rights of Breakwater.
	Lent bool
	// Way is why there is no way to the cluster, and then all else is empty; nil when there is.
	Way            error
	Clock          Read[Clock]
	Configurations Read[[]admissionregistrationv1.ValidatingWebhookConfiguration]
	// Asked is what the apiserver answered to an eviction, as a dry run, of a pod that is not there.
	Asked error
	// Hooks are its webhooks about removals as they were asked from here.
	Hooks []Hook
	// Mutating are the configurations that may change what is stored, and Scheduling its webhooks of scheduling policies as they were
	// asked from here.
	Mutating   Read[[]admissionregistrationv1.MutatingWebhookConfiguration]
	Scheduling []Hook
	Spaces     Read[[]corev1.Namespace]
	Pods       Read[[]corev1.Pod]
	Rights     Read[[]Right]
}

// Asks is what a webhook is asked about.
type Asks int

// What webhooks are asked about.
const (
	OfRemovals Asks = iota
	OfProtectors
	OfScheduling
	OfRings
)

// Hook is a webhook.
type Hook struct {
	Name string
	// Of is what it is asked about. But for removals, all passes that it is asked about while it does not answer, and floors hold.
	Of Asks
	// Host is the name that its certificate must be for.
	Host string
	// Bundle is the caBundle.
	Bundle []byte
	// Local tells that only the cluster itself can reach it: Chain and Answer are unknown.
	Local bool
	// Chain is what it serves, or why nothing was served.
	Chain Read[[]*x509.Certificate]
	// Answer is what was wrong when it was asked; nil if nothing was.
	Answer error
}

// Clock is one of another machine, as it is seen from here.
type Clock struct {
	// Ahead is how far it is ahead of that of this machine.
	Ahead time.Duration
	// Within is how much more or less that may be.
	Within time.Duration
}

// Held is an object that was deleted and waits.
type Held struct {
	Name       string
	Deleted    time.Time
	Finalizers []string
}

// Right is something that an account may do, or may not.
type Right struct {
	// Account is whose it is; empty is the user.
	Account string
	Verb, Group,
	Resource string
	Allowed bool
}

func (c *Core) where() string {
	if c.Name == "" {
		return "core"
	}
	return "core " + c.Name
}

func (c *Cell) where() string { return "cell " + c.Name }
