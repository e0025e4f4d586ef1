package console

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/status"
)

// advice is a suggested action and its command.
type advice struct {
	Why     string `json:"why"`
	Command string `json:"command"`
}

// adviceFor suggests actions for the states of a protector, and commands to diagnose it.
func adviceFor(v *status.Protector, l *listing) []advice {
	name := "-n " + v.Namespace + " " + v.Name
	all := []advice{{"Show its current state with all reservations.", "kubectl breakwater status " + name}}
	add := func(holds bool, why, command string) {
		if holds {
			all = append(all, advice{why, command})
		}
	}
	denies := l.has(stateAtFloor) || l.has(stateBelowFloor) || l.has(stateDenied) || l.has(stateFloorUnknown)
	add(denies, "Explain why the removal of a pod is refused, and what would admit it.", "kubectl breakwater explain -n "+v.Namespace+" pod/NAME")
	add(l.has(stateDenied), "Show which users were refused, and when.", "kubectl breakwater denials -n "+v.Namespace+" --since 1h")
	add(l.has(stateBelowFloor), "Pods are missing: check their state in each cell.", "kubectl get pods -n "+v.Namespace+" -o wide")
	add(l.has(stateFloorUnknown), "Set the number of expected pods, or set minAvailable to a number.",
		"kubectl patch podprotector "+name+` --type merge -p '{"spec":{"expectedReplicas":N}}'`)
	add(l.has(stateAboveExpected), "Its floor may be too low: if no rollout is paused, set how many pods there should be.",
		"kubectl patch podprotector "+name+` --type merge -p '{"spec":{"expectedReplicas":N}}'`)
	add(l.has(stateNotCounted), "Check whether the aggregators run, and why they do not count.", "kubectl breakwater doctor")
	decrease := v.DecreasePending
	if decrease != nil && decrease.IsHeld() {
		add(true, "Its floor is held although "+decrease.Cause+". If that is intended, confirm it.", brake.Command(v.Namespace, v.Name))
	}
	add(l.has(stateVanished) && decrease == nil, "If its workload was deleted on purpose, release the protector.",
		"kubectl breakwater release -n "+v.Namespace+" PodProtector/"+v.Name)
	add(l.has(stateRestored), "It was recreated: removals are refused until all cells are counted.", "kubectl breakwater cells")
	add(l.has(stateUnguarded), "Its namespace is not guarded in a cell: show the cause and the remedy.", "kubectl breakwater doctor --check exempt,guarding")
	add(l.has(stateGuardUnknown), "The aggregator of a cell cannot read webhook configurations: show the missing permission.", "kubectl breakwater status "+name)
	add(l.has(stateNoPods), "Nothing is protected. Compare its selector with the labels of the pods in each cell.",
		"kubectl get pods -n "+v.Namespace+" --show-labels")
	add(l.has(stateOverlapping), "Show which other protectors cover the same pods.", "kubectl get podprotectors -n "+v.Namespace)
	add(denies, "In an emergency, use break-glass for one pod, in its own cluster: its next removal is admitted and reported.",
		"kubectl annotate pod -n "+v.Namespace+" NAME "+v1alpha1.AnnotationForceDelete+"=true")
	return all
}
