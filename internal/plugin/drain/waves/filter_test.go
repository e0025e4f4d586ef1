package waves_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/internal/plugin/drain/waves"
)

func TestFilterDecidesLikeKubectlDrain(t *testing.T) {
	owner := func(kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			controls := true
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "of-it", Controller: &controls}}
		}
	}
	emptyDir := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	mirror := func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }
	for claim, c := range map[string]struct {
		pod            []func(*corev1.Pod)
		orphaned       bool
		filter         waves.Filter
		leftOut, abort string
	}{
		"removes a pod of a ReplicaSet":                     {pod: []func(*corev1.Pod){owner("ReplicaSet")}},
		"aborts at a pod without a controller":              {abort: "--force"},
		"removes a pod without a controller with --force":   {filter: waves.Filter{Force: true}},
		"removes a finished pod without a controller":       {pod: []func(*corev1.Pod){finished, emptyDir}},
		"aborts at an emptyDir":                             {pod: []func(*corev1.Pod){owner("ReplicaSet"), emptyDir}, abort: "--delete-emptydir-data"},
		"removes an emptyDir with its flag":                 {pod: []func(*corev1.Pod){owner("ReplicaSet"), emptyDir}, filter: waves.Filter{DeleteEmptyDirData: true}},
		"names the emptyDir before the missing controller":  {pod: []func(*corev1.Pod){emptyDir}, abort: "--delete-emptydir-data"},
		"aborts at a pod of a DaemonSet":                    {pod: []func(*corev1.Pod){owner("DaemonSet"), emptyDir}, abort: "--ignore-daemonsets"},
		"aborts at a pod of a DaemonSet also with --force":  {pod: []func(*corev1.Pod){owner("DaemonSet")}, filter: waves.Filter{Force: true}, abort: "--ignore-daemonsets"},
		"leaves a pod of a DaemonSet with its flag":         {pod: []func(*corev1.Pod){owner("DaemonSet"), emptyDir}, filter: waves.Filter{IgnoreDaemonSets: true}, leftOut: "DaemonSet of-it"},
		"aborts at a pod of a deleted DaemonSet":            {pod: []func(*corev1.Pod){owner("DaemonSet")}, orphaned: true, filter: waves.Filter{IgnoreDaemonSets: true}, abort: "not found"},
		"removes a pod of a deleted DaemonSet with --force": {pod: []func(*corev1.Pod){owner("DaemonSet")}, orphaned: true, filter: waves.Filter{Force: true}},
		"leaves a mirror pod, whatever its volumes":         {pod: []func(*corev1.Pod){mirror, emptyDir}, leftOut: "mirror pod"},
	} {
		p := pod("pod", "node", true)
		for _, change := range c.pod {
			change(p)
		}
		leftOut, abort := c.filter.Apply(p, c.orphaned)
		if !strings.Contains(leftOut, c.leftOut) || c.leftOut == "" && leftOut != "" {
			t.Errorf("%s: Apply() leaves the pod because %q, want %q", claim, leftOut, c.leftOut)
		}
		if !strings.Contains(abort, c.abort) || c.abort == "" && abort != "" {
			t.Errorf("%s: Apply() aborts because %q, want %q", claim, abort, c.abort)
		}
	}
}
