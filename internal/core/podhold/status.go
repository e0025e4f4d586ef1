package podhold

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// AnnotationStatus is the annotation of a Node with the Status of its guard, as JSON.
	AnnotationStatus = "breakwater.dev/node-guard"
	// AnnotationRelease is the annotation of a Node with the UIDs of the held pods that a user releases, separated by commas. The guard removes it.
	AnnotationRelease = "breakwater.dev/node-guard-release"
)

// Status is what the guard of a node reports.
type Status struct {
	Version string `json:"version"`
	// Held are the held pods, at most MaxReported.
	Held []HeldPod `json:"held,omitempty"`
	// HeldCount is the number of held pods, and Registered that of pods that were registered again and still run.
	HeldCount  int `json:"heldCount"`
	Registered int `json:"registered"`
	// Question is what the guard asks the aggregators; nil for nothing.
	Question *Question `json:"question,omitempty"`
	// OtherCluster says why the guard refuses connections to the API server; empty if it does not.
	OtherCluster string `json:"otherCluster,omitempty"`
}

// HeldPod is a pod that a guard holds.
type HeldPod struct {
	Namespace string      `json:"namespace"`
	Name      string      `json:"name"`
	UID       types.UID   `json:"uid"`
	Since     metav1.Time `json:"since"`
	// Reason says why the pod is not registered again yet.
	Reason string `json:"reason,omitempty"`
}

const (
	// MaxReported limits the pods of a Status. All annotations of an object may have 256 KiB.
	MaxReported = 200
	maxReason   = 300
)

// StatusOf returns the status of a guard that sees these pods. reasons says why held pods are not registered, by UID.
func StatusOf(version string, pods []Entry, reasons map[types.UID]string, otherCluster string) Status {
	s := Status{Version: version, OtherCluster: otherCluster}
	for _, e := range pods {
		switch {
		case e.IsHeld():
			s.HeldCount++
			if len(s.Held) < MaxReported {
				s.Held = append(s.Held, HeldPod{
					Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID, Since: metav1.NewTime(e.HeldSince), Reason: shorten(reasons[e.Pod.UID]),
				})
			}
		case e.Registered != "":
			s.Registered++
		}
	}
	return s
}

func shorten(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "..."
}

// Releases returns the UIDs in the annotation AnnotationRelease.
func Releases(annotation string) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for one := range strings.SplitSeq(annotation, ",") {
		if one = strings.TrimSpace(one); one != "" {
			uids[types.UID(one)] = true
		}
	}
	return uids
}

// WithRelease returns the annotation AnnotationRelease with one more UID.
func WithRelease(annotation string, uid types.UID) string {
	uids := Releases(annotation)
	uids[uid] = true
	var texts []string
	for _, one := range slices.SortedFunc(maps.Keys(uids), cmp.Compare[types.UID]) {
		texts = append(texts, string(one))
	}
	return strings.Join(texts, ",")
}
