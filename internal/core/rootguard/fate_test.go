package rootguard_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// withSource records why the source of a generated protector does not exist.
func withSource(reason string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionTargetResolved, Status: metav1.ConditionFalse, Reason: reason}}
	}
}

// ofPolicy records a policy with a treatment of cascades.
func ofPolicy(onCascade v1alpha1.CascadePolicy) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		annotated(v1alpha1.AnnotationPolicy, "ClusterProtectionPolicy/all")(p)
		annotated(v1alpha1.AnnotationPolicyRule, `{"largeDecreases":{"onCascade":"`+string(onCascade)+`"}}`)(p)
	}
}

// A dry run answers what happens to floors, also where the deletion needs no confirmation.
func TestDryRunsTellWhatHappensToFloors(t *testing.T) {
	const (
		head      = "1 floor that keeps 3 pods available (now 4) depends on "
		held      = ": it stays in force until you confirm: kubectl annotate "
		braked    = ": it is released after a quiet period, unless too many floors fall at once; confirm: kubectl annotate "
		released  = ": it is released at once, because a user confirmed it"
		sourced   = ": it stays in force until the workload is deleted, or labeled breakwater.dev/protect=false"
		kept      = ": it stays in force, and the webhook denies removals of pods beyond the budget"
		uncounted = ": it stays in force, but the pods of the cells no longer count"
	)
	own := func(kind, plural string) *rootguard.Object { return definitionOf(t, "breakwater.dev", kind, plural) }
	confirmed := func(o *rootguard.Object) *rootguard.Object {
		o.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
		return o
	}
	ofPod := func(name string) *rootguard.Object {
		return object(t, "breakwater.dev/v1alpha1", "PodProtector", "podprotectors", fields{"metadata": fields{"namespace": "shop", "name": name}})
	}
	app := func() *rootguard.Object {
		return object(t, "example.com/v1", "App", "apps", fields{"metadata": fields{"namespace": "shop", "name": "shop", "uid": "app"}})
	}
	idle := deploymentNamed(t, "web")
	idle.Replicas = new(int64)
	yes := annotated(v1alpha1.AnnotationConfirmRelease, "true")
	hand := func(change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
		return protector("hand", 3, append(change, counted("a", 4))...)
	}
	web := func(change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
		return protector("web", 3, append([]func(*v1alpha1.PodProtector){ofDeployment("web"), counted("a", 4)}, change...)...)
	}
	vanished, deleted := withSource(v1alpha1.ReasonSourceVanished), withSource(v1alpha1.ReasonSourceDeleted)
	for claim, c := range map[string]struct {
		object *rootguard.Object
		floor  *v1alpha1.PodProtector
		want   string
	}{
		"the namespace of a handwritten protector":              {namespaceNamed(t, "shop"), hand(), held + "namespace shop"},
		"a namespace with a policy that releases":               {namespaceNamed(t, "shop"), web(ofPolicy(v1alpha1.CascadeRelease)), braked + "namespace shop"},
		"a namespace with a policy that holds":                  {namespaceNamed(t, "shop"), web(ofPolicy(v1alpha1.CascadeHold)), held + "namespace shop"},
		"a namespace of a vanished source":                      {namespaceNamed(t, "shop"), web(vanished, ofPolicy(v1alpha1.CascadeRelease)), held + "namespace shop"},
		"a confirmed namespace":                                 {confirmed(namespaceNamed(t, "shop")), web(), released},
		"a namespace of a confirmed protector":                  {namespaceNamed(t, "shop"), web(yes), released},
		"the source":                                            {deploymentNamed(t, "web"), web(), braked + "-n shop podprotector deployment-web"},
		"a confirmed source":                                    {confirmed(deploymentNamed(t, "web")), web(), released},
		"a source that is scaled to 0":                          {idle, web(), braked + "-n shop podprotector deployment-web"},
		"the owner of the source":                               {app(), web(), held + "-n shop podprotector deployment-web"},
		"an owner, confirmed where the generator does not look": {confirmed(app()), web(), held + "-n shop podprotector deployment-web"},
		"the kind of an owner":                                  {definitionOf(t, "example.com", "App", "apps"), web(), held + "-n shop podprotector deployment-web"},
		"the kind of the target":                                {definitionOf(t, "apps", "StatefulSet", "statefulsets"), hand(targeting("StatefulSet", "db")), kept},
		"a handwritten protector":                               {ofPod("hand"), hand(), braked + "-n shop podprotector hand"},
		"a handwritten protector that is confirmed":             {confirmed(ofPod("hand")), hand(yes), released},
		"a generated protector":                                 {ofPod("deployment-web"), web(), sourced},
		"a generated protector, confirmed":                      {confirmed(ofPod("deployment-web")), web(yes), sourced},
		"a protector of a vanished source":                      {ofPod("deployment-web"), web(vanished), held + "-n shop podprotector deployment-web"},
		"a protector of a deleted source":                       {ofPod("deployment-web"), web(deleted), braked + "-n shop podprotector deployment-web"},
		"the kind of protectors":                                {own("PodProtector", "podprotectors"), web(), ": it stays in force, and no other can be created, until you run \"breakwater release --all-namespaces --deleted\""},
		"the kind of Cells":                                     {own("Cell", "cells"), web(), uncounted},
		"the kind of rings":                                     {own("ClusterRing", "clusterrings"), web(), kept},
		"the kind of its policy":                                {own("ClusterProtectionPolicy", "clusterprotectionpolicies"), web(ofPolicy(v1alpha1.CascadeHold)), kept},
		"a workload that only has the pods":                     {deploymentNamed(t, "web"), hand(func(p *v1alpha1.PodProtector) { p.Spec.Selector.MatchLabels["app"] = "web" }), kept},
	} {
		t.Run(claim, func(t *testing.T) {
			q := &rootguard.Deletion{Mode: rootguard.Warn, Cluster: rootguard.ClusterIdentity{Core: "core", Cells: []string{"a"}}, Object: c.object, Now: now(), DryRun: true}
			floors := floorsOf(q.Cluster, c.floor)
			for i := range floors {
				floors[i].Owners = []rootguard.Owner{{Kind: schema.GroupKind{Group: "example.com", Kind: "App"}, UID: "app"}}
			}
			want := "Breakwater: " + head + c.object.String() + c.want
			if strings.Contains(c.want, "kubectl annotate") {
				want += " breakwater.dev/confirm-release=true"
			}
			if got := q.Decide(floors).Text; got != want {
				t.Errorf("Decide().Text = %q, want %q", got, want)
			}
		})
	}
}

// The generator's flag applies where a policy says nothing.
func TestGeneratorReleasesCascades(t *testing.T) {
	q := &rootguard.Deletion{
		Mode: rootguard.Warn, Cluster: rootguard.ClusterIdentity{Core: "core"}, Object: namespaceNamed(t, "shop"), OnCascade: v1alpha1.CascadeRelease, Now: now(),
	}
	yes := annotated(v1alpha1.AnnotationConfirmRelease, "true")
	got := q.Decide(floorsOf(q.Cluster, protector("a", 3, counted("a", 4)), protector("b", 2, ofDeployment("b"), ofPolicy(v1alpha1.CascadeHold)), protector("c", 1, yes))).Text
	want := `Breakwater: 3 floors that keep 6 pods available (now 4) depend on Namespace "shop": 1 stays in force until you confirm, ` +
		`1 is released after a quiet period, unless too many floors fall at once, 1 is released at once, because a user confirmed it; ` +
		`confirm: kubectl annotate namespace shop breakwater.dev/confirm-release=true`
	if got != want {
		t.Errorf("Decide().Text = %q, want %q", got, want)
	}
}
