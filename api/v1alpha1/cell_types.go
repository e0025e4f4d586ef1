package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cell names a set of pods that is watched as one strongly consistent stream: all pods of a cluster, the pods of some of its
// namespaces, or the pods that a selector selects. Its name is the cellID in the status of protectors.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=breakwater
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Fresh",type=string,JSONPath=`.status.conditions[?(@.type=="AggregationFresh")].status`
// +kubebuilder:printcolumn:name="Guarded",type=string,JSONPath=`.status.conditions[?(@.type=="Guarded")].status`
// +kubebuilder:printcolumn:name="Pods",type=integer,JSONPath=`.status.pods`
// +kubebuilder:printcolumn:name="Protectors",type=integer,JSONPath=`.status.protectors`
// +kubebuilder:printcolumn:name="Epoch",type=integer,JSONPath=`.status.aggregator.epoch`
// +kubebuilder:printcolumn:name="Heartbeat",type=date,JSONPath=`.status.aggregator.lastHeartbeat`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name of a Cell has at most 63 characters"
type Cell struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:default={}
	// +optional
	Spec   CellSpec   `json:"spec,omitempty"`
	Status CellStatus `json:"status,omitempty"`
}

// CellList is a list of Cells.
//
// +kubebuilder:object:root=true
type CellList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cell `json:"items"`
}

// CellSpec describes a cell. The fields that select its pods are immutable: two aggregators or webhooks with different values
// would count a pod twice, or not review its removal. Create another Cell instead.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.namespaces) && has(self.podSelector))",message="namespaces and podSelector exclude each other"
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) == has(oldSelf.namespaces) && (!has(self.namespaces) || self.namespaces == oldSelf.namespaces)",message="namespaces cannot be changed: create another Cell, and delete this one",fieldPath=".namespaces"
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) == has(oldSelf.podSelector) && (!has(self.podSelector) || self.podSelector == oldSelf.podSelector)",message="podSelector cannot be changed: create another Cell, and delete this one",fieldPath=".podSelector"
type CellSpec struct {
	// KubeconfigSecretRef is the Secret with the kubeconfig of the cell's cluster. It is not needed if the components get a
	// kubeconfig by a flag.
	//
	// +optional
	KubeconfigSecretRef *KubeconfigSecretRef `json:"kubeconfigSecretRef,omitempty"`

	// Namespaces are the namespaces whose pods the cell has, if it does not have all pods of its cluster.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// PodSelector selects the pods of the cell, if it does not have all pods of its cluster. The labels that it uses must not
	// change on pods. The command breakwater webhook-config prints a policy by which the cluster's API server enforces this.
	//
	// +optional
	PodSelector *PodSelector `json:"podSelector,omitempty"`

	// Settlement defines when the cell's reservations are settled. Exact: when the counts that are written in the same write
	// account for them, or when a live read of the pod shows that the removal can no longer succeed. Clock and Status: when any
	// pod of the cell has changed since the reservation, by the clock of the aggregator or by the times in the pods. Clock and
	// Status can violate the floor in a deletion storm.
	//
	// +kubebuilder:default=Exact
	// +optional
	Settlement Settlement `json:"settlement,omitempty"`

	// AdmissionDeadline is the longest time for which an admitted removal may still take effect: the request timeout of the cell's
	// API server plus a margin. An older reservation whose pod is alive is dropped. Too short a deadline can violate the floor.
	//
	// +kubebuilder:default="65s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('5s') && self <= duration('1h')",message="admissionDeadline must be from 5s to 1h"
	// +optional
	AdmissionDeadline *metav1.Duration `json:"admissionDeadline,omitempty"`

	// StaleAfter is the time without a heartbeat of the aggregator after which the cell is stale.
	//
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('20s') && self <= duration('24h')",message="staleAfter must be from 20s to 24h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`

	// WhenStale defines how the pods of a stale cell count for removals in other cells. Trust, the default, uses the last counts.
	// Discount does not count them.
	//
	// +kubebuilder:default=Trust
	// +optional
	WhenStale WhenStale `json:"whenStale,omitempty"`
}

// KubeconfigSecretRef identifies a key of a Secret in the core cluster.
// +kubebuilder:object:generate=false
type KubeconfigSecretRef struct {
	// Namespace of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key of the Secret that has the kubeconfig.
	//
	// +kubebuilder:default=kubeconfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Key string `json:"key,omitempty"`
	// AllowInsecure permits a kubeconfig that does not verify the API server: one with insecure-skip-tls-verify, or with a server that is not https.
	// Anyone between Breakwater and the cell can then read the token and change the counts. Without it such a kubeconfig is rejected.
	//
	// +optional
	AllowInsecure bool `json:"allowInsecure,omitempty"`
	// AllowProxy permits a kubeconfig with a proxy-url. Without it such a kubeconfig is rejected, because Breakwater would connect to an address in
	// its own network that the author of the kubeconfig chose.
	//
	// +optional
	AllowProxy bool `json:"allowProxy,omitempty"`
}

// Settlement defines when reservations are settled.
//
// +kubebuilder:validation:Enum=Exact;Clock;Status
type Settlement string

// The settlement modes.
const (
	SettlementExact  Settlement = "Exact"
	SettlementClock  Settlement = "Clock"
	SettlementStatus Settlement = "Status"
)

// WhenStale defines how the pods of a stale cell count for removals in other cells.
//
// +kubebuilder:validation:Enum=Trust;Discount
type WhenStale string

// The values of WhenStale.
const (
	WhenStaleTrust    WhenStale = "Trust"
	WhenStaleDiscount WhenStale = "Discount"
)

// CellStatus is the observed state of a cell, written by its aggregator and by the topology controller.
type CellStatus struct {
	// Aggregator is the leadership of the cell.
	//
	// +optional
	Aggregator CellAggregator `json:"aggregator,omitempty"`

	// Shards are the aggregators that share the cell, if there are several. Each counts the namespaces of some of the 256 slots.
	// Each writes its own entry, and takes a slot only from a shard that has released it, or whose Lease shows that it is dead.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	// +optional
	Shards []CellShard `json:"shards,omitempty"`

	// Cluster is the UID of the namespace kube-system of the cell's cluster. Breakwater rejects a kubeconfig that leads to another
	// cluster. The aggregator writes it once, if the kubeconfig comes from a Secret.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// Pods is the number of pods in the newest snapshot, or in the newest snapshots of all shards.
	//
	// +optional
	Pods int32 `json:"pods"`

	// Protectors is the number of protectors that the aggregator, or all shards, count pods for.
	//
	// +optional
	Protectors int32 `json:"protectors"`

	// Conditions are Ready, written by the aggregator, Connected, AggregationFresh, Overlapping, Guarded and WebhookAvailable,
	// written by the topology controller, and Listed, written by the inventory controller. In the cluster of a cell with shares,
	// its aggregator writes Joined.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CellShard is one of the aggregators that share a cell.
type CellShard struct {
	// Name of the shard, and of its Lease.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Ring is the ClusterRing that the shard belongs to.
	//
	// +kubebuilder:validation:MaxLength=57
	// +optional
	Ring string `json:"ring,omitempty"`

	// Holder is the incarnation of the shard that has the slots, as in its Lease.
	//
	// +optional
	Holder string `json:"holder,omitempty"`

	// Epoch is the epoch of the slots that the shard took last. Slots that it had before keep their epoch.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Slots are the slots of the shard, as numbers and ranges: 0-12,17. No other shard writes counts for their namespaces, or
	// settles reservations there.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Slots string `json:"slots,omitempty"`

	// LastHeartbeat is the time of the shard's last report, by its own clock.
	//
	// +optional
	LastHeartbeat *metav1.MicroTime `json:"lastHeartbeat,omitempty"`

	// Pods is the number of pods in the shard's newest snapshot.
	//
	// +optional
	Pods int32 `json:"pods"`

	// Protectors is the number of protectors that the shard counts pods for.
	//
	// +optional
	Protectors int32 `json:"protectors"`
}

// CellAggregator is the leadership of a cell.
type CellAggregator struct {
	// Holder is the identity of the leading aggregator, or of the shard that took slots last.
	//
	// +optional
	Holder string `json:"holder,omitempty"`

	// Epoch is increased by each new leader before its first write, and by each shard that takes slots. It is higher than every
	// stored epoch.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// RestoredVersion is the resourceVersion of the core at which a restore from a backup was last detected. Counts of leaderships
	// that began before are void.
	//
	// +optional
	RestoredVersion string `json:"restoredVersion,omitempty"`

	// SeenVersion is the newest resourceVersion of the core that the aggregator of the last report had read. If a later leader
	// reads versions that cannot follow it, the core was restored from a backup.
	//
	// +optional
	SeenVersion string `json:"seenVersion,omitempty"`

	// LastHeartbeat is the time of the last report, by the clock of the leader or of the shard that reported.
	//
	// +optional
	LastHeartbeat *metav1.MicroTime `json:"lastHeartbeat,omitempty"`
}
