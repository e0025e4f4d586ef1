package policy

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Origin is what a protector is made by: the policy that applies to its workload, or nothing but the workload's label.
type Origin struct {
	// Policy is its name, as ProtectionPolicy/web; empty for the label.
	Policy string
	// Removed tells that the policy was deleted on purpose and the protector kept, as its condition says.
	Removed bool
	Record
}

// Record is what of a policy counts for a workload. It stands on each protector, so that the protector goes on being what
// it was when the policy is gone.
type Record struct {
	v1alpha1.ProtectionRule `json:",inline"`
	// TemplatePath is that of the workload's kind.
	TemplatePath string `json:"templatePath,omitempty"`
}

// annotations are those that an origin leaves on a protector.
func (o Origin) annotations() (map[string]string, error) {
	if o.Policy == "" {
		return nil, nil
	}
	record, err := json.Marshal(o.Record)
	if err != nil {
		return nil, fmt.Errorf("note the rule of %s: %w", o.Policy, err)
	}
	return map[string]string{v1alpha1.AnnotationPolicy: o.Policy, v1alpha1.AnnotationPolicyRule: string(record)}, nil
}

// OriginOf reads what a protector was made by. An error means that a hand has changed the record beyond reading; the
// policy is known all the same.
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

// IsBy tells whether a protector was made by an origin, and by all that it asks for now.
func IsBy(p *v1alpha1.PodProtector, origin Origin) bool {
	want, err := origin.annotations()
	return err == nil && p.Annotations[v1alpha1.AnnotationPolicy] == want[v1alpha1.AnnotationPolicy] &&
		p.Annotations[v1alpha1.AnnotationPolicyRule] == want[v1alpha1.AnnotationPolicyRule]
}

// setFloor gives a protector the floor that a rule asks for. It is a number wherever the source tells how many pods it
// wants; otherwise the cells have to tell.
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
		return setShare(spec, rule.PodShare, w.Replicas)
	case w.Replicas == nil:
		return errors.New("its policy's floor has bands by size, and the source does not tell how many pods it wants")
	}
	for _, band := range rule.Bands {
		if band.UpToReplicas == nil || *w.Replicas <= *band.UpToReplicas {
			return setShare(spec, band.PodShare, w.Replicas)
		}
	}
	return errors.New("its policy's floor has no band for its size")
}

// setShare reckons as quota.Floor does: percentages are rounded up. A number of pods that must be available is never more
// than the source wants: nobody could be removed any more after a scale-down on purpose.
func setShare(spec *v1alpha1.PodProtectorSpec, share v1alpha1.PodShare, replicas *int32) error {
	of := share.MinAvailable
	if of == nil {
		of = share.MaxUnavailable
	}
	switch {
	case of == nil:
		return errors.New("its policy's floor says nothing")
	case replicas == nil:
		spec.MinAvailable, spec.MaxUnavailable = share.MinAvailable, share.MaxUnavailable
		return nil
	}
	pods, err := intstr.GetScaledValueFromIntOrPercent(of, int(*replicas), true)
	if err != nil {
		return fmt.Errorf("its policy's floor: %w", err)
	}
	if share.MinAvailable == nil {
		pods = int(*replicas) - pods
	}
	spec.MinAvailable = v1alpha1.Pods(int32(max(0, min(pods, int(*replicas))))) //nolint:gosec // no more than replicas
	return nil
}
