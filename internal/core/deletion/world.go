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

// World is what was read of a core cluster.
type World struct {
	Now time.Time
	// Limits are those of the generator, for protectors whose policy sets none.
	Limits brake.Limits
	// Protectors are all of the core cluster: budgets are for all of them.
	Protectors []v1alpha1.PodProtector
	// Grants are the data of the ConfigMap brake.ConfigMapName; nil if it does not exist.
	Grants map[string]string
	// Namespaces are those of the protectors, by name. One that is missing confirms nothing.
	Namespaces map[string]*metav1.PartialObjectMetadata
	// Sources are the source workloads that exist.
	Sources map[policy.Ref]*metav1.PartialObjectMetadata
	// Owners are the owners of sources and of protectors that exist, and the owners of those.
	Owners map[types.UID]Owner
	// OwnerKinds says what is known of each kind of owners.
	OwnerKinds map[schema.GroupKind]Knowledge
	// Policies are all policies. They are read only if one of them is deleted.
	Policies []*policy.Policy
	// OptedIn selects the workloads that have protectors without a policy.
	OptedIn labels.Selector
	// Cells are the cells whose pods run in this cluster.
	Cells []string
	Guard Guard
}

// Owner is an object that owns others.
type Owner struct {
	Kind schema.GroupKind
	*metav1.PartialObjectMetadata
}

// Knowledge is what is known of the objects of a kind.
type Knowledge string

// An owner of a kind of which nothing is known is taken to exist.
const (
	// Read says that World.Owners has all of them.
	Read Knowledge = "Read"
	// Unserved says that the API server has no such kind, so that none of them exists.
	Unserved Knowledge = "Unserved"
	// Hidden says that the generator may not get them. It takes each of them for deleted.
	Hidden Knowledge = "Hidden"
)

// Guard is the root guard of the cluster.
type Guard struct {
	// Mode is Off if no webhook is asked.
	Mode rootguard.Mode
	// At is what the API server tells the webhook about the cluster.
	At rootguard.Place
	// Asks reports whether the API server asks about the deletion of an object.
	Asks func(*rootguard.Object) bool
	// OwnerKinds are the resources whose objects the webhook knows as owners of sources.
	OwnerKinds []schema.GroupResource
}
