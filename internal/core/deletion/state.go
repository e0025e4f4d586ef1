package deletion

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// State is the state of a core cluster, as it was read.
type State struct {
	Now time.Time
	// Limits are the limits of the generator, for protectors whose policy sets none.
	Limits brake.Limits
	// Protectors are all protectors of the core cluster, because budgets apply to all of them.
	Protectors []v1alpha1.PodProtector
	// Grants is the data of the ConfigMap brake.ConfigMapName. It is nil if the ConfigMap does not exist.
	Grants map[string]string
	// Namespaces are the namespaces of the protectors, by name. A missing namespace confirms nothing.
	Namespaces map[string]*metav1.PartialObjectMetadata
	// Sources are the source workloads that exist.
	Sources map[policy.Ref]*metav1.PartialObjectMetadata
	// Owners are the existing owners of sources and of protectors, and the owners of those.
	Owners map[types.UID]Owner
	// OwnerKinds states what is known about each kind of owners.
	OwnerKinds map[schema.GroupKind]KindAccess
	// Policies are all policies. They are read only if one of them is to be deleted.
	Policies []*policy.Policy
	// OptedIn selects the workloads that have protectors without a policy.
	OptedIn labels.Selector
	// Cells are the cells whose pods run in this cluster.
	Cells []string
	Guard RootGuard
}

// Owner is an object that owns others.
type Owner struct {
	Kind schema.GroupKind
	*metav1.PartialObjectMetadata
}

// KindAccess is what is known about the objects of a kind.
type KindAccess string

// An owner of a kind that is not in OwnerKinds is assumed to exist.
const (
	// Complete means that State.Owners has all objects of the kind.
	Complete KindAccess = "Read"
	// Unserved means that the API server does not serve the kind, so that no such object exists.
	Unserved KindAccess = "Unserved"
	// Forbidden means that the generator has no permission to get the objects. It assumes that each of them was deleted.
	Forbidden KindAccess = "Hidden"
)

// RootGuard is the root guard of the cluster.
type RootGuard struct {
	// Mode is Off if the API server asks no webhook.
	Mode rootguard.Mode
	// Cluster is the cluster description that the API server passes to the webhook.
	Cluster rootguard.ClusterIdentity
	// IsCalledFor reports whether the API server asks the webhook about the deletion of an object.
	IsCalledFor func(*rootguard.Object) bool
	// OwnerKinds are the resources that the webhook reads as owners of sources.
	OwnerKinds []schema.GroupResource
}
