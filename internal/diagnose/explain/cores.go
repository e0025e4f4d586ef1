package explain

import (
	"cmp"
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/scope"
)

// Core is what was read of a core cluster.
type Core struct {
	Name       string
	Protectors []*v1alpha1.PodProtector
	// Cells by name.
	Cells map[string]*v1alpha1.Cell
}

// Node is what was read of the node of a pod: its labels, or why they cannot be read.
type Node struct {
	Labels map[string]string
	Err    error
}

// Covering are the protectors of cores that cover a pod of a cell. belongs tells whether the pod belongs to the cell in any core: of a
// Cell that a core does not have all pods do.
func Covering(cores []Core, cell string, pod *corev1.Pod, node Node) (covering []removal.Charge, belongs bool) {
	for _, core := range cores {
		if !core.has(cell, pod) {
			continue
		}
		belongs = true
		for _, p := range core.Protectors {
			if p.Namespace != pod.Namespace || !removal.CoverageIn(p, cell).Covers(pod.Labels) {
				continue
			}
			charge := removal.Charge{Core: core.Name, Key: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, Protector: p}
			if key := removal.Minds(p); key != "" {
				value, err := removal.LabelOf(pod.Spec.NodeName, node.Labels, node.Err, key)
				if charge.Unlocated = err; err == nil {
					charge.Domain = quota.Domain{TopologyKey: key, Name: value}
				}
			}
			covering = append(covering, charge)
		}
	}
	return covering, belongs
}

func (c Core) has(cell string, pod *corev1.Pod) bool {
	known, ok := c.Cells[cell]
	if !ok {
		return true
	}
	of, err := scope.Of(&known.Spec)
	return err != nil || of.Has(pod.Namespace, pod.Labels) // of a Cell that cannot be understood all pods are
}

// Request is the removal of a pod by an operation. An update is one that restarts the pod's first container, and a relabel one that takes
// the pod out of the coverage of all protectors.
func Request(pod *corev1.Pod, operation v1alpha1.Operation) removal.Request {
	r := removal.Request{Operation: operation, Namespace: pod.Namespace, PodName: pod.Name, Pod: pod, DryRun: true}
	if operation == v1alpha1.OperationUpdate || operation == v1alpha1.OperationResize {
		r.Generation = cmp.Or(pod.Generation+1, math.MaxInt64)
		if len(pod.Spec.Containers) > 0 {
			first := pod.Spec.Containers[0].Name
			r.Containers = []v1alpha1.ContainerRestarts{{Name: first, Restarts: restarts(pod, first) + 1}}
		}
	}
	return r
}

// restarts is how often a container of a pod has been restarted.
func restarts(pod *corev1.Pod, container string) int32 {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s.RestartCount
		}
	}
	return 0
}
