package findings

import (
	"crypto/x509"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/denial"
)

// Result is a value that was read, or the error of the read.
type Result[T any] struct {
	Value T
	Err   error
}

// Inspection is everything that Judge judges.
type Inspection struct {
	Now time.Time
	// Version is the version of the tool that reads.
	Version string
	// Definitions are the CRDs of that version.
	Definitions []apiextensionsv1.CustomResourceDefinition
	Cores       []Core
	Cells       []Cell
}

// Core is the state of a core cluster.
type Core struct {
	// Name is empty if there is only one core.
	Name        string
	Clock       Result[Clock]
	Definitions Result[[]apiextensionsv1.CustomResourceDefinition]
	Cells       Result[[]v1alpha1.Cell]
	Protectors  Result[[]v1alpha1.PodProtector]
	// Denials are the denials of the last minutes.
	Denials Result[[]denial.Denial]
	// Terminating are deleted objects that wait for a finalizer of Breakwater.
	Terminating Result[[]TerminatingObject]
	Pods        Result[[]corev1.Pod]
	Permissions Result[[]Permission]
	// Labeled are the workloads of built-in kinds and the namespaces. Protectors are added to them.
	Labeled Result[[]Labeled]
	// Validating and Mutating are the webhook configurations of the core's own API server.
	Validating Result[[]admissionregistrationv1.ValidatingWebhookConfiguration]
	Mutating   Result[[]admissionregistrationv1.MutatingWebhookConfiguration]
	// SecondProtector is the answer of the API server to a dry run that creates a second protector for a workload. It is nil if no dry run was
	// sent.
	SecondProtector *SecondProtectorAnswer
	Rings           Result[[]v1alpha1.ClusterRing]
	// Leases are the Leases of shards, in the namespaces that the rings name.
	Leases Result[[]coordinationv1.Lease]
	// Policies are the names of scheduling policies.
	Policies Result[[]string]
	// Hooks are the core's webhooks for protectors and for objects of rings, with their answers to requests from this machine.
	Hooks []Hook
}

// SecondProtectorAnswer is the answer of an API server to a second protector for the workload of an existing one.
type SecondProtectorAnswer struct {
	// Existing is the existing protector, as namespace/name.
	Existing string
	Err      error
}

// Cell is the state of the cluster of a cell.
type Cell struct {
	Name string
	// Namespaces are the namespaces of the cell; an empty list means all.
	Namespaces []string
	// UsesCellKubeconfig reports whether the reader used the kubeconfig of the Cell's Secret, with the permissions of Breakwater.
	UsesCellKubeconfig bool
	// ConnectErr is the error that prevented a connection to the cluster. If it is not nil, the other fields are empty.
	ConnectErr     error
	Clock          Result[Clock]
	Configurations Result[[]admissionregistrationv1.ValidatingWebhookConfiguration]
	// EvictionAnswer is the answer of the API server to a dry-run eviction of a pod that does not exist.
	EvictionAnswer error
	// Hooks are the webhooks for removals, with their answers to requests from this machine.
	Hooks []Hook
	// Mutating are the configurations that can modify stored objects. Scheduling are the webhooks of scheduling policies, with their
	// answers to requests from this machine.
	Mutating         Result[[]admissionregistrationv1.MutatingWebhookConfiguration]
	Scheduling       []Hook
	NamespaceObjects Result[[]corev1.Namespace]
	// Requesting are the workloads of built-in kinds that have the label breakwater.dev/protect.
	Requesting Result[[]Labeled]
	// JobPods are the running pods of Jobs.
	JobPods     Result[[]metav1.PartialObjectMetadata]
	Pods        Result[[]corev1.Pod]
	Permissions Result[[]Permission]
}

// ReviewKind is the kind of request that a webhook reviews.
type ReviewKind int

// Kinds of requests.
const (
	RemovalReviews ReviewKind = iota
	ProtectorReviews
	SchedulingReviews
	RingReviews
)

// Hook is a webhook.
type Hook struct {
	Name string
	// Reviews is the kind of request. Only webhooks for removals fail closed. Requests to the others are admitted while the webhook is
	// unreachable, and floors still hold.
	Reviews ReviewKind
	// Host is the name for which the certificate must be valid.
	Host string
	// Bundle is the caBundle.
	Bundle []byte
	// InClusterOnly reports whether the webhook is reachable only from within the cluster. Chain and Answer are then unknown.
	InClusterOnly bool
	// Chain is the served certificate chain, or the error of the connection.
	Chain Result[[]*x509.Certificate]
	// Answer is what was wrong with the webhook's answer; nil if it was correct.
	Answer error
}

// Clock is the clock of another machine, measured from this one.
type Clock struct {
	// Ahead is how far the clock is ahead of this machine's clock.
	Ahead time.Duration
	// Uncertainty is the measurement error of Ahead, in either direction.
	Uncertainty time.Duration
}

// TerminatingObject is a deleted object that waits for its finalizers.
type TerminatingObject struct {
	Name       string
	Deleted    time.Time
	Finalizers []string
}

// Permission is a permission that an account has or lacks.
type Permission struct {
	// Account is the account's name; empty is the user.
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
