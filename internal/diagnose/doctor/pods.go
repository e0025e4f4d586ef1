package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Labels that the chart sets on the pods of components.
const (
	LabelPart      = "app.kubernetes.io/part-of"
	PartOf         = "breakwater"
	LabelComponent = "app.kubernetes.io/component"
	labelVersion   = "app.kubernetes.io/version"
)

// pods judges the pods of components.
func pods(where string, read Read[[]corev1.Pod]) []Finding {
	f := finder{where, "pods"}
	if read.Err != nil {
		return f.unread("Pods", read.Err, "Ask for the right to list pods in all namespaces, or see --as.")
	}
	var found []Finding
	for i := range read.Value {
		p := &read.Value[i]
		if p.Status.Phase == corev1.PodSucceeded || p.DeletionTimestamp != nil || isReady(p) {
			continue
		}
		found = append(found, f.bad(Warning, fmt.Sprintf("Pod %s/%s (%s) is not ready.", p.Namespace, p.Name, p.Labels[LabelComponent]),
			fmt.Sprintf("kubectl describe pod -n %s %s, and its log.", p.Namespace, p.Name), runbookOfComponent(p.Labels[LabelComponent])))
	}
	if len(read.Value) == 0 {
		return f.ok("No component runs in a pod here.")
	}
	return f.or(found, "All %d of components are ready.", len(read.Value))
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

// versions compares the versions of components in all clusters.
func versions(r *Reading) []Finding {
	f := finder{"all", "versions"}
	run := map[string][]string{}
	take := func(where string, read Read[[]corev1.Pod]) {
		for i := range read.Value {
			version := versionOf(&read.Value[i])
			if text := read.Value[i].Labels[LabelComponent] + " in " + where; version != "" && !slices.Contains(run[version], text) {
				run[version] = append(run[version], text)
			}
		}
	}
	for i := range r.Cores {
		take(r.Cores[i].where(), r.Cores[i].Pods)
	}
	for i := range r.Cells {
		take(r.Cells[i].where(), r.Cells[i].Pods)
	}
	if len(run) == 0 {
		return f.ok("No component runs in a pod, whose version could be compared.")
	}
	if len(run) == 1 {
		return f.ok("All components are of version %s, and kubectl breakwater is %s.", slices.Collect(maps.Keys(run))[0], r.Version)
	}
	var all []string
	for _, version := range slices.Sorted(maps.Keys(run)) {
		all = append(all, version+" is "+some(run[version]))
	}
	return []Finding{f.bad(Warning, "Components are of different versions: "+strings.Join(all, "; ")+".", "Finish the upgrade: docs/upgrade.md.", "")}
}

// versionOf returns the version label of a pod, or else the tag of its image.
func versionOf(p *corev1.Pod) string {
	if version := p.Labels[labelVersion]; version != "" {
		return version
	}
	for i := range p.Spec.Containers {
		image, _, _ := strings.Cut(p.Spec.Containers[i].Image, "@")
		if _, tag, ok := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":"); ok {
			return tag
		}
	}
	return ""
}
