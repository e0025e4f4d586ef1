package scheduling_test

import (
	"fmt"
	"maps"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// zoneLabel is a label of pods that were created for a zone. Tests select them by it.
const zoneLabel = "zone"

// zoneSpread returns a spread over zones.
func zoneSpread(change ...func(*v1alpha1.Spread)) *v1alpha1.Spread {
	s := &v1alpha1.Spread{TopologyKey: corev1.LabelTopologyZone}
	for _, c := range change {
		c(s)
	}
	return s
}

// requireScheduled, tolerateLoss, maxShare, overDomains and byCell set the fields of a spread.
func requireScheduled(s *v1alpha1.Spread) { s.Enforcement = v1alpha1.SpreadSchedule }
func tolerateLoss(s *v1alpha1.Spread)     { s.TolerateDomainLoss = true }
func maxShare(percent int32) func(*v1alpha1.Spread) {
	return func(s *v1alpha1.Spread) { s.MaxSharePercent = &percent }
}
func overDomains(domains int32) func(*v1alpha1.Spread) {
	return func(s *v1alpha1.Spread) { s.MinDomains = &domains }
}
func byCell(s *v1alpha1.Spread) { s.TopologyKey = v1alpha1.TopologyKeyCell }

// spreadBy returns a function that sets the spread of a protector.
func spreadBy(s *v1alpha1.Spread) func(*v1alpha1.PodProtectorSpec) {
	return func(spec *v1alpha1.PodProtectorSpec) { spec.Spread = s }
}

// updateSpread replaces the spread of the protector, and returns the new generation.
func updateSpread(l *fixture, s *v1alpha1.Spread) (generation int64) {
	l.Helper()
	p := l.GetProtector()
	before := p.DeepCopy()
	p.Spec.Spread = s
	l.Must(l.Core.Patch(l.Context(), p, client.MergeFrom(before)))
	return p.Generation
}

// podsByDomain has the number of pods in each domain.
type podsByDomain map[string]int

// add returns the sum of both.
func (a podsByDomain) add(b podsByDomain) podsByDomain {
	sum := maps.Clone(a)
	for zone, n := range b {
		sum[zone] += n
	}
	return sum
}

// total returns the number of pods in all domains.
func (a podsByDomain) total() (n int) {
	for _, m := range a {
		n += m
	}
	return n
}

// createPodsInZones creates pods of the application web in zones of a cell. They have no controller. Every other pod has a termination grace
// period of 1 s.
func createPodsInZones(l *fixture, cell storm.Cell, pods podsByDomain) {
	l.Helper()
	for zone, n := range pods {
		for i := range n {
			_, err := createPod(l, cell, newPod(fmt.Sprintf("web-%s-%d", zone, i), "web", func(pod *corev1.Pod) {
				grace := int64(i % 2)
				pod.Labels[zoneLabel], pod.Spec.TerminationGracePeriodSeconds = zone, &grace
				pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
			}))
			l.Must(err)
		}
	}
}

// countedByDomain returns the number of pods that aggregators counted in each domain of the protector. It does not subtract reservations.
func countedByDomain(p *v1alpha1.PodProtector) podsByDomain {
	at := podsByDomain{}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		of := &cell.Aggregation
		switch {
		case p.Spec.Spread.TopologyKey == v1alpha1.TopologyKeyCell:
			at[cell.CellID] = int(of.CountedReplicas)
		case of.Spread != nil:
			for _, d := range of.Spread.Domains {
				at[d.Name] += int(d.Counted)
			}
		}
	}
	return at
}

// waitForCounted waits until the pods of all cells are counted by domain, and no reservation is open.
func waitForCounted(l *fixture, want podsByDomain) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.Eventually(func() string {
		p = l.GetProtector()
		if diff := cmp.Diff(want, countedByDomain(p)); diff != "" || p.Status.Summary.EstimatedAvailable != int32(want.total()) {
			return fmt.Sprintf("pods by domain, with the summary %+v (-want +got):\n%s", p.Status.Summary, diff)
		}
		return ""
	})
	return p
}

// existingPods returns the number of existing pods of the application web by the zones of their nodes, and by cell.
func existingPods(l *fixture) (byZones, byCells podsByDomain) {
	l.Helper()
	byZones, byCells = podsByDomain{}, podsByDomain{}
	for _, cell := range l.Cells {
		pods := l.ExistingPods(cell)
		byCells[cell.Name] = len(pods)
		byZones = byZones.add(countByNode(cell, pods, func(s nodeSpec) string { return s.zone }))
	}
	return byZones, byCells
}

// anyPodInZone returns the name of an existing pod of a zone.
func anyPodInZone(l *fixture, cell storm.Cell, zone string) string {
	l.Helper()
	pods := l.ExistingPods(cell)
	for i := range pods {
		if pods[i].Labels[zoneLabel] == zone {
			return pods[i].Name
		}
	}
	l.Fatalf("no pod of zone %s is left in %s", zone, cell.Name)
	return ""
}

func annotatePod(l *fixture, cell storm.Cell, pod, annotation string) {
	l.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, annotation)
	_, err := cell.Client.CoreV1().Pods(l.Namespace).Patch(l.Context(), pod, "application/merge-patch+json", patch, metav1.PatchOptions{})
	l.Must(err)
}
