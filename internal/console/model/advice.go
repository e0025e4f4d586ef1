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
	advice := []Advice{{"Look at it as it is now, with who holds which reservation.", "kubectl breakwater status " + name}}
	add := func(holds bool, why, command string) {
		if holds {
			advice = append(advice, Advice{why, command})
		}
	}
	refuses := row.Has(StateAtFloor) || row.Has(StateBelowFloor) || row.Has(StateRefused) || row.Has(StateFloorUnknown)
	add(refuses, "See why a removal of one pod is refused, and what would have to change.", "kubectl breakwater explain -n "+p.Namespace+" pod/NAME")
	add(row.Has(StateRefused), "See who was refused, and when.", "kubectl breakwater denials -n "+p.Namespace+" --since 1h")
	add(row.Has(StateBelowFloor), "Pods are missing: see what has become of them, in each cell.", "kubectl get pods -n "+p.Namespace+" -o wide")
	add(row.Has(StateFloorUnknown), "Say how many pods there should be, or give minAvailable as a number.",
		"kubectl patch podprotector "+name+` --type merge -p '{"spec":{"expectedReplicas":N}}'`)
	add(row.Has(StateNotCounted), "See whether aggregators run, and why they do not count.", "kubectl breakwater doctor")
	decrease, pending := brake.DecreaseOf(p)
	held := pending && decrease.IsHeld()
	add(held, "Its floor is held although "+decrease.Cause+". If that is intended, confirm it.", brake.Command(p.Namespace, p.Name))
	add(row.Has(StateVanished) && !pending, "When its workload is gone on purpose, release the protector.",
		"kubectl breakwater release -n "+p.Namespace+" PodProtector/"+p.Name)
	add(row.Has(StateRestored), "It was made anew: removals are refused until all cells are counted.", "kubectl breakwater cells")
	add(row.Has(StateOverlapping), "See which other protectors cover the same pods.", "kubectl get podprotectors -n "+p.Namespace)
	add(refuses, "In an emergency break the glass for one pod, in its own cluster: its next removal is admitted, and told of.",
		"kubectl annotate pod -n "+p.Namespace+" NAME "+v1alpha1.AnnotationForceDelete+"=true")
	return advice
}
