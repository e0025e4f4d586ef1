package findings

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// JobLabel is the label by which Kubernetes marks the pods of Jobs.
const JobLabel = batchv1.JobNameLabel

// checkJobs finds protectors that cover running pods of Jobs. The Job controller removes its finalizer from the pods of a suspended Job before it
// deletes them. If their deletion is denied, they no longer belong to the Job for it, and it creates others when it resumes.
func checkJobs(c *Cell, cores []Core) []Finding {
	f := reporter{c.where(), "protectors"}
	if err := c.JobPods.Err; err != nil {
		return f.unreadable("Pods", err, "Ask for permission to list pods in all namespaces, or use --as.")
	}
	byNamespace := map[string][]metav1.PartialObjectMetadata{}
	for i := range c.JobPods.Value {
		pod := &c.JobPods.Value[i]
		if len(c.Namespaces) == 0 || slices.Contains(c.Namespaces, pod.Namespace) {
			byNamespace[pod.Namespace] = append(byNamespace[pod.Namespace], *pod)
		}
	}
	var names []string
	for i := range cores {
		for j := range cores[i].Protectors.Value {
			p := &cores[i].Protectors.Value[j]
			if job := coveredJob(p, c.Name, byNamespace[p.Namespace]); job != "" {
				names = append(names, p.Namespace+"/"+p.Name+" (Job "+job+")")
			}
		}
	}
	if len(names) == 0 {
		return f.ok("No protector covers running pods of a Job.")
	}
	return []Finding{f.finding(Warning, "Protectors cover running pods of Jobs: "+joinNames(names)+". If such a Job is suspended, it reports Suspended "+
		"although denied pods continue, and it repeats their work after it resumes.",
		"Exempt the pods with spec.exemptPodSelector, or lower the floor before you suspend a Job: docs/how-to/clients.md.", "")}
}

// coveredJob returns the first Job of whose pods a protector can deny the deletion; empty if there is none.
func coveredJob(p *v1alpha1.PodProtector, cell string, pods []metav1.PartialObjectMetadata) string {
	floor, isKnown := quota.Floor(p)
	if isKnown && floor == 0 || !(removal.Charge{Protector: p}).Guards(v1alpha1.OperationDelete) {
		return ""
	}
	coverage := removal.CoverageIn(p, cell)
	at := slices.IndexFunc(pods, func(pod metav1.PartialObjectMetadata) bool { return coverage.Covers(pod.Labels) })
	if at < 0 {
		return ""
	}
	return pods[at].Labels[JobLabel]
}
