package snapshot

import (
	"fmt"
	"strconv"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// pod is the part of a pod that the snapshot keeps: only what is counted.
type pod struct {
	hash      quota.UIDHash
	facts     podhealth.Facts
	namespace unique.Handle[string]
	owner     unique.Handle[Owner]
	// node is the name of its node; empty until it is scheduled.
	node   unique.Handle[string]
	labels *LabelSet
	// version is the resourceVersion of the pod; 0 if it is not a number.
	version int64
	// versionSeen is when the snapshot got that version, as of Snapshot.SinceCreation.
	versionSeen time.Duration
	// entered reports that the pod was in another cell before; see pod_set.go.
	entered bool
	// lastList is the number of lists when the pod was last seen: a list drops the pods that it does not contain.
	lastList uint32
	// seenAlive is when a list or live read began that showed the pod alive, as of Snapshot.SinceCreation; 0 is never.
	seenAlive time.Duration
}

// isReady reports whether the pod is available, apart from the time that a protector may require it to have been ready.
func isReady(p *pod) bool { return p.facts.At(0, time.Time{}).Available }

// strip returns the counted parts of a pod, except its labels, which the caller interns.
func strip(p *corev1.Pod) *pod {
	return &pod{
		hash: quota.HashUID(p.UID), facts: podhealth.FactsOf(p), namespace: unique.Make(p.Namespace), owner: ownerOf(p),
		node: unique.Make(p.Spec.NodeName), version: PodVersion(p.ResourceVersion),
	}
}

// PodVersion returns the resourceVersion of a pod as a number; 0 if it is not one.
func PodVersion(resourceVersion string) int64 {
	version, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// stripping returns a function that strips the pods of one list, which began at a time of Snapshot.SinceCreation, one by one as they arrive.
// A reflector collects a list before it passes it on. Whole pods, of about 30 KiB each, would take 200 times the memory of the snapshot.
func stripping(began time.Duration) func(*corev1.Pod) *pod {
	sets := labelSets{}
	return func(whole *corev1.Pod) *pod {
		p := strip(whole)
		p.seenAlive = began
		p.labels = sets.intern(whole.Labels)
		return p
	}
}

var _ cache.TransformingStore = (*Snapshot)(nil)

// Transformer returns a function that strips the pods of a streamed list. The reflector requests a new one for each list.
func (s *Snapshot) Transformer() cache.TransformFunc {
	strip, keeps := stripping(s.SinceCreation()), s.filter.beginList()
	return func(obj any) (any, error) {
		whole, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("the pod stream listed a %T", obj)
		}
		if !keeps(whole.Namespace) || !s.filter.scope.Has(whole.Namespace, whole.Labels) {
			return outsidePod, nil
		}
		return strip(whole), nil
	}
}

// A pod is a runtime.Object because the lists that a reflector requests contain only those.
var _ runtime.Object = (*pod)(nil)

// GetObjectKind returns an empty kind: a stripped pod is never encoded.
func (p *pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns a copy that shares its labels, which do not change.
func (p *pod) DeepCopyObject() runtime.Object {
	copied := *p
	return &copied
}
