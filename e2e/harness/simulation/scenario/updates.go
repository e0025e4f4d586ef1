package scenario

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// In a sixth of the seeds, clients change images of pods and resize them in place, and protectors guard that or do not. The API server
// stores the change. The kubelet sees it later and restarts the container, and the pod mostly becomes ready again. The judge treats the
// restart as the effect of a removal: an available pod becomes unavailable at that time. A protector that does not guard updates loses the
// pod without a charge.
//
// The judge checks each reservation of an update:
//
//   - It is exempt from the budget only while the snapshot shows the pod as not available.
//   - It ends when the pod was restarted, or no client can cause its restart any more, or the time for that has passed. In the last case
//     the restart is excused.

// updateStream is the random stream of updates. It was chosen so that it changes no seed that tests, mutants or docs name.
const updateStream = 0x7570647400b6

// UpdateTimeout is the updateTimeoutSeconds of the protectors.
const UpdateTimeout = 30 * time.Second

// Container and companion are the containers of each pod that clients update.
const (
	Container = "web"
	companion = "log"
)

// PodUpdate is what an update of a pod changes, in one container.
type PodUpdate struct {
	Container string
	IsResize  bool
}

// Operation returns the operation by which protectors guard the update.
func (c *PodUpdate) Operation() v1alpha1.Operation {
	if c.IsResize {
		return v1alpha1.OperationResize
	}
	return v1alpha1.OperationUpdate
}

// ChangeOf returns what a step changes in pods; nil for all other steps.
func ChangeOf(s Step) *PodUpdate {
	if s.What != UpdateImage && s.What != ResizePod {
		return nil
	}
	return &PodUpdate{Container: []string{Container, companion}[s.N%2], IsResize: s.What == ResizePod}
}

// AddContainers gives a pod the containers that updates change.
func AddContainers(p *corev1.Pod) {
	for _, name := range []string{Container, companion} {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{
			Name: name, Image: "1", ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}},
		})
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name})
	}
	p.Status.ObservedGeneration = 1
}

// Apply changes a pod as an API server does that stores an update.
func (c *PodUpdate) Apply(object client.Object) error {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return nil
	}
	pod.Generation++
	for i := range pod.Spec.Containers {
		in := &pod.Spec.Containers[i]
		switch {
		case in.Name != c.Container:
		case c.IsResize:
			in.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(pod.Generation, resource.DecimalSI)}
		default:
			in.Image = fmt.Sprint(pod.Generation)
		}
	}
	return nil
}

// Applied returns the pod after the update.
func (c *PodUpdate) Applied(pod *corev1.Pod) *corev1.Pod {
	changed := pod.DeepCopy()
	_ = c.Apply(changed)
	return changed
}

func drawUpdates(s *Scenario, r *rand.Rand) {
	if r.IntN(6) > 0 {
		return
	}
	s.Updates = true
	for i := range s.Protectors {
		s.Protectors[i].Updates = r.IntN(5) > 0
	}
	for range 1 + r.IntN(4) {
		begin, cell := randomTime(r), r.IntN(s.Workers)
		for range 2 + r.IntN(7) {
			step := Step{
				At: begin + time.Duration(r.IntN(4000))*time.Millisecond, What: []StepKind{UpdateImage, UpdateImage, ResizePod}[r.IntN(3)], Cell: cell,
				Who: r.IntN(16), N: r.IntN(2), DeniedLater: r.IntN(8) == 0,
			}
			step.Stuck = randomHang(r, 5)
			s.Steps = append(s.Steps, step)
			if r.IntN(3) == 0 { // another update of the same pod, or its removal
				step.At += time.Duration(r.IntN(6000)) * time.Millisecond
				step.What = []StepKind{UpdateImage, ResizePod, Delete, Evict}[r.IntN(4)]
				step.N, step.Stuck, step.For = r.IntN(2), 0, time.Second
				s.Steps = append(s.Steps, step)
			}
		}
		for range 1 + r.IntN(6) {
			s.Steps = append(s.Steps, Step{
				At: begin + time.Duration(r.IntN(8000))*time.Millisecond, What: []StepKind{Delete, Evict}[r.IntN(2)], Cell: r.IntN(s.Workers), Who: r.IntN(16),
				For: time.Second,
			})
		}
	}
}
