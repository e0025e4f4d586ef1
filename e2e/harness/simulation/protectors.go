package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// protectorUsers change, delete and create protectors, as users do, and make them vanish.
type protectorUsers struct{ env *environment }

func (p ProtectorPlan) object() *v1alpha1.PodProtector {
	o := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceName(p.Space), Name: p.Name}}
	compact, rate := int32(p.Compact), int32(p.RateMillis)
	o.Spec = v1alpha1.PodProtectorSpec{
		Selector:     &v1alpha1.PodSelector{MatchLabels: map[string]string{p.Label: "x"}},
		MinAvailable: v1alpha1.Pods(int32(p.Floor)), MinReadySeconds: int32(p.MinReady),
		Spread: p.spread(),
		AdmissionHistory: v1alpha1.AdmissionHistorySpec{
			MaxConcurrentLag: int32(p.Lag), CompactThreshold: &compact, AggregationRateMillis: &rate,
		},
		Operations: p.operations(), CoreOutage: p.CoreOutage,
	}
	if p.Target != "" {
		o.Spec.Selector, o.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: operatedVersion(), Kind: apiserver.KindRollout, Name: p.Target}
	}
	p.setCriterion(&o.Spec)
	p.Computed.applyTo(&o.Spec)
	if p.Updates {
		seconds := int32(updateTimeout.Seconds())
		o.Spec.AdmissionHistory.UpdateTimeoutSeconds = &seconds
	}
	return o
}

func (us *protectorUsers) changeProtector(s Step) {
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
		case s.What == SetFloor:
			setFloor(&p.Spec, s.N)
		case p.Spec.TargetRef == nil:
			p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{[]string{"app", "tier"}[s.N%2]: "x"}}
		}
		p.Generation++
		return nil
	})
}
