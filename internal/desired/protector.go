// Package desired says which protector a workload should have. It is pure: a workload goes in, the wanted
// protector comes out.
package desired

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Protector is what a workload asks for. It holds only what the generator owns: everything else in a protector,
// spec.admissionHistory above all, is its users' to tune.
type Protector struct {
	// Object has a name, a namespace, labels, annotations, finalizers, and of its spec selector, minAvailable
	// and minReadySeconds.
	Object *v1alpha1.PodProtector
	// Reason and Message explain the protector to people: the reason is SourceFound, or RecreateStrategy for a
	// floor of 0 that its owner may not expect.
	Reason  string
	Message string
}

// FromDeployment returns the protector that a Deployment should have. An error is a mistake in the Deployment,
// which its owner must correct.
func FromDeployment(d *appsv1.Deployment) (Protector, error) {
	selector, err := podSelector(d.Spec.Selector)
	if err != nil {
		return Protector{}, err
	}
	minAvailable, err := floor(d)
	if err != nil {
		return Protector{}, err
	}
	wanted := Protector{
		Object: &v1alpha1.PodProtector{
			ObjectMeta: metav1.ObjectMeta{
				Name:      ProtectorName(d.Name),
				Namespace: d.Namespace,
				Labels: map[string]string{
					LabelManagedBy:           ManagedBy,
					v1alpha1.LabelSourceKind: "Deployment",
				},
				Annotations: map[string]string{
					v1alpha1.AnnotationSourceName: d.Name,
					v1alpha1.AnnotationSourceUID:  string(d.UID),
				},
				Finalizers: []string{v1alpha1.FinalizerProtector},
			},
			Spec: v1alpha1.PodProtectorSpec{
				Selector:        &selector,
				MinAvailable:    v1alpha1.Pods(minAvailable),
				MinReadySeconds: d.Spec.MinReadySeconds,
			},
		},
		Reason:  v1alpha1.ReasonSourceFound,
		Message: fmt.Sprintf("Protects the pods of Deployment %s.", d.Name),
	}
	if recreates(d) {
		wanted.Reason = v1alpha1.ReasonRecreateStrategy
		wanted.Message = fmt.Sprintf("Deployment %s has the strategy Recreate: a rollout of it removes all pods at once, "+
			"so the floor is 0 and no removal is refused. Give it the strategy RollingUpdate to keep its pods available.", d.Name)
	}
	return wanted, nil
}

// podSelector converts a workload's selector. None at all is an error: it chooses no pods, and the empty
// PodSelector would choose all.
func podSelector(from *metav1.LabelSelector) (v1alpha1.PodSelector, error) {
	if from == nil {
		return v1alpha1.PodSelector{}, errors.New("spec.selector is missing")
	}
	selector := v1alpha1.PodSelector{MatchLabels: from.MatchLabels}
	for _, requirement := range from.MatchExpressions {
		selector.MatchExpressions = append(selector.MatchExpressions, v1alpha1.PodSelectorRequirement(requirement))
	}
	return *selector.DeepCopy(), nil
}
