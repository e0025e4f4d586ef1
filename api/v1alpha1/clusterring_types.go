package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterRing spreads the objects of some resources over the shards of a controller: instances that all work, each on objects of
// its own. Which shard works on an object is a label on it; which shards there are is told by their Leases. A ring without
// resources has shards that share something else out, as aggregators do the namespaces of their cell.
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

// ClusterRingSpec says what is shared out, and how.
//
// +kubebuilder:validation:XValidation:rule="!has(self.resources) || self.resources.all(r, !has(r.controlledResources) || r.controlledResources.all(c, !self.resources.exists(m, m.group == c.group && m.resource == c.resource)))",message="a resource is either one of resources or of controlledResources, not both",fieldPath=".resources"
// +kubebuilder:validation:XValidation:rule="!has(self.maxLoadPercent) || !has(self.keyPolicy) || self.keyPolicy != 'Namespace'",message="maxLoadPercent needs keyPolicy Object: objects that are assigned together are not spread",fieldPath=".maxLoadPercent"
type ClusterRingSpec struct {
	// Resources are those whose objects are assigned to shards, each by its own name. Two objects of different resources are
	// not assigned to the same shard, unless keyPolicy is Namespace or they carry the same annotation breakwater.dev/sharding-key.
	//
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +optional
	Resources []RingResource `json:"resources,omitempty"`

	// NamespaceSelector chooses the namespaces whose objects are assigned. Without it, or empty, those of all are. Objects of
	// cluster scope are assigned whatever it says. It is one value to server-side
	// apply.
	//
	// +structType=atomic
	// +optional
	NamespaceSelector *PodSelector `json:"namespaceSelector,omitempty"`

	// ShardNamespace is where the Leases of the ring's shards are. Those of other namespaces are not heeded: who may write
	// Leases there takes part in the ring.
	//
	// +kubebuilder:default=breakwater-system
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	ShardNamespace string `json:"shardNamespace,omitempty"`

	// KeyPolicy is what is assigned together: Object, the default, nothing but an object and those that it controls;
	// Namespace, all objects of a namespace.
	//
	// +kubebuilder:default=Object
	// +optional
	KeyPolicy KeyPolicy `json:"keyPolicy,omitempty"`

	// TokensPerShard is how many places a shard has on the ring. More of them spread objects more evenly, and cost memory and
	// time when shards come and go.
	//
	// +kubebuilder:default=1000
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	TokensPerShard int32 `json:"tokensPerShard,omitempty"`

	// MaxLoadPercent bounds how many objects a shard has, as a percentage of the mean: with 110, and 1,000 objects for 10
	// shards, each has at most 110. What is over goes to the next shard on the ring, but for objects that carry the annotation
	// breakwater.dev/sharding-key, which are together. Without it there is no bound.
	//
	// +kubebuilder:validation:Minimum=101
	// +kubebuilder:validation:Maximum=1000
	// +optional
	MaxLoadPercent *int32 `json:"maxLoadPercent,omitempty"`

	// LeaseDurationSeconds is how long a shard may work without having renewed its Lease. Its objects go to others when it has
	// not done so for twice as long.
	//
	// +kubebuilder:default=15
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=3600
	// +optional
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// DrainTimeoutSeconds is how long a shard may take to let go of an object that is to be another's. A shard that takes
	// longer is put out of the ring: its Lease is taken from it, and all its objects go to others once it must have noticed.
	//
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	DrainTimeoutSeconds int32 `json:"drainTimeoutSeconds,omitempty"`

	// ResyncPeriodSeconds is the time after which objects are looked for that no shard has, or that cannot be where they are;
	// every twelfth time, or after an hour, all are looked at.
	//
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	// +optional
	ResyncPeriodSeconds int32 `json:"resyncPeriodSeconds,omitempty"`

	// MaxConcurrentMoves is how many objects may be on their way from one shard to another at once.
	//
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	MaxConcurrentMoves int32 `json:"maxConcurrentMoves,omitempty"`
}

// GroupResource names a resource, as it is in URLs.
type GroupResource struct {
	// Group of the resource; empty is the core group.
	//
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	// +optional
	Group string `json:"group"`
	// Resource is its plural name, as deployments.
	//
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Resource string `json:"resource"`
}

// RingResource is a resource whose objects are assigned to shards.
//
// +kubebuilder:validation:XValidation:rule="!(self.group == 'coordination.k8s.io' && self.resource == 'leases') && self.group != 'admissionregistration.k8s.io' && !(self.group == 'breakwater.dev' && self.resource == 'clusterrings') && self.resource != 'events'",message="leases, events, clusterrings and what admission is configured by cannot be sharded: to assign them takes what they are for"
type RingResource struct {
	GroupResource `json:",inline"`

	// ControlledResources are those whose objects go where the object is that controls them, as their controller reference
	// says.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(c, !(c.group == 'coordination.k8s.io' && c.resource == 'leases') && c.resource != 'events')",message="leases and events cannot be sharded"
	// +listType=map
	// +listMapKey=group
	// +listMapKey=resource
	// +optional
	ControlledResources []GroupResource `json:"controlledResources,omitempty"`
}

// KeyPolicy is what is assigned together.
//
// +kubebuilder:validation:Enum=Object;Namespace
type KeyPolicy string

// What can be assigned together.
const (
	KeyPolicyObject    KeyPolicy = "Object"
	KeyPolicyNamespace KeyPolicy = "Namespace"
)

// ClusterRingStatus is the state of a ring, written by the sharder. Objects of its resources are counted whenever all of them are looked
// at; those of controlledResources are not.
type ClusterRingStatus struct {
	// ObservedGeneration is the generation of the spec that the ring goes by.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Shards is how many have a Lease.
	//
	// +optional
	Shards int32 `json:"shards"`

	// AvailableShards is how many of them objects are assigned to.
	//
	// +optional
	AvailableShards int32 `json:"availableShards"`

	// Assigned is how many objects were assigned to an available shard when they were counted last.
	//
	// +optional
	Assigned int64 `json:"assigned"`

	// Draining is how many of those are on their way to another one.
	//
	// +optional
	Draining int64 `json:"draining"`

	// Unassigned is how many objects no shard worked on.
	//
	// +optional
	Unassigned int64 `json:"unassigned"`

	// LastCounted is when the objects were counted, by the sharder's clock.
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

	// Holdings are the slots of namespaces that the shards of a ring without resources have, where those share namespaces out
	// among themselves, as generators do. Written by the shards, by compare-and-swap.
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
type RingMember struct {
	// Name of the shard and of its Lease.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// State of its Lease.
	//
	// +optional
	State ShardState `json:"state,omitempty"`
	// Assigned is how many objects it had when they were counted last.
	//
	// +optional
	Assigned int64 `json:"assigned"`
}

// RingHolding is what a shard has of what a ring without resources shares out.
type RingHolding struct {
	// Shard that has it.
	//
	// +kubebuilder:validation:MaxLength=63
	Shard string `json:"shard"`
	// Holder is the incarnation of the shard, as its Lease names it. What a former one had nobody has.
	//
	// +kubebuilder:validation:MaxLength=253
	Holder string `json:"holder"`
	// Slots of the 256 that namespaces are in, as 0-12,17.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Slots string `json:"slots,omitempty"`
}

// ShardState is what a shard's Lease tells of it.
//
// +kubebuilder:validation:Enum=Ready;Expired;Uncertain;Dead;Orphaned
type ShardState string

// The states of a shard. Objects are assigned to, and stay with, a shard that is Ready, Expired or Uncertain.
const (
	// ShardReady renews its Lease.
	ShardReady ShardState = "Ready"
	// ShardExpired has not done so for leaseDurationSeconds. It does not work, and may come back.
	ShardExpired ShardState = "Expired"
	// ShardUncertain has not done so for twice as long, or was put out of the ring. The sharder makes certain that it does not
	// work.
	ShardUncertain ShardState = "Uncertain"
	// ShardDead does not work: it has given its Lease up, or lost it. Its objects go to others.
	ShardDead ShardState = "Dead"
	// ShardOrphaned has been dead for a minute. Its Lease is deleted.
	ShardOrphaned ShardState = "Orphaned"
)
