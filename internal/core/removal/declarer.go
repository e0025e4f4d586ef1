package removal

import (
	"strings"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/printable"
)

// Metadata by which common tools mark what they apply.
const (
	annotationHelmRelease   = "meta.helm.sh/release-name"
	annotationHelmNamespace = "meta.helm.sh/release-namespace"
	annotationArgoCD        = "argocd.argoproj.io/tracking-id" // APPLICATION:GROUP/KIND:NAMESPACE/NAME
	labelFluxKustomization  = "kustomize.toolkit.fluxcd.io/"   // name, namespace
	labelFluxHelmRelease    = "helm.toolkit.fluxcd.io/"        // name, namespace
)

// maxDeclarer limits the length of a declarer in a denial, in bytes. Names of Kubernetes are shorter.
const maxDeclarer = 300

// declarer names who declared the floor of a protector, from its metadata: the workload and the policy of a generated one, or else the tool that
// applies it, by the most specific mark. It is empty if nothing tells.
func declarer(p *v1alpha1.PodProtector) string {
	named := printable.Line(declarerOf(p))
	if len(named) > maxDeclarer {
		return ""
	}
	return named
}

func declarerOf(p *v1alpha1.PodProtector) string {
	if policy.IsGenerated(p) {
		return sourceOf(p)
	}
	if release := p.Annotations[annotationHelmRelease]; release != "" && p.Labels[labelFluxHelmRelease+"name"] == "" {
		return "Helm release " + p.Annotations[annotationHelmNamespace] + "/" + release
	}
	for prefix, kind := range map[string]string{labelFluxKustomization: "Flux Kustomization ", labelFluxHelmRelease: "Flux HelmRelease "} {
		if name := p.Labels[prefix+"name"]; name != "" {
			return kind + p.Labels[prefix+"namespace"] + "/" + name
		}
	}
	if application, _, ok := strings.Cut(p.Annotations[annotationArgoCD], ":"); ok {
		return "Argo CD application " + application
	}
	if tool := p.Labels[policy.LabelManagedBy]; tool != "" {
		return "managed by " + tool
	}
	return ""
}

func sourceOf(p *v1alpha1.PodProtector) string {
	source, _, ok := policy.SourceOf(p)
	if !ok {
		return ""
	}
	named := source.Kind + " " + source.Namespace + "/" + source.Name
	if by := p.Annotations[v1alpha1.AnnotationPolicy]; by != "" {
		named += ", by " + by
	}
	return named
}
