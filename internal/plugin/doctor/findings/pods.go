package findings

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Labels that the chart sets on the pods of components.
const (
	LabelPartOf      = "app.kubernetes.io/part-of"
	PartOfBreakwater = "breakwater"
	LabelComponent   = "app.kubernetes.io/component"
	labelVersion     = "app.kubernetes.io/version"
)

// checkPods judges the pods of components.
func checkPods(where string, read Result[[]corev1.Pod]) []Finding {
	f := reporter{where, "pods"}
	if read.Err != nil {
		return f.unreadable("Pods", read.Err, "Ask for permission to list pods in all namespaces, or use --as.")
	}
	var found []Finding
	for i := range read.Value {
		p := &read.Value[i]
		if p.Status.Phase == corev1.PodSucceeded || p.DeletionTimestamp != nil || isReady(p) {
			continue
		}
		found = append(found, f.finding(Warning, fmt.Sprintf("Pod %s/%s (%s) is not ready.", p.Namespace, p.Name, p.Labels[LabelComponent]),
			fmt.Sprintf("Run kubectl describe pod -n %s %s, and read its log.", p.Namespace, p.Name), runbookOfComponent(p.Labels[LabelComponent])))
	}
	if len(read.Value) == 0 {
		return f.ok("No component runs in a pod here.")
	}
	return f.orOK(found, "Every pod of a component is ready (%d).", len(read.Value))
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func runbookOfComponent(component string) string {
	switch component {
	case "webhook", "generator", "topology":
		return component + "-down"
	case "aggregator":
		return "cell-silent"
	}
	return ""
}
