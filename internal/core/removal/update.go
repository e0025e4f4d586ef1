package removal

import (
	"fmt"
	"math"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// updatablePod has the fields of a pod that an update can change so that the pod becomes unavailable.
type updatablePod struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		ActiveDeadlineSeconds *int64               `json:"activeDeadlineSeconds"`
		Resources             resources            `json:"resources"`
		Containers            []updatableContainer `json:"containers"`
		InitContainers        []updatableContainer `json:"initContainers"`
	} `json:"spec"`
	Status struct {
		ContainerStatuses     []containerStatus `json:"containerStatuses"`
		InitContainerStatuses []containerStatus `json:"initContainerStatuses"`
	} `json:"status"`
}

type updatableContainer struct {
	Name         string    `json:"name"`
	Image        string    `json:"image"`
	Resources    resources `json:"resources"`
	ResizePolicy []struct {
		ResourceName  corev1.ResourceName                `json:"resourceName"`
		RestartPolicy corev1.ResourceResizeRestartPolicy `json:"restartPolicy"`
	} `json:"resizePolicy"`
	RestartPolicy *corev1.ContainerRestartPolicy `json:"restartPolicy"`
}

// resources are those of a container or of the whole pod.
type resources struct {
	Requests map[corev1.ResourceName]string `json:"requests"`
	Limits   map[corev1.ResourceName]string `json:"limits"`
}

type containerStatus struct {
	Name         string `json:"name"`
	RestartCount int32  `json:"restartCount"`
}

// running returns the containers that run as long as the pod does. An init container that has completed is not started again.
func (p *updatablePod) running() map[string]*updatableContainer {
	all := map[string]*updatableContainer{}
	for i := range p.Spec.Containers {
		all[p.Spec.Containers[i].Name] = &p.Spec.Containers[i]
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all[c.Name] = c
		}
	}
	return all
}

// restarts returns the restart count of a container.
func (p *updatablePod) restarts(name string) int32 {
	for _, statuses := range [][]containerStatus{p.Status.ContainerStatuses, p.Status.InitContainerStatuses} {
		for _, s := range statuses {
			if s.Name == name {
				return s.RestartCount
			}
		}
	}
	return 0
}

// restartedContainers returns the containers that a change of a pod restarts, with the restart count that each will have then. An earlier end
// of the whole pod affects all of them.
func restartedContainers(before, after *updatablePod) []v1alpha1.ContainerRestarts {
	var all []v1alpha1.ContainerRestarts
	ends := endsEarlier(before.Spec.ActiveDeadlineSeconds, after.Spec.ActiveDeadlineSeconds)
	were := before.running()
	for _, containers := range [][]updatableContainer{after.Spec.Containers, after.Spec.InitContainers} {
		for i := range containers {
			is := &containers[i]
			was := were[is.Name]
			if was != nil && (ends || was.Image != is.Image || resizeRestarts(before, after, was, is)) {
				all = append(all, v1alpha1.ContainerRestarts{Name: is.Name, Restarts: before.restarts(is.Name) + 1})
			}
		}
	}
	return all
}

func endsEarlier(before, after *int64) bool {
	return after != nil && (before == nil || *after < *before)
}

// resizeRestarts reports whether a container is restarted because the amount of a resource changes.
func resizeRestarts(before, after *updatablePod, was, is *updatableContainer) bool {
	for _, policy := range is.ResizePolicy {
		name := policy.ResourceName
		if policy.RestartPolicy == corev1.RestartContainer &&
			(was.Resources.Requests[name] != is.Resources.Requests[name] || before.limit(was, name) != after.limit(is, name)) {
			return true
		}
	}
	return false
}

// limit returns the limit of a container. Kubelets apply that of the pod to a container without one (since 1.36), with the resizePolicy of the container.
func (p *updatablePod) limit(c *updatableContainer, name corev1.ResourceName) string {
	if own := c.Resources.Limits[name]; own != "" && own != "0" {
		return own
	}
	return p.Spec.Resources.Limits[name]
}

// parseUpdate parses a pod before and after a change. costs is false for a change that leaves the pod available and covered.
func (r *Request) parseUpdate(review *admissionv1.AdmissionRequest) (disruptive bool, err error) {
	if err := r.parsePod(review, "update"); err != nil {
		return false, err
	}
	var before, after updatablePod
	if err := DecodeJSON(review.OldObject.Raw, &before); err != nil {
		return false, fmt.Errorf("oldObject of the update of pod %q: %w", review.Name, err)
	}
	if err := DecodeJSON(review.Object.Raw, &after); err != nil {
		return false, fmt.Errorf("object of the update of pod %q: %w", review.Name, err)
	}
	if err := r.parseRelabel(review); err != nil {
		return false, err
	}
	if r.Containers = restartedContainers(&before, &after); len(r.Containers) == 0 {
		r.Operation = v1alpha1.OperationRelabel
		return r.Relabeled != nil, nil
	}
	r.Generation = after.Metadata.Generation
	if r.Generation == 0 {
		r.Generation = math.MaxInt64 // this API server does not set the generation, so the update never appears done
	}
	return true, nil
}
