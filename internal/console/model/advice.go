package model

import (
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
)

// Advice is a suggested action and its command.
type Advice struct {
	Why     string `json:"why"`
	Command string `json:"command"`
}

// adviceFor suggests actions for the states of a protector, and commands to diagnose it.
func adviceFor(p *v1alpha1.PodProtector, row *Row) []Advice {
	name := "-n " + p.Namespace + " " + p.Name
	advice := []Advice{{"Show its current state with all reservations.", "kubectl breakwater status " + name}}
	add := func(holds bool, why, command string) {
		if holds {
			advice = append(advice, Advice{why, command})
		}
	}
	refuses := row.Has(StateAtFloor) || row.Has(StateBelowFloor) || row.Has(StateRefused) || row.Has(StateFloorUnknown)
	add(refuses, "Explain why the removal of a pod is refused, and what would admit it.", "kubectl breakwater explain -n "+p.Namespace+" pod/NAME")
	add(row.Has(StateRefused), "Show which users were refused, and when.", "kubectl breakwater denials -n "+p.Namespace+" --since 1h")
	add(row.Has(StateBelowFloor), "Pods are missing: check their state in each cell.", "kubectl get pods -n "+p.Namespace+" -o wide")
	add(row.Has(StateFloorUnknown), "Set the number of expected pods, or set minAvailable to a number.",
		"kubectl patch podprotector "+name+` --type merge -p '{"spec":{"expectedReplicas":N}}'`)
	add(row.Has(StateAboveExpected), "Its floor may be too low: if no rollout is paused, set how many pods there should be.",
		"kubectl patch podprotector "+name+` --type merge -p '{"spec":{"expectedReplicas":N}}'`)
	add(row.Has(StateNotCounted), "Check whether the aggregators run, and why they do not count.", "kubectl breakwater doctor")
	decrease, pending := brake.DecreaseOf(p)
	held := pending && decrease.IsHeld()
	add(held, "Its floor is held although "+decrease.Cause+". If that is intended, confirm it.", brake.Command(p.Namespace, p.Name))
	add(row.Has(StateVanished) && !pending, "If its workload was deleted on purpose, release the protector.",
		"kubectl breakwater release -n "+p.Namespace+" PodProtector/"+p.Name)
	add(row.Has(StateRestored), "It was recreated: removals are refused until all cells are counted.", "kubectl breakwater cells")
	add(row.Has(StateUnguarded), "Its namespace is not guarded in a cell: show the cause and the remedy.", "kubectl breakwater doctor --check exempt,guarding")
	add(row.Has(StateGuardUnknown), "The aggregator of a cell cannot read webhook configurations: show the missing permission.", "kubectl breakwater status "+name)
	add(row.Has(StateNoPods), "Nothing is protected. Compare its selector with the labels of the pods in each cell.",
		"kubectl get pods -n "+p.Namespace+" --show-labels")
	add(row.Has(StateOverlapping), "Show which other protectors cover the same pods.", "kubectl get podprotectors -n "+p.Namespace)
	add(refuses, "In an emergency, use break-glass for one pod, in its own cluster: its next removal is admitted and reported.",
		"kubectl annotate pod -n "+p.Namespace+" NAME "+v1alpha1.AnnotationForceDelete+"=true")
	return advice
}
