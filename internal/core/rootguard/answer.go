package rootguard

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/confirm"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
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
	// Text is the warning or the denial, in one sentence. It is empty if there is none. A dry run also has one if the deletion needs no
	// confirmation, but floors depend on the object.
	Text string
	// Floors is the number of live floors that depend on the object and whose release is not confirmed. Pods is the number of pods that
	// they keep available over all cells. LocalPods is the number of available pods that they have in the cluster.
	Floors, Pods, LocalPods int
	// Shares is the number of shares, stored in the cluster, by which Floors includes floors. Pods includes what these shares keep.
	Shares int
}

// Deletion is a deletion that a client requests.
type Deletion struct {
	Mode    Mode
	Cluster ClusterIdentity
	Object  *Object
	// User and Groups identify the client.
	User   string
	Groups []string
	// DryRun reports whether the client only asks what the deletion would do.
	DryRun bool
	// OnCascade is the generator's policy for cascades, where the policy of a floor has none. Empty is Hold. It affects only texts.
	OnCascade v1alpha1.CascadePolicy
	Now       time.Time
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
	depending, confirmed := q.depending(floors)
	a := count(depending)
	switch {
	case len(depending) == 0 && len(confirmed) == 0:
		a.Reason = NoFloor
		return a
	case len(depending) == 0 || q.isConfirmed():
		a.Reason = Confirmed
	case q.Object.Replicas != nil && *q.Object.Replicas == 0:
		a.Reason = ScaledToZero
	case q.Mode == Deny:
		a.Reason, a.Text = Denied, q.denial(depending)
		return a
	case IsSystem(q.User, q.Groups):
		a.Reason = SystemClient
		return a
	default:
		a.Reason = Warned
	}
	if a.Reason == Warned || q.DryRun {
		a.Text = q.warning(slices.Concat(depending, confirmed))
	}
	return a
}

// depending returns the floors that depend on the object: those whose release is not confirmed on the PodProtector, and those whose release
// is. It leaves out shares of floors that depend on the object themselves.
func (q *Deletion) depending(floors []Floor) (depending, confirmed []*Floor) {
	whole := map[types.NamespacedName][]*Floor{}
	add := func(f *Floor) {
		if f.Confirmed {
			confirmed = append(confirmed, f)
		} else {
			depending = append(depending, f)
		}
	}
	for i := range floors {
		if f := &floors[i]; f.share == nil && f.DependsOn(q.Object) {
			whole[f.Key] = append(whole[f.Key], f)
			add(f)
		}
	}
	for i := range floors {
		f := &floors[i]
		if f.share == nil || !f.DependsOn(q.Object) {
			continue
		}
		of := whole[types.NamespacedName{Namespace: f.Key.Namespace, Name: f.share.Name}]
		if !slices.ContainsFunc(of, func(g *Floor) bool { return quota.IsShareOf(f.share, g.protector) }) {
			add(f)
		}
	}
	return depending, confirmed
}

// count returns the numbers of an answer.
func count(depending []*Floor) (a Answer) {
	shared := map[string]bool{} // the UIDs of the protectors of shares
	for _, f := range depending {
		a.Pods, a.LocalPods = a.Pods+f.Pods, a.LocalPods+f.LocalPods
		if f.share == nil {
			a.Floors++
			continue
		}
		a.Shares++
		if !shared[f.share.UID] {
			shared[f.share.UID] = true
			a.Floors++
		}
	}
	return a
}

func (q *Deletion) isConfirmed() bool {
	return confirm.Confirmed(q.Object.Annotations, q.Now) || confirm.Confirmed(q.Object.NamespaceAnnotations, q.Now)
}
