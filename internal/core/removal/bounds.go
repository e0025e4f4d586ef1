package removal

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The bounds of what a review says, in bytes, as API servers enforce them. A review that exceeds one comes from no API server, and what is
// stored of it, or said in an event, would burden the requests of others.
const (
	mostUID, mostVersion = 128, 64
	mostLabelKey         = validation.DNS1123SubdomainMaxLength + len("/") + validation.DNS1123LabelMaxLength
	mostAnnotations      = 256 << 10
)

// checkBounds is an error that names the first part of the request which is too long, and does not repeat it.
func (r *Request) checkBounds() error {
	if err := tooLong("namespace", r.Namespace, validation.DNS1123LabelMaxLength); err != nil {
		return err
	}
	if err := tooLong("name", r.PodName, validation.DNS1123SubdomainMaxLength); err != nil {
		return err
	}
	for _, pod := range []*corev1.Pod{r.Pod, r.Relabeled} {
		if pod == nil {
			continue
		}
		if err := checkPod(pod); err != nil {
			return err
		}
	}
	return nil
}

func checkPod(pod *corev1.Pod) error {
	for _, part := range []struct {
		what, text string
		most       int
	}{
		{"namespace", pod.Namespace, validation.DNS1123LabelMaxLength}, {"name", pod.Name, validation.DNS1123SubdomainMaxLength},
		{"UID", string(pod.UID), mostUID}, {"resourceVersion", pod.ResourceVersion, mostVersion},
		{"node name", pod.Spec.NodeName, validation.DNS1123SubdomainMaxLength},
	} {
		if err := tooLong(part.what, part.text, part.most); err != nil {
			return err
		}
	}
	for key, value := range pod.Labels {
		if err := tooLong("label key", key, mostLabelKey); err != nil {
			return err
		}
		if err := tooLong("label value", value, validation.LabelValueMaxLength); err != nil {
			return err
		}
	}
	total := 0
	for key, value := range pod.Annotations {
		total += len(key) + len(value)
	}
	if total > mostAnnotations {
		return fmt.Errorf("the annotations of the pod have %d bytes, and an API server stores at most %d", total, mostAnnotations)
	}
	return nil
}

func tooLong(what, text string, most int) error {
	if len(text) <= most {
		return nil
	}
	return fmt.Errorf("the %s of the pod has %d bytes, and an API server allows at most %d", what, len(text), most)
}
