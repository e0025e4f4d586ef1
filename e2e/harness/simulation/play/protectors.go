package play

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// protectorUsers change, delete and create protectors, as users do, and make them vanish.
type protectorUsers struct{ env *environment }

func (us *protectorUsers) changeProtector(s scenario.Step) {
	core := us.env.core(s)
	p, ok := pick(core.protectors(), s.Who)
	if !ok || p.Labels != nil { // the generator owns a generated protector
		return
	}
	_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", "user", func(o client.Object) error {
		p, ok := o.(*v1alpha1.PodProtector)
		if !ok {
			return nil
		}
		switch {
		case s.What == scenario.SetFloor:
			setFloor(&p.Spec, s.N)
		case p.Spec.TargetRef == nil:
			p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{[]string{"app", "tier"}[s.N%2]: "x"}}
		}
		p.Generation++
		return nil
	})
}

// setFloor sets a new floor. A percentage is replaced by a percentage, any other floor by a number of pods.
func setFloor(spec *v1alpha1.PodProtectorSpec, n int) {
	of := &spec.MinAvailable
	if spec.MaxUnavailable != nil {
		of = &spec.MaxUnavailable
	}
	switch {
	case *of != nil && (*of).Type == intstr.String:
		*of = scenario.ParseAmount(fmt.Sprintf("%d%%", n*10%101))
	default:
		*of = v1alpha1.Pods(int32(n))
	}
}

// changeCoverage changes what a protector covers. The generator owns a generated protector.
func (us *protectorUsers) changeCoverage(s scenario.Step) {
	core := us.env.core(s)
	p, ok := pick(core.protectors(), s.Who)
	if !ok || p.Labels != nil || p.Spec.TargetRef != nil {
		return
	}
	_, _ = core.store.Update("podprotectors", client.ObjectKeyFromObject(p), "", "user", func(o client.Object) error {
		if p, ok := o.(*v1alpha1.PodProtector); ok {
			next := scenario.Coverages()[s.N%len(scenario.Coverages())]
			p.Spec.Selector, p.Spec.MinReadySeconds = next.Selector, next.MinReadySeconds
			p.Generation++
		}
		return nil
	})
}
