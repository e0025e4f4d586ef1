package rootguard

import (
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
)

// Reason is the reason for an answer, as one word for metrics and the audit log.
type Reason string

// The reasons that Decide returns. Only Denied denies the deletion, and only Warned warns.
const (
	// NoFloor means that no live floor depends on the object.
	NoFloor Reason = "NoFloor"
	// Terminating means that the object is being deleted already.
	Terminating Reason = "Terminating"
	// Controlled means that the object is a ReplicaSet of a Deployment, whose own deletion was reviewed.
	Controlled Reason = "Controlled"
	// Confirmed means that AnnotationConfirmRelease is set on the object, on its namespace or on all PodProtectors that depend on it.
	Confirmed Reason = "Confirmed"
	// ScaledToZero means that the object has spec.replicas 0.
	ScaledToZero Reason = "ScaledToZero"
	// SystemClient means that the client is a Kubernetes component, which ignores warnings.
	SystemClient Reason = "SystemClient"
	// Warned means that the deletion is allowed with a warning.
	Warned Reason = "Warned"
	// Denied means that the deletion is denied.
	Denied Reason = "Denied"
)

// Answer is the answer to a deletion.
type Answer struct {
	Reason Reason
	// Text is the warning or the denial, in one sentence. It is empty if there is none.
	Text string
	// Floors is the number of live floors that depend on the object and whose release is not confirmed. Pods is the number of pods that
	// they keep available over all cells. Here is the number of available pods that they have in the cluster.
	Floors, Pods, LocalPods int
}

// Deletion is a deletion that a client requests.
type Deletion struct {
	Mode    Mode
	Cluster ClusterIdentity
	Object  *Object
	// User and Groups identify the client.
	User   string
	Groups []string
	Now    time.Time
}

// AllowedReason returns the reason for which the deletion is allowed regardless of the floors. It is empty if the floors decide.
func (q *Deletion) AllowedReason() Reason {
	switch o := q.Object; {
	case q.Mode == Off:
		return NoFloor
	case o.Terminating:
		return Terminating
	case o.isControlledByDeployment():
		return Controlled
	}
	return ""
}

// Decide answers the question, given the floors of all PodProtectors that may depend on the object.
func (q *Deletion) Decide(floors []Floor) Answer {
	if reason := q.AllowedReason(); reason != "" {
		return Answer{Reason: reason}
	}
	a, depending, confirmed := Answer{}, []*Floor(nil), 0
	for i := range floors {
		f := &floors[i]
		if !f.DependsOn(q.Object) {
			continue
		}
		if f.Confirmed {
			confirmed++
			continue
		}
		depending = append(depending, f)
		a.Floors, a.Pods, a.LocalPods = a.Floors+1, a.Pods+f.Pods, a.LocalPods+f.LocalPods
	}
	switch {
	case len(depending) == 0 && confirmed == 0:
		a.Reason = NoFloor
	case len(depending) == 0 || q.isConfirmed():
		a.Reason = Confirmed
	case q.Object.Replicas != nil && *q.Object.Replicas == 0:
		a.Reason = ScaledToZero
	case q.Mode == Deny:
		a.Reason, a.Text = Denied, q.denial(&a)
	case IsSystem(q.User, q.Groups):
		a.Reason = SystemClient
	default:
		a.Reason, a.Text = Warned, q.warning(&a, depending)
	}
	return a
}

func (q *Deletion) isConfirmed() bool {
	return confirm.Confirmed(q.Object.Annotations, q.Now) || confirm.Confirmed(q.Object.NamespaceAnnotations, q.Now)
}
