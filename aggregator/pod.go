package aggregator

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

// pod is what is kept of a pod: as much as is counted.
type pod struct {
	hash      quota.UIDHash
	facts     podhealth.Facts
	namespace unique.Handle[string]
	owner     unique.Handle[owner]
	// node is the name of its node; empty until it has one.
	node   unique.Handle[string]
	labels *labelSet
	// version is the resourceVersion of the pod; 0 when it is not a number.
	version int64
	// came tells that the pod was in another cell before; see stray.go.
	came bool
	// seenAlive is when a list or live read began that has shown the pod alive, of Snapshot.sinceBegan; 0 is never.
	seenAlive time.Duration
	// list is how many lists there had been when the pod was last seen: a list drops those that it does not show.
	list uint32
}

// isReady tells whether the pod is as good as available: but for the time that a protector may want it to have been so.
func isReady(p *pod) bool { return p.facts.At(0, time.Time{}).Available }

// strip takes from a pod what is counted, but for its labels, which need a place where they are shared.
func strip(p *corev1.Pod) *pod {
	return &pod{
		hash: quota.HashUID(p.UID), facts: podhealth.FactsOf(p), namespace: unique.Make(p.Namespace), owner: ownerOf(p),
		node: unique.Make(p.Spec.NodeName), version: podVersion(p.ResourceVersion),
	}
}

// podVersion is the resourceVersion of a pod as a number; 0 when it is none.
func podVersion(resourceVersion string) int64 {
	version, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// stripping strips the pods of one list that began at a time of Snapshot.sinceBegan, one by one as they arrive. A reflector gathers a list before it hands it
// over, and whole pods, of some 30 KiB each, would take 200 times the memory of the snapshot that they are for.
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

// Transformer strips the pods of a list that is streamed. The reflector asks for a new one for each list.
func (s *Snapshot) Transformer() cache.TransformFunc {
	strip, keeps := stripping(s.sinceBegan()), s.beginList()
	return func(obj any) (any, error) {
		whole, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, fmt.Errorf("the pod stream listed a %T", obj)
		}
		if !keeps(whole.Namespace) || !s.scope.Has(whole.Namespace, whole.Labels) {
			return outside, nil
		}
		return strip(whole), nil
	}
}

// A pod is a runtime.Object because a list that a reflector asks for holds nothing else.
var _ runtime.Object = (*pod)(nil)

// GetObjectKind returns none: what is stripped is never encoded.
func (p *pod) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns a pod that shares its labels, which do not change.
func (p *pod) DeepCopyObject() runtime.Object {
	copied := *p
	return &copied
}
