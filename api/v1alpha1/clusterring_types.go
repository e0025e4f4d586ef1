package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRing distributes the objects of some resources over the shards of a controller. The shards are instances that all work
// at the same time, each on its own objects. A label on each object names its shard, and Leases define which shards exist. The
// shards of a ring without resources share something else, such as the namespaces of a cell for aggregators.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ring,categories=breakwater
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableShards`,description="Shards that objects are assigned to"
// +kubebuilder:printcolumn:name="Shards",type=integer,JSONPath=`.status.shards`,description="Shards that have a Lease"
// +kubebuilder:printcolumn:name="Assigned",type=integer,JSONPath=`.status.assigned`
// +kubebuilder:printcolumn:name="Draining",type=integer,JSONPath=`.status.draining`
// +kubebuilder:printcolumn:name="Unassigned",type=integer,JSONPath=`.status.unassigned`
// +kubebuilder:printcolumn:name="Balanced",type=string,JSONPath=`.status.conditions[?(@.type=="Balanced")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 57 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a ClusterRing has at most 57 characters, lower case letters, digits and hyphens: it is part of the names of labels"
type ClusterRing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec   ClusterRingSpec   `json:"spec,omitempty"`
	Status ClusterRingStatus `json:"status,omitempty"`
}

// ClusterRingList is a list of ClusterRings.
//
// +kubebuilder:object:root=true
type ClusterRingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterRing `json:"items"`
}

// ClusterRingSpec defines which objects are distributed, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.resources.all(r, !has(r.controlledResources) || r.controlledResources.all(c, !self.resources.exists(m, m.group == c.group && m.resource == c.resource)))",message="a resource is either one of resources or of controlledResources, not both",fieldPath=".resources"
// +kubebuilder:validation:XValidation:rule="!has(self.maxLoadPercent) || !has(self.keyPolicy) || self.keyPolicy != 'Namespace'",message="maxLoadPercent needs keyPolicy Object: objects that are assigned together are not spread",fieldPath=".maxLoadPercent"
type ClusterRingSpec struct {
	// Resources are the resources whose objects are assigned to shards, each by its own name. Objects of different resources are
	// assigned independently, unless keyPolicy is Namespace or they have the same annotation breakwater.dev/sharding-key.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +optional
	Resources []RingResource `json:"resources,omitempty"`

	// NamespaceSelector selects the namespaces whose objects are assigned. If it is not set, it selects all except kube-system,
	// kube-public, kube-node-lease and the namespace of the sharder. A selector can include these: the empty one selects all
	// namespaces. Cluster-scoped objects are always assigned. The field is atomic for server-side apply.
	//
	// +structType=atomic
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	// ShardNamespace is the namespace of the Leases of the ring's shards. Leases in other namespaces are ignored, because a client
	// that may write Leases there can join the ring.
	//
	// +kubebuilder:default=breakwater-system
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	ShardNamespace string `json:"shardNamespace,omitempty"`

	// KeyPolicy defines which objects are assigned together. Object, the default: an object and the objects that it controls.
	// Namespace: all objects of a namespace.
	//
	// +kubebuilder:default=Object
	// +optional
	KeyPolicy KeyPolicy `json:"keyPolicy,omitempty"`

	// TokensPerShard is the number of tokens of a shard on the ring. More tokens distribute objects more evenly, but need more
	// memory, and more time when shards join or leave.
	//
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	TokensPerShard int32 `json:"tokensPerShard,omitempty"`

	// MaxLoadPercent limits the number of objects of a shard, as a percentage of the mean. With 110, and 1,000 objects for 10
	// shards, each shard has at most 110 objects. Objects above the limit are assigned to the next shard on the ring, except those
	// with the annotation breakwater.dev/sharding-key, which stay together. If it is not set, there is no limit.
	//
	// +kubebuilder:validation:Minimum=101
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxLoadPercent *int32 `json:"maxLoadPercent,omitempty"`

	// LeaseDurationSeconds is the time in seconds for which a shard may work after it renewed its Lease. If it does not renew the
	// Lease for twice that time, its objects are assigned to other shards.
	//
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=3600
	// +optional
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// DrainTimeoutSeconds is the time in seconds within which a shard must release an object that is assigned to another shard. A
	// shard that takes longer is removed from the ring: its Lease is revoked, and all its objects are assigned to other shards
	// after the time by which it must have noticed.
	//
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DrainTimeoutSeconds int32 `json:"drainTimeoutSeconds,omitempty"`

	// ResyncPeriodSeconds is the interval in seconds at which the sharder looks for objects without a shard, or with a shard that
	// they cannot have. Every twelfth time, or after an hour, whichever comes first, it checks all objects.
	//
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ResyncPeriodSeconds int32 `json:"resyncPeriodSeconds,omitempty"`

	// MaxConcurrentMoves is the maximum number of objects that move from one shard to another at the same time.
	//
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxConcurrentMoves int32 `json:"maxConcurrentMoves,omitempty"`
}

// GroupResource identifies a resource, as in URLs.
// +kubebuilder:object:generate=false
type GroupResource struct {
	// Group of the resource. Empty means the core group.
	//
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	// +optional
	Group string `json:"group"`
	// Resource is the plural name of the resource, for example deployments.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// RingResource is a resource whose objects are assigned to shards.
//
// +kubebuilder:validation:XValidation:rule="!(self.group == 'coordination.k8s.io' && self.resource == 'leases') && self.group != 'admissionregistration.k8s.io' && !(self.group == 'breakwater.dev' && self.resource == 'clusterrings') && self.resource != 'events'",message="leases, events, clusterrings and admission configurations cannot be sharded: the sharder depends on them"
type RingResource struct {
	GroupResource `json:",inline"`

	// ControlledResources are resources whose objects are assigned to the shard of the object that controls them, according to
	// their controller reference.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(c, !(c.group == 'coordination.k8s.io' && c.resource == 'leases') && c.group != 'admissionregistration.k8s.io' && !(c.group == 'breakwater.dev' && c.resource == 'clusterrings') && c.resource != 'events')",message="leases, events, clusterrings and admission configurations cannot be sharded: the sharder depends on them"
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +optional
	ControlledResources []GroupResource `json:"controlledResources,omitempty"`
}

// KeyPolicy defines which objects are assigned together.
//
// +kubebuilder:validation:Enum=Object;Namespace
type KeyPolicy string

// The key policies.
const (
	KeyPolicyObject    KeyPolicy = "Object"
	KeyPolicyNamespace KeyPolicy = "Namespace"
)

// ClusterRingStatus is the observed state of a ring, written by the sharder. Each time it checks all objects of the resources, it
// counts them. It does not count objects of controlledResources.
type ClusterRingStatus struct {
	// ObservedGeneration is the generation of the spec that the sharder applies.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Shards is the number of shards that have a Lease.
	//
	// +optional
	Shards int32 `json:"shards"`

	// AvailableShards is the number of shards that objects are assigned to.
	//
	// +optional
	AvailableShards int32 `json:"availableShards"`

	// Assigned is the number of objects that were assigned to an available shard at the last count.
	//
	// +optional
	Assigned int64 `json:"assigned"`

	// Draining is the number of assigned objects that are moving to another shard.
	//
	// +optional
	Draining int64 `json:"draining"`

	// Unassigned is the number of objects that no shard worked on at the last count.
	//
	// +optional
	Unassigned int64 `json:"unassigned"`

	// LastCounted is the time of the last count, by the sharder's clock.
	//
	// +optional
	LastCounted *metav1.Time `json:"lastCounted,omitempty"`

	// Members are the shards, at most 1,000 of them.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=name
	// +optional
	Members []RingMember `json:"members,omitempty"`

	// Holdings are the slots of each shard, if the shards of a ring without resources share namespaces, as generators do. A slot is
	// one of 256 parts of the namespaces. The shards write the holdings by compare-and-swap.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +listType=map
	// +listMapKey=shard
	// +optional
	Holdings []RingHolding `json:"holdings,omitempty"`

	// Conditions are Ready, ShardsAvailable and Balanced.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RingMember is a shard of a ring.
// +kubebuilder:object:generate=false
type RingMember struct {
	// Name of the shard and of its Lease.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// State of its Lease.
	//
	// +optional
	State ShardState `json:"state,omitempty"`
	// Assigned is the number of objects of the shard at the last count.
	//
	// +optional
	Assigned int64 `json:"assigned"`
}

// RingHolding has the slots of a shard of a ring without resources.
// +kubebuilder:object:generate=false
type RingHolding struct {
	// Shard that has the slots.
	//
	// +kubebuilder:validation:MaxLength=63
	Shard string `json:"shard"`
	// Holder is the incarnation of the shard, as in its Lease. Slots of an earlier incarnation are free.
	//
	// +kubebuilder:validation:MaxLength=253
	Holder string `json:"holder"`
	// Slots are the numbers of the shard's slots, from 0 to 255, for example 0-12,17.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Slots string `json:"slots,omitempty"`
}

// ShardState is the state of a shard according to its Lease.
//
// +kubebuilder:validation:Enum=Ready;Expired;Uncertain;Dead;Orphaned
type ShardState string

// The states of a shard. Objects are assigned to, and stay with, a shard that is Ready, Expired or Uncertain.
const (
	// ShardReady means that the shard renews its Lease.
	ShardReady ShardState = "Ready"
	// ShardExpired means that the shard has not renewed its Lease for leaseDurationSeconds. It does not work, and may recover.
	ShardExpired ShardState = "Expired"
	// ShardUncertain means that the shard has not renewed its Lease for twice that time, or was removed from the ring. The sharder
	// ensures that it does not work.
	ShardUncertain ShardState = "Uncertain"
	// ShardDead means that the shard does not work, because it released or lost its Lease. Its objects are assigned to other
	// shards.
	ShardDead ShardState = "Dead"
	// ShardOrphaned means that the shard has been dead for a minute. Its Lease is deleted.
	ShardOrphaned ShardState = "Orphaned"
)
