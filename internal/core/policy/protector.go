// Package policy computes which protectors a workload should have. It is pure: it maps a workload and policies to the wanted
// protectors.
package policy

import (
	"errors"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Protector is a protector that a workload should have. It contains only the fields that the generator owns. Users may tune the
// fields that neither the workload nor its policy sets.
type Protector struct {
	// Object has name, namespace, labels, annotations and finalizers. Its spec has the selector, the floor, minReadySeconds, and the
	// fields that the policy sets.
	Object *v1alpha1.PodProtector
	// Tuning is the part of spec.admissionHistory that the policy sets.
	Tuning *v1alpha1.AdmissionHistoryTuning
	// Replicas is the number of pods that the source wants over all cells; nil if only the cells have the number.
	Replicas *int32
	// Reason and Message explain the protector to users. The reason is SourceFound, or the reason of a floor that the owner may not
	// expect.
	Reason  string
	Message string
}

// Protectors returns the protectors that a source should have. An error is a mistake in the source, or in what its policy requires of
// it.
func Protectors(source Source, interpreter Interpreter, origin Origin) ([]Protector, error) {
	workloads, err := interpreter.Interpret(source)
	if err != nil {
		return nil, err
	}
	wanted := make([]Protector, 0, len(workloads))
	for i := range workloads {
		p, err := protector(source, &workloads[i], origin)
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, p)
	}
	return wanted, nil
}

// FromDeployment returns the protector that a Deployment should have if only its label asks for one.
func FromDeployment(d *appsv1.Deployment) (Protector, error) {
	wanted, err := Protectors(Source{Kind: appsv1.SchemeGroupVersion.WithKind("Deployment"), Object: d}, Deployments{}, Origin{})
	if err != nil {
		return Protector{}, err
	}
	return wanted[0], nil
}

func protector(source Source, w *Workload, origin Origin) (Protector, error) {
	annotations, err := origin.annotations()
	if err != nil {
		return Protector{}, err
	}
	ref, rule := source.Ref(), &origin.ProtectionRule
	wanted := Protector{
		Object: &v1alpha1.PodProtector{
			ObjectMeta: metav1.ObjectMeta{
				Name:      PartName(ref, w.Part),
				Namespace: ref.Namespace,
				Labels: map[string]string{
					LabelManagedBy:           ManagedBy,
					v1alpha1.LabelSourceKind: ref.Kind,
				},
				Annotations: map[string]string{
					v1alpha1.AnnotationSourceName:       ref.Name,
					v1alpha1.AnnotationSourceAPIVersion: source.Kind.GroupVersion().String(),
					v1alpha1.AnnotationSourceUID:        string(source.Object.GetUID()),
				},
				Finalizers: []string{v1alpha1.FinalizerProtector},
			},
			Spec: v1alpha1.PodProtectorSpec{
				Selector:            &w.Selector,
				MinReadySeconds:     w.MinReadySeconds,
				Criterion:           rule.Criterion,
				Operations:          rule.Operations,
				ExemptPodSelector:   rule.ExemptPodSelector,
				Spread:              rule.Spread,
				CoreOutage:          rule.CoreOutage,
				TargetRemovalPolicy: rule.TargetRemovalPolicy,
			},
		},
		Tuning:  rule.AdmissionHistory,
		Reason:  v1alpha1.ReasonSourceFound,
		Message: fmt.Sprintf("Protects the pods of %s%s%s.", ref, partText(w.Part), originText(origin)),
	}
	maps.Copy(wanted.Object.Annotations, annotations)
	if w.Part != "" {
		wanted.Object.Annotations[v1alpha1.AnnotationSourcePart] = w.Part
	}
	if rule.MinReadySeconds != nil {
		wanted.Object.Spec.MinReadySeconds = *rule.MinReadySeconds
	}
	if err := setFloor(&wanted.Object.Spec, rule.Floor, w); err != nil {
		return Protector{}, err
	}
	if fromStrategy := rule.Floor == nil || rule.Floor.FromStrategy != nil; fromStrategy && w.Strategy.Reason != "" {
		wanted.Reason = w.Strategy.Reason
		wanted.Message = fmt.Sprintf("%s%s %s%s", ref, partText(w.Part), w.Strategy.Message, originSentence(origin))
	}
	if w.Replicas != nil && *w.Replicas == 0 {
		wanted.Reason = v1alpha1.ReasonScaledToZero
		wanted.Message = fmt.Sprintf("%s%s is scaled to 0: nothing is protected until it is scaled up.%s", ref, partText(w.Part), originSentence(origin))
	}
	wanted.Replicas = w.Replicas
	return wanted, nil
}

func partText(part string) string {
	if part == "" {
		return ""
	}
	return ", part " + part
}

func originText(origin Origin) string {
	if origin.Policy == "" {
		return ""
	}
	return ", by " + origin.Policy
}

func originSentence(origin Origin) string {
	if origin.Policy == "" {
		return ""
	}
	return " By " + origin.Policy + "."
}

// podSelector converts a workload's selector. It returns an error for nil: a nil selector selects no pods, but an empty PodSelector
// would select all.
func podSelector(from *metav1.LabelSelector) (v1alpha1.PodSelector, error) {
	if from == nil {
		return v1alpha1.PodSelector{}, errors.New("spec.selector is missing")
	}
	return *v1alpha1.PodSelectorOf(from).DeepCopy(), nil
}
