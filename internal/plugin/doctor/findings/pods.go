package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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

// checkVersions compares the versions of components in all clusters.
func checkVersions(r *Inspection) []Finding {
	f := reporter{"all", "versions"}
	byVersion := map[string][]string{}
	add := func(where string, read Result[[]corev1.Pod]) {
		for i := range read.Value {
			version := versionOf(&read.Value[i])
			if text := read.Value[i].Labels[LabelComponent] + " in " + where; version != "" && !slices.Contains(byVersion[version], text) {
				byVersion[version] = append(byVersion[version], text)
			}
		}
	}
	for i := range r.Cores {
		add(r.Cores[i].where(), r.Cores[i].Pods)
	}
	for i := range r.Cells {
		add(r.Cells[i].where(), r.Cells[i].Pods)
	}
	if len(byVersion) == 0 {
		return f.ok("No component runs in a pod, so there is no version to compare.")
	}
	if len(byVersion) == 1 {
		return f.ok("All components are of version %s, and kubectl breakwater is %s.", slices.Collect(maps.Keys(byVersion))[0], r.Version)
	}
	var all []string
	for _, version := range slices.Sorted(maps.Keys(byVersion)) {
		all = append(all, version+" is "+joinNames(byVersion[version]))
	}
	return []Finding{f.finding(Warning, "Components are of different versions: "+strings.Join(all, "; ")+".", "Finish the upgrade: docs/how-to/upgrade.md.", "")}
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
