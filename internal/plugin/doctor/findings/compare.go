package findings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// clockTolerance is the tolerated clock difference, in addition to the measurement error.
const clockTolerance = 5 * time.Second

// checkClocks compares the clocks of all API servers with each other and with the clock of this machine. It takes the median as correct,
// because several clocks are rarely wrong by the same amount.
func checkClocks(r *Inspection) []Finding {
	type reading struct {
		where string
		Clock
	}
	all := []reading{{"here", Clock{}}}
	add := func(where string, clock Result[Clock]) {
		if clock.Err == nil { // the apiserver check reports an API server that does not answer
			all = append(all, reading{where, clock.Value})
		}
	}
	for i := range r.Cores {
		add(r.Cores[i].where(), r.Cores[i].Clock)
	}
	for i := range r.Cells {
		if r.Cells[i].ConnectErr == nil {
			add(r.Cells[i].where(), r.Cells[i].Clock)
		}
	}
	if len(all) == 1 {
		return nil
	}
	ordered := slices.Clone(all)
	slices.SortFunc(ordered, func(a, b reading) int { return int(a.Ahead - b.Ahead) })
	median := ordered[len(ordered)/2].Ahead
	var found []Finding
	for _, one := range all {
		offset := one.Ahead - median
		if offset.Abs() <= clockTolerance+one.Uncertainty {
			continue
		}
		direction := "ahead of"
		if offset < 0 {
			direction = "behind"
		}
		found = append(found, reporter{one.where, "clock"}.finding(Warning, fmt.Sprintf("Its clock is %s %s the other clocks.", offset.Abs().Round(time.Second), direction),
			"Fix the time synchronization (NTP) of that machine.", "clock-skew"))
	}
	return reporter{"all", "clock"}.orOK(found, "The clocks of %s and of this machine agree within %s.", printable.Count(len(all)-1, "cluster"), clockTolerance)
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
