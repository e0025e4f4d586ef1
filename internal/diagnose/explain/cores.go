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

// Core is the state of a core cluster.
type Core struct {
	Name       string
	Protectors []*v1alpha1.PodProtector
	// Cells by name.
	Cells map[string]*v1alpha1.Cell
}

// Node holds the labels of a pod's node, or the error of reading them.
type Node struct {
	Labels map[string]string
	Err    error
}

// Covering returns the protectors of all cores that cover a pod of a cell, with shares in place of protectors that gave the cell one.
// belongs reports whether the pod belongs to the cell in any core. If a core does not have the Cell, all pods belong to it. If a share is
// missing, Covering returns an error and the protectors without it.
func Covering(cores []Core, cell string, pod *corev1.Pod, node Node) (covering []removal.Charge, belongs bool, err error) {
	for _, core := range cores {
		if !core.hasPod(cell, pod) {
			continue
		}
		belongs = true
		for _, p := range core.Protectors {
			if p.Namespace != pod.Namespace || !removal.CoverageIn(p, cell).Covers(pod.Labels) {
				continue
			}
			charge := removal.Charge{Core: core.Name, Key: types.NamespacedName{Namespace: p.Namespace, Name: p.Name}, Protector: p}
			if key := removal.DomainLossTopologyKey(p); key != "" {
				value, err := removal.NodeLabel(pod.Spec.NodeName, node.Labels, node.Err, key)
				if charge.DomainErr = err; err == nil {
					charge.Domain = quota.Domain{TopologyKey: key, Name: value}
				}
			}
			covering = append(covering, charge)
		}
	}
	charges, err := removal.WithShares(covering, cell) // rule S6
	if err != nil {
		return covering, belongs, err
	}
	return charges, belongs, nil
}

func (c Core) hasPod(cell string, pod *corev1.Pod) bool {
	cellObject, ok := c.Cells[cell]
	if !ok {
		return true
	}
	cellScope, err := scope.Of(&cellObject.Spec)
	return err != nil || cellScope.Has(pod.Namespace, pod.Labels) // if the scope of a Cell is invalid, all pods belong to it
}

// Request is a dry-run removal of a pod by an operation. An update restarts the pod's first container. A relabel takes the pod out of
// the coverage of all protectors.
func Request(pod *corev1.Pod, operation v1alpha1.Operation) removal.Request {
	r := removal.Request{Operation: operation, Namespace: pod.Namespace, PodName: pod.Name, Pod: removal.NewPod(pod), DryRun: true}
	if operation == v1alpha1.OperationUpdate || operation == v1alpha1.OperationResize {
		r.Generation = cmp.Or(pod.Generation+1, math.MaxInt64)
		if len(pod.Spec.Containers) > 0 {
			first := pod.Spec.Containers[0].Name
			r.Containers = []v1alpha1.ContainerRestarts{{Name: first, Restarts: restartCount(pod, first) + 1}}
		}
	}
	return r
}

func restartCount(pod *corev1.Pod, container string) int32 {
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == container {
			return s.RestartCount
		}
	}
	return 0
}
