package removal_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestDenialNamesWhoDeclaredTheFloor(t *testing.T) {
	type values = map[string]string
	generated := values{"app.kubernetes.io/managed-by": "breakwater-generator", v1alpha1.LabelSourceKind: "Deployment"}
	source := values{v1alpha1.AnnotationSourceAPIVersion: "apps/v1", v1alpha1.AnnotationSourceName: "web"}
	byPolicy := values{v1alpha1.AnnotationSourceAPIVersion: "apps/v1", v1alpha1.AnnotationSourceName: "web", v1alpha1.AnnotationPolicy: "ClusterProtectionPolicy/tier-1"}
	helm := values{"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}
	flux := values{"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "flux-system", "app.kubernetes.io/managed-by": "Helm"}
	for claim, c := range map[string]struct {
		labels, annotations values
		want                string
	}{
		"a workload, by its label":              {generated, source, " (Deployment shop/web)"},
		"a workload, by a policy":               {generated, byPolicy, " (Deployment shop/web, by ClusterProtectionPolicy/tier-1)"},
		"a workload whose annotations are lost": {values{"app.kubernetes.io/managed-by": "breakwater-generator"}, nil, " (Deployment shop/web)"},
		"Helm":                                  {values{"app.kubernetes.io/managed-by": "Helm"}, helm, " (Helm release shop/web)"},
		"Flux, by a chart":                      {flux, helm, " (Flux HelmRelease flux-system/web)"},
		"Flux":                                  {values{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, nil, " (Flux Kustomization flux-system/apps)"},
		"Argo CD":                               {nil, values{"argocd.argoproj.io/tracking-id": "shop:breakwater.dev/PodProtector:shop/web"}, " (Argo CD application shop)"},
		"another tool":                          {values{"app.kubernetes.io/managed-by": "terraform"}, nil, " (managed by terraform)"},
		"no known tool":                         {nil, source, ""},
		"text that would forge a message":       {nil, values{"meta.helm.sh/release-name": "a\nb\x1b", "meta.helm.sh/release-namespace": "shop"}, ` (Helm release shop/a b\u001b)`},
		"text that would flood a message":       {nil, values{"meta.helm.sh/release-name": strings.Repeat("a", 1000), "meta.helm.sh/release-namespace": "shop"}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			key := types.NamespacedName{Namespace: "shop", Name: "deployment-web"}
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Labels: c.labels, Annotations: c.annotations}}
			charge := removal.Charge{Core: "hub", Key: key, Protector: p}
			answer := deniedBy(charge, quota.DeniedNoBudget, removal.Request{PodName: "web-0"})
			if got, want := answer.Status.Message, "or lower the floor where it is declared"+c.want+"."; !strings.HasSuffix(got, want) {
				t.Errorf("Deny() has the message %q, want it to end with %q", got, want)
			}
		})
	}
}
