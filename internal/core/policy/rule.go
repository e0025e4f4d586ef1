package policy

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Origin is the reason why a protector exists: the policy that applies to its workload, or only the workload's label.
type Origin struct {
	// Policy is the name of the policy, as ProtectionPolicy/web. It is empty for the label.
	Policy string
	// Removed reports whether a user deleted the policy and the protector was retained, as its condition records.
	Removed bool
	Record
}

// Record is the part of a policy that applies to a workload. It is recorded on each protector, so that the protector stays as it was
// after the policy disappears.
type Record struct {
	v1alpha1.ProtectionRule `json:",inline"`
	// TemplatePath is the templatePath of the workload's kind.
	TemplatePath string `json:"templatePath,omitempty"`
}

// annotations returns the annotations that record an origin on a protector.
func (o Origin) annotations() (map[string]string, error) {
	if o.Policy == "" {
		return nil, nil
	}
	record, err := json.Marshal(o.Record)
	if err != nil {
		return nil, fmt.Errorf("encode the rule of %s: %w", o.Policy, err)
	}
	return map[string]string{v1alpha1.AnnotationPolicy: o.Policy, v1alpha1.AnnotationPolicyRule: string(record)}, nil
}

// OriginOf returns the recorded origin of a protector. It returns an error if the record cannot be parsed, because a user changed it.
// The returned origin then still names the policy.
func OriginOf(p *v1alpha1.PodProtector) (Origin, error) {
	o := Origin{Policy: p.Annotations[v1alpha1.AnnotationPolicy], Removed: isPolicyRemoved(p)}
	if o.Policy == "" {
		return Origin{}, nil
	}
	if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationPolicyRule]), &o.Record); err != nil {
		return o, fmt.Errorf("the annotation %s: %w", v1alpha1.AnnotationPolicyRule, err)
	}
	return o, nil
}

func isPolicyRemoved(p *v1alpha1.PodProtector) bool {
	c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
	return c != nil && c.Reason == v1alpha1.ReasonPolicyDeleted
}

// HasOrigin reports whether a protector has this origin, with the current rule of its policy.
func HasOrigin(p *v1alpha1.PodProtector, origin Origin) bool {
	want, err := origin.annotations()
	return err == nil && p.Annotations[v1alpha1.AnnotationPolicy] == want[v1alpha1.AnnotationPolicy] &&
		p.Annotations[v1alpha1.AnnotationPolicyRule] == want[v1alpha1.AnnotationPolicyRule]
}

// setFloor sets the floor of a protector as a rule defines it. The floor is a number if the source specifies how many pods it wants.
// Otherwise it depends on the numbers that the cells report.
func setFloor(spec *v1alpha1.PodProtectorSpec, rule *v1alpha1.FloorRule, w *Workload) error {
	switch {
	case rule == nil || rule.FromStrategy != nil:
		if w.Replicas == nil {
			spec.MaxUnavailable = &w.Strategy.MaxUnavailable
		} else {
			spec.MinAvailable = v1alpha1.Pods(w.Strategy.MinAvailable)
		}
		return nil
	case len(rule.Bands) == 0:
		return setFloorFromShare(spec, rule.PodShare, w.Replicas)
	case w.Replicas == nil:
		return errors.New("its policy's floor has bands by size, and only the cells know how many pods the source wants: set a percentage")
	}
	for _, band := range rule.Bands {
		if band.UpToReplicas == nil || *w.Replicas <= *band.UpToReplicas {
			return setFloorFromShare(spec, band.PodShare, w.Replicas)
		}
	}
	return errors.New("its policy's floor has no band for its size")
}

// setFloorFromShare computes the floor as quota.Floor does, with percentages rounded up. The resulting minAvailable never exceeds the number
// of pods that the source wants. Otherwise an intended scale-down would block all removals.
func setFloorFromShare(spec *v1alpha1.PodProtectorSpec, share v1alpha1.PodShare, replicas *int32) error {
	value := share.MinAvailable
	if value == nil {
		value = share.MaxUnavailable
	}
	switch {
	case value == nil:
		return errors.New("its policy's floor is empty")
	case replicas == nil:
		spec.MinAvailable, spec.MaxUnavailable = share.MinAvailable, share.MaxUnavailable
		return nil
	}
	pods, err := intstr.GetScaledValueFromIntOrPercent(value, int(*replicas), true)
	if err != nil {
		return fmt.Errorf("its policy's floor: %w", err)
	}
	if share.MinAvailable == nil {
		pods = int(*replicas) - pods
	}
	spec.MinAvailable = v1alpha1.Pods(int32(max(0, min(pods, int(*replicas))))) //nolint:gosec // no more than replicas
	return nil
}
