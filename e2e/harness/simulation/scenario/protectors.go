package scenario

import (
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
)

// Object returns the protector as a user creates it.
func (p ProtectorPlan) Object() *v1alpha1.PodProtector {
	o := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: NamespaceName(p.Space), Name: p.Name}}
	compact, rate := int32(p.Compact), int32(p.RateMillis)
	o.Spec = v1alpha1.PodProtectorSpec{
		Selector:     &v1alpha1.PodSelector{MatchLabels: map[string]string{p.Label: "x"}},
		MinAvailable: v1alpha1.Pods(int32(p.Floor)), MinReadySeconds: int32(p.MinReady),
		Spread: p.Spread(),
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
		seconds := int32(UpdateTimeout.Seconds())
		o.Spec.AdmissionHistory.UpdateTimeoutSeconds = &seconds
	}
	return o
}

// Some protectors must tolerate the loss of a cell. No removal in one cell may leave fewer pods than the floor outside any other cell. A
// repeated removal is judged by the state that it was charged on, since it is not charged again.

// drawSpread makes protectors tolerate the loss of cells. It has its own random stream, so that everything else of a seed stays the same.
// The stream was chosen so that it affects no seed that a test names.
func drawSpread(s *Scenario, r *rand.Rand) {
	if s.Workers < 2 || r.IntN(3) > 0 {
		return
	}
	for i := range s.Protectors {
		if r.IntN(3) > 0 {
			s.Protectors[i].MindsLoss = true
			s.Protectors[i].Floor = r.IntN(s.Pods*(s.Workers-1)/s.Workers + 1)
		}
	}
	drawBurst(s, r)
}

// Spread returns the spread of the protector; nil if it tolerates no loss of a cell.
func (p ProtectorPlan) Spread() *v1alpha1.Spread {
	if !p.MindsLoss {
		return nil
	}
	return &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
}
