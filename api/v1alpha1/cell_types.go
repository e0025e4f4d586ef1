package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cell names a set of pods that is watched as one strongly consistent stream: all pods of one cluster, those of some of
// its namespaces, or those that a selector chooses. Its name is the cellID in the status of protectors.
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

// CellSpec describes a cell. Which pods it has is never changed: two aggregators, or two webhooks, that go by two states of
// that would count a pod twice, or not ask for it at all. Make another Cell instead.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.namespaces) && has(self.podSelector))",message="namespaces and podSelector exclude each other"
// +kubebuilder:validation:XValidation:rule="has(self.namespaces) == has(oldSelf.namespaces) && (!has(self.namespaces) || self.namespaces == oldSelf.namespaces)",message="namespaces cannot be changed: make another Cell, and delete this one",fieldPath=".namespaces"
// +kubebuilder:validation:XValidation:rule="has(self.podSelector) == has(oldSelf.podSelector) && (!has(self.podSelector) || self.podSelector == oldSelf.podSelector)",message="podSelector cannot be changed: make another Cell, and delete this one",fieldPath=".podSelector"
type CellSpec struct {
	// KubeconfigSecretRef is where the kubeconfig of the cell's cluster is. Who names a kubeconfig by a flag does without.
	//
	// +optional
	KubeconfigSecretRef *KubeconfigSecretRef `json:"kubeconfigSecretRef,omitempty"`

	// Namespaces are those whose pods the cell has, when it is not all of its cluster.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	// +optional
	Namespaces []string `json:"namespaces,omitempty"`

	// PodSelector chooses the pods that the cell has, when it is not all of its cluster. The labels that it asks for must
	// not be changed on pods: breakwater webhook-config prints what makes the cluster's apiserver see to that.
	//
	// +optional
	PodSelector *PodSelector `json:"podSelector,omitempty"`

	// Settlement is how the cell's reservations end. Exact: when the very counts that are written with that account for them, or
	// when a read of the pod shows that the removal can no longer succeed. Clock and Status: when anything has happened to any pod of the
	// cell since, by the clock of its aggregator or by the times in its pods. Those two break the promise in a storm.
	//
	// +kubebuilder:default=Exact
	// +optional
	Settlement Settlement `json:"settlement,omitempty"`

	// AdmissionDeadline is the longest time that a removal admitted by Breakwater may still take effect: the
	// request timeout of the cell's apiserver and a margin. A reservation that is older, and whose pod lives,
	// is given back. Too short a deadline breaks the promise.
	//
	// +kubebuilder:default="65s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('5s') && self <= duration('1h')",message="admissionDeadline must be from 5s to 1h"
	// +optional
	AdmissionDeadline *metav1.Duration `json:"admissionDeadline,omitempty"`

	// StaleAfter is how long the aggregator may be silent until the cell is taken for stale.
	//
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:Pattern=`^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="self >= duration('20s') && self <= duration('24h')",message="staleAfter must be from 20s to 24h"
	// +optional
	StaleAfter *metav1.Duration `json:"staleAfter,omitempty"`

	// WhenStale is what the pods of a stale cell count for in the other cells: Trust, the default, what was counted last;
	// Discount, nothing.
	//
	// +kubebuilder:default=Trust
	// +optional
	WhenStale WhenStale `json:"whenStale,omitempty"`
}

// KubeconfigSecretRef is a key of a Secret of the core cluster.
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
	// Key of the Secret, under which the kubeconfig is.
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

// Settlement is how reservations end.
//
// +kubebuilder:validation:Enum=Exact;Clock;Status
type Settlement string

// The ways in which they can.
const (
	SettlementExact  Settlement = "Exact"
	SettlementClock  Settlement = "Clock"
	SettlementStatus Settlement = "Status"
)

// WhenStale is what a silent cell's pods count for elsewhere.
//
// +kubebuilder:validation:Enum=Trust;Discount
type WhenStale string

// What a silent cell's pods can count for.
const (
	WhenStaleTrust    WhenStale = "Trust"
	WhenStaleDiscount WhenStale = "Discount"
)

// CellStatus is the state of a cell, written by its aggregator.
type CellStatus struct {
	// Aggregator is who leads the cell.
	//
	// +optional
	Aggregator CellAggregator `json:"aggregator,omitempty"`

	// Shards are the aggregators that share the cell out among them, if they do: each counts the namespaces of some slots, of
	// which there are 256. Each writes its own entry, and takes a slot only from one that has given it up, or that is dead by
	// its Lease.
	//
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=name
	// +optional
	Shards []CellShard `json:"shards,omitempty"`

	// Cluster is the UID of the namespace kube-system of the cluster that the cell is in, by which it is told from others: a
	// kubeconfig that leads to another one is refused. Written once by the aggregator, if the kubeconfig is from a Secret.
	//
	// +kubebuilder:validation:MaxLength=128
	// +optional
	Cluster string `json:"cluster,omitempty"`

	// Pods is the number of pods in the newest snapshot, or in those of all shards.
	//
	// +optional
	Pods int32 `json:"pods"`

	// Protectors is the number of protectors that the aggregator, or all shards, count for.
	//
	// +optional
	Protectors int32 `json:"protectors"`

	// Conditions are Ready, written by the aggregator, and Connected, AggregationFresh, Overlapping and Guarded, written by
	// the topology controller.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CellShard is one of the aggregators that share a cell out.
type CellShard struct {
	// Name of the shard, which is that of its Lease.
	//
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// Ring is the ClusterRing that it is a shard of.
	//
	// +kubebuilder:validation:MaxLength=57
	// +optional
	Ring string `json:"ring,omitempty"`

	// Holder is the incarnation of the shard that has the slots, as in its Lease.
	//
	// +optional
	Holder string `json:"holder,omitempty"`

	// Epoch is that of the last slots that it has taken. Those that it had before keep theirs.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Slots that it has, as numbers and ranges: 0-12,17. Nobody else writes counts of their namespaces, or settles what is
	// reserved there.
	//
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Slots string `json:"slots,omitempty"`

	// LastHeartbeat is the shard's clock when it last reported.
	//
	// +optional
	LastHeartbeat *metav1.MicroTime `json:"lastHeartbeat,omitempty"`

	// Pods is the number of pods in its newest snapshot.
	//
	// +optional
	Pods int32 `json:"pods"`

	// Protectors is the number of protectors that it counts for.
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

	// Epoch is raised by each new leader before its first write, and by each shard that takes slots, above every epoch stored
	// anywhere.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// RestoredVersion is the resourceVersion of the core at which it was last noticed that it had been restored from a
	// backup. Counts of leaderships that began before are void.
	//
	// +optional
	RestoredVersion string `json:"restoredVersion,omitempty"`

	// SeenVersion is the resourceVersion of the core that the aggregator which reported last had read. Versions that cannot
	// follow on it tell later leaders that the core was restored from a backup.
	//
	// +optional
	SeenVersion string `json:"seenVersion,omitempty"`

	// LastHeartbeat is the leader's clock when it last reported, or that of the shard which reported last.
	//
	// +optional
	LastHeartbeat *metav1.MicroTime `json:"lastHeartbeat,omitempty"`
}
