package removal

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
)

// These are the limits of fields in a review, in bytes, as API servers enforce them. A review that exceeds one does not come from an
// API server. Storing such fields, or writing them into an event, would burden the requests of other clients.
const (
	maxUIDLength, maxVersionLength = 128, 64
	maxLabelKeyLength              = validation.DNS1123SubdomainMaxLength + len("/") + validation.DNS1123LabelMaxLength
	maxAnnotationsSize             = 256 << 10
	// maxContainers is how many restarted containers a reservation can name.
	maxContainers = 1000
)

// checkBounds returns an error for the first field of the request that is too long. The error does not contain the field's value.
func (r *Request) checkBounds() error {
	if err := checkLength("namespace", r.Namespace, validation.DNS1123LabelMaxLength); err != nil {
		return err
	}
	if err := checkLength("name", r.PodName, validation.DNS1123SubdomainMaxLength); err != nil {
		return err
	}
	if len(r.Containers) > maxContainers {
		return fmt.Errorf("the update restarts %d containers of the pod, and at most %d can be reserved: update fewer at a time", len(r.Containers), maxContainers)
	}
	for i := range r.Containers {
		if err := checkLength("container name", r.Containers[i].Name, validation.DNS1123LabelMaxLength); err != nil {
			return err
		}
	}
	for _, pod := range []*Pod{r.Pod, r.Relabeled} {
		if pod == nil {
			continue
		}
		if err := checkPod(pod); err != nil {
			return err
		}
	}
	return nil
}

func checkPod(pod *Pod) error {
	for _, part := range []struct {
		what, text string
		limit      int
	}{
		{"namespace", pod.Namespace, validation.DNS1123LabelMaxLength}, {"name", pod.Name, validation.DNS1123SubdomainMaxLength},
		{"UID", string(pod.UID), maxUIDLength}, {"resourceVersion", pod.ResourceVersion, maxVersionLength},
		{"node name", pod.Spec.NodeName, validation.DNS1123SubdomainMaxLength},
	} {
		if err := checkLength(part.what, part.text, part.limit); err != nil {
			return err
		}
	}
	for key, value := range pod.Labels {
		if err := checkLength("label key", key, maxLabelKeyLength); err != nil {
			return err
		}
		if err := checkLength("label value", value, validation.LabelValueMaxLength); err != nil {
			return err
		}
	}
	total := 0
	for key, value := range pod.Annotations {
		total += len(key) + len(value)
	}
	if total > maxAnnotationsSize {
		return fmt.Errorf("the annotations of the pod have %d bytes, and an API server stores at most %d", total, maxAnnotationsSize)
	}
	return nil
}

func checkLength(field, text string, limit int) error {
	if len(text) <= limit {
		return nil
	}
	return fmt.Errorf("the %s of the pod has %d bytes, and an API server allows at most %d", field, len(text), limit)
}
