package rootguard

import (
	"time"

	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
)

// Reason is why a deletion was answered as it was, in one word for metrics and the audit log.
type Reason string

// The reasons that Decide gives. Only Denied refuses the deletion, and only Warned warns.
const (
	// NoFloor has no live floor that depends on the object.
	NoFloor Reason = "NoFloor"
	// Terminating is being deleted already.
	Terminating Reason = "Terminating"
	// Controlled is a ReplicaSet of a Deployment, which was asked about.
	Controlled Reason = "Controlled"
	// Confirmed has AnnotationConfirmRelease on the object, on its namespace or on all PodProtectors that depend on it.
	Confirmed Reason = "Confirmed"
	// ScaledToZero has spec.replicas 0.
	ScaledToZero Reason = "ScaledToZero"
	// SystemClient is a request of a Kubernetes component, which reads no warnings.
	SystemClient Reason = "SystemClient"
	// Warned is allowed with a warning.
	Warned Reason = "Warned"
	// Denied is refused.
	Denied Reason = "Denied"
)

// Answer is what a client is told.
type Answer struct {
	Reason Reason
	// Text is the warning or the refusal, in one sentence; empty when there is none.
	Text string
	// Floors is the number of live floors that depend on the object, whose release is not confirmed. Pods is how many pods
	// they keep available over all cells, and Here how many available pods they have in the cluster.
	Floors, Pods, Here int
}

// Question is a deletion that a client asks for.
type Question struct {
	Mode   Mode
	At     Place
	Object *Object
	// User and Groups are those of the client.
	User   string
	Groups []string
	Now    time.Time
}

// Passes is the reason for which the deletion is allowed whatever the floors are; empty when they decide.
func (q *Question) Passes() Reason {
	switch o := q.Object; {
	case q.Mode == Off:
		return NoFloor
	case o.Terminating:
		return Terminating
	case o.isOfDeployment():
		return Controlled
	}
	return ""
}

// Decide answers by the floors of all PodProtectors that may depend on the object.
func (q *Question) Decide(floors []Floor) Answer {
	if reason := q.Passes(); reason != "" {
		return Answer{Reason: reason}
	}
	a, depending, confirmed := Answer{}, []*Floor(nil), 0
	for i := range floors {
		f := &floors[i]
		if !f.Depends(q.Object) {
			continue
		}
		if f.Confirmed {
			confirmed++
			continue
		}
		depending = append(depending, f)
		a.Floors, a.Pods, a.Here = a.Floors+1, a.Pods+f.Pods, a.Here+f.Here
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

func (q *Question) isConfirmed() bool {
	return confirm.Confirmed(q.Object.Annotations, q.Now) || confirm.Confirmed(q.Object.NamespaceAnnotations, q.Now)
}
