package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cell names a set of pods that is watched as one strongly consistent stream: here, all pods of one cluster.
// Its name is the cellID in the status of protectors.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=breakwater
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
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

// CellSpec describes a cell.
type CellSpec struct {
	// AdmissionDeadline is the longest time that a removal admitted by Breakwater may still take effect: the
	// request timeout of the cell's apiserver and a margin. A reservation that is older, and whose pod lives,
	// is given back. Too short a deadline breaks the promise.
	//
	// +kubebuilder:default="65s"
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="self >= duration('5s') && self <= duration('1h')",message="admissionDeadline must be from 5s to 1h"
	// +optional
	AdmissionDeadline *metav1.Duration `json:"admissionDeadline,omitempty"`
}

// CellStatus is the state of a cell, written by its aggregator.
type CellStatus struct {
	// Aggregator is who leads the cell.
	//
	// +optional
	Aggregator CellAggregator `json:"aggregator,omitempty"`

	// Pods is the number of pods in the newest snapshot.
	//
	// +optional
	Pods int32 `json:"pods"`

	// Protectors is the number of protectors that the aggregator counts for.
	//
	// +optional
	Protectors int32 `json:"protectors"`

	// Conditions are Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CellAggregator is the leadership of a cell.
type CellAggregator struct {
	// Holder is the identity of the leading aggregator.
	//
	// +optional
	Holder string `json:"holder,omitempty"`

	// Epoch is raised by each new leader before its first write, above every epoch stored anywhere.
	//
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// RestoredVersion is the resourceVersion of the core at which it was last noticed that it had been restored from a
	// backup. Counts of leaderships that began before are void.
	//
	// +optional
	RestoredVersion string `json:"restoredVersion,omitempty"`

	// LastHeartbeat is the leader's clock when it last reported.
	//
	// +optional
	LastHeartbeat *metav1.MicroTime `json:"lastHeartbeat,omitempty"`
}
