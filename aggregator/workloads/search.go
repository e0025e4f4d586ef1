package workloads

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/aggregator/snapshot"
	"github.com/breakwater-k8s/breakwater/internal/core/workload"
)

// errUncounted can be resolved only by another spec, by other pods, or by a controller that changes.
var errUncounted = errors.New("set spec.expectedReplicas")

// isUnknown reports whether an error says that the number of pods is unknown, and not only that it could not be read now.
func isUnknown(err error) bool {
	return errors.Is(err, errUncounted) || errors.Is(err, errNotListed) || apierrors.IsInternalError(err)
}

// workloadSearch finds the workload that states how many of some pods there should be (rule 16).
type workloadSearch struct {
	workloads *workloads
	namespace string
	// pods are the distinct labels of the pods. There are none if the workload has no pods left.
	pods []*snapshot.LabelSet
	// last is the previous result for these pods; the zero value if there is none.
	last searchResult
	// isExpected reports whether a controller was found before for any pods of the protector.
	isExpected func(types.UID) bool

	// asked are the objects on which the result depends.
	asked []workloadName
	// isUnread reports that a workload exists whose scale could not be read.
	isUnread bool
}

// find finds the workload of the pods whose controller is bottom. The result has what it depends on also if find returns an error.
//
// The controller of an object never changes, so the last workload is still known when bottom no longer exists. A workload that no longer
// exists is succeeded by another one of its kind and name.
func (s *workloadSearch) find(ctx context.Context, bottom snapshot.Owner) (searchResult, error) {
	result, err := s.ascend(ctx, bottom)
	result.asked = s.asked
	return result, err
}

func (s *workloadSearch) ascend(ctx context.Context, bottom snapshot.Owner) (searchResult, error) {
	at, isDirect, isKnown := bottom, true, s.isRecorded(bottom)
	var silent []string // why the controllers below do not state the number
	for range maxOwnerChain {
		object, kindNotServed, err := s.read(ctx, at)
		if err != nil {
			return searchResult{}, err
		}
		exists := object != nil && object.UID == at.UID
		switch {
		case !exists && at == bottom && s.last.workload != snapshot.NoOwner() && s.last.workload != bottom:
			at, isKnown = s.last.workload, true // the ReplicaSet no longer exists, but its Deployment may
			continue
		case object == nil:
			return s.deleted(at, kindNotServed), nil
		}
		at.UID = object.UID
		if controller := snapshot.ControllerOf(object); workload.IsReplaceable(at.GroupKind()) && controller != snapshot.NoOwner() {
			if result, replaced, err := s.replacement(ctx, controller); err != nil || replaced {
				return result, err
			}
		}
		size, err := s.workloads.sizeOf(ctx, at, object)
		if err != nil {
			s.isUnread = true
			return searchResult{}, describe(err)
		}
		scale, err := s.scaleOf(at, size)
		if err != nil {
			return searchResult{}, fmt.Errorf("%s %s: %w", at.Kind, at.Name, err)
		}
		if isKnown && !scale.Exists && len(s.pods) == 0 {
			return searchResult{workload: at, isSilent: true}, nil // rule 16
		}
		if isKnown || workload.Decide(scale, isDirect) == workload.Counts {
			return searchResult{workload: at, replicas: size.replicas, selector: size.selector, above: snapshot.Above(object)}, nil
		}
		silent = append(silent, reason(at, scale))
		if at, isDirect = snapshot.Above(object), false; at == snapshot.NoOwner() {
			return searchResult{}, fmt.Errorf("%s: %w", strings.Join(silent, ", "), errUncounted)
		}
	}
	return searchResult{}, fmt.Errorf("%s %s has more than %d controllers above it", bottom.Kind, bottom.Name, maxOwnerChain)
}

// isRecorded reports whether a controller without pods stated their number before. Then nothing else shows that it does.
func (s *workloadSearch) isRecorded(o snapshot.Owner) bool {
	return len(s.pods) == 0 && s.isExpected(o.UID)
}

// read reads the metadata of an object, and records that the result depends on it.
func (s *workloadSearch) read(ctx context.Context, at snapshot.Owner) (object *metav1.PartialObjectMetadata, kindNotServed bool, err error) {
	s.asked = append(s.asked, s.workloads.nameOf(at, s.namespace))
	object, err = s.workloads.object(ctx, s.namespace, at, s.last.deleted && !s.last.kindNotServed)
	if meta.IsNoMatchError(err) {
		return nil, true, nil
	}
	return object, false, err
}

// deleted returns the result for a workload that no longer exists, with its last size if that is known.
func (s *workloadSearch) deleted(at snapshot.Owner, kindNotServed bool) searchResult {
	result := searchResult{workload: at, deleted: true, kindNotServed: kindNotServed}
	if at == s.last.workload {
		result.replicas = s.last.replicas
	}
	return result
}

// replacement returns the controller of a ReplicaSet or ReplicationController, if it states the number of the pods of all its sets.
func (s *workloadSearch) replacement(ctx context.Context, controller snapshot.Owner) (result searchResult, replaced bool, err error) {
	hasReplaced := workload.IsDeployment(controller.GroupKind()) || controller == s.last.workload || s.isExpected(controller.UID)
	object, kindNotServed, err := s.read(ctx, controller)
	switch {
	case errors.Is(err, errNotListed) && !hasReplaced:
		return searchResult{}, false, nil // nothing shows that it replaces the set, which states a number itself
	case err != nil:
		return searchResult{}, false, err
	case object == nil: // nothing shows of another controller that no longer exists whether it replaced the set
		return s.deleted(controller, kindNotServed), hasReplaced, nil
	}
	controller.UID = object.UID
	size, err := s.workloads.sizeOf(ctx, controller, object)
	switch {
	case apierrors.IsInternalError(err) && !hasReplaced:
		return searchResult{}, false, nil // its scale never stated a number, as one without spec.replicas
	case err != nil:
		s.isUnread = true
		return searchResult{}, false, describe(err)
	}
	scale, err := s.scaleOf(controller, size)
	if err != nil {
		return searchResult{}, false, fmt.Errorf("%s %s: %w", controller.Kind, controller.Name, err)
	}
	if replaced = workload.Replaces(scale); len(s.pods) == 0 {
		replaced = replaced && hasReplaced
	}
	return searchResult{workload: controller, replicas: size.replicas, selector: size.selector, above: snapshot.Above(object)}, replaced, nil
}

// scaleOf compares the scale of a controller with the pods.
func (s *workloadSearch) scaleOf(at snapshot.Owner, now size) (workload.Scale, error) {
	scale := workload.Scale{Exists: now.hasScale}
	if !now.hasScale {
		return scale, nil
	}
	if workload.SelectsOwnPods(at.GroupKind()) {
		scale.Selection = workload.SelectsAll
		return scale, nil
	}
	var err error
	scale.Selection, err = workload.SelectionOf(now.selector, labelsOf(s.pods))
	return scale, err
}

// describe adds the remedy to the error of a scale that states no number, as one whose object does not set its replicas.
func describe(err error) error {
	if apierrors.IsInternalError(err) {
		return fmt.Errorf("%w; set its number of replicas, or spec.expectedReplicas", err)
	}
	return err
}

// reason explains why a controller does not state the number of the pods.
func reason(at snapshot.Owner, scale workload.Scale) string {
	switch {
	case !scale.Exists:
		return fmt.Sprintf("%s %s has no scale subresource", at.Kind, at.Name)
	case scale.Selection == workload.Unstated:
		return fmt.Sprintf("the scale of %s %s has no selector", at.Kind, at.Name)
	default:
		return fmt.Sprintf("the scale of %s %s selects other pods", at.Kind, at.Name)
	}
}

// labelsOf returns sets of labels as maps. The next one reuses the memory of the last.
func labelsOf(sets []*snapshot.LabelSet) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		buffer := map[string]string{}
		for _, set := range sets {
			if !yield(set.ToMap(buffer)) {
				return
			}
		}
	}
}

// isBelow reports whether an owner is one of the controllers above the pods of another one.
func (s *workloadSearch) isBelow(ctx context.Context, bottom snapshot.Owner, upper types.UID) (bool, error) {
	at := bottom
	for range maxOwnerChain {
		object, _, err := s.read(ctx, at)
		if err != nil || object == nil {
			return false, err
		}
		if at = snapshot.Above(object); at == snapshot.NoOwner() || at.UID == upper {
			return at.UID == upper, nil
		}
	}
	return false, nil
}
