package rootguard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

func TestAnswers(t *testing.T) {
	confirmed := func(q *rootguard.Deletion) {
		q.Object.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
	}
	for claim, c := range map[string]struct {
		mode   rootguard.Mode
		change func(*rootguard.Deletion)
		want   rootguard.Reason
	}{
		"warns":                          {rootguard.Warn, nil, rootguard.Warned},
		"denies":                         {rootguard.Deny, nil, rootguard.Denied},
		"is off":                         {rootguard.Off, nil, rootguard.NoFloor},
		"confirmed, where it would warn": {rootguard.Warn, confirmed, rootguard.Confirmed},
		"confirmed, where it would deny": {rootguard.Deny, confirmed, rootguard.Confirmed},
		"confirmed for a time that ended": {rootguard.Deny, func(q *rootguard.Deletion) {
			confirmed(q)
			q.Object.Annotations[v1alpha1.AnnotationConfirmRelease] = "2026-11-28"
		}, rootguard.Denied},
		"confirmed on the namespace": {rootguard.Deny, func(q *rootguard.Deletion) {
			q.Object.NamespaceAnnotations = map[string]string{v1alpha1.AnnotationConfirmRelease: "2026-11-30"}
		}, rootguard.Confirmed},
		"scaled to 0, where it would warn":    {rootguard.Warn, func(q *rootguard.Deletion) { q.Object.Replicas = ptr.To[int64](0) }, rootguard.ScaledToZero},
		"scaled to 0, where it would deny":    {rootguard.Deny, func(q *rootguard.Deletion) { q.Object.Replicas = ptr.To[int64](0) }, rootguard.ScaledToZero},
		"scaled to 1":                         {rootguard.Deny, func(q *rootguard.Deletion) { q.Object.Replicas = ptr.To[int64](1) }, rootguard.Denied},
		"without replicas":                    {rootguard.Deny, func(q *rootguard.Deletion) { q.Object.Replicas = nil }, rootguard.Denied},
		"already being deleted":               {rootguard.Deny, func(q *rootguard.Deletion) { q.Object.Terminating = true }, rootguard.Terminating},
		"an object that no floor depends on":  {rootguard.Deny, func(q *rootguard.Deletion) { q.Object = deploymentNamed(t, "other") }, rootguard.NoFloor},
		"the garbage collector is not warned": {rootguard.Warn, func(q *rootguard.Deletion) { q.Groups = []string{"system:serviceaccounts:kube-system"} }, rootguard.SystemClient},
		"the garbage collector is denied":     {rootguard.Deny, func(q *rootguard.Deletion) { q.Groups = []string{"system:serviceaccounts:kube-system"} }, rootguard.Denied},
		"another controller is warned":        {rootguard.Warn, func(q *rootguard.Deletion) { q.Groups = []string{"system:serviceaccounts:flux-system"} }, rootguard.Warned},
	} {
		t.Run(claim, func(t *testing.T) {
			q := &rootguard.Deletion{Mode: c.mode, Cluster: rootguard.ClusterIdentity{Core: "core"}, Object: deploymentNamed(t, "web"), User: "jane", Now: now()}
			if c.change != nil {
				c.change(q)
			}
			got := q.Decide(floorsOf(q.Cluster, protector("web", 3, ofDeployment("web"), counted("a", 4))))
			if got.Reason != c.want || (got.Text != "") != (c.want == rootguard.Warned || c.want == rootguard.Denied) {
				t.Errorf("Decide() = %+v, want reason %s", got, c.want)
			}
		})
	}
}

func TestReplicaSetsOfDeploymentsAreAllowed(t *testing.T) {
	for claim, c := range map[string]struct {
		owner fields
		want  rootguard.Reason
	}{
		"of a Deployment":                        {fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u", "controller": true}, rootguard.Controlled},
		"of another kind":                        {fields{"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "u", "controller": true}, rootguard.Denied},
		"of an owner that is not the controller": {fields{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}, rootguard.Denied},
	} {
		t.Run(claim, func(t *testing.T) {
			set := object(t, "apps/v1", "ReplicaSet", "replicasets", fields{
				"metadata": fields{"namespace": "shop", "name": "web-1", "ownerReferences": []fields{c.owner}},
				"spec":     fields{"replicas": 4, "template": fields{"metadata": fields{"labels": fields{"app": "web"}}}},
			})
			q := &rootguard.Deletion{Mode: rootguard.Deny, Cluster: rootguard.ClusterIdentity{Cells: []string{"a"}}, Object: set, Now: now()}
			if got := q.Decide(floorsOf(q.Cluster, protector("web", 3, counted("a", 4)))); got.Reason != c.want {
				t.Errorf("Decide() = %+v, want reason %s", got, c.want)
			}
		})
	}
}

// Users read these texts, which have one sentence each.
func TestTexts(t *testing.T) {
	core, worker := rootguard.ClusterIdentity{Core: "core"}, rootguard.ClusterIdentity{Cells: []string{"a"}}
	web := protector("web", 3, ofDeployment("web"), counted("a", 4))
	single := protector("api", 1, ofDeployment("api"), counted("a", 1))
	rollout := protector("web", 3, generatedFrom("argoproj.io", "v1alpha1", "Rollout", "web"))
	for _, c := range []struct {
		mode   rootguard.Mode
		at     rootguard.ClusterIdentity
		object *rootguard.Object
		floors []*v1alpha1.PodProtector
		want   string
	}{
		{rootguard.Warn, core, namespaceNamed(t, "shop"), []*v1alpha1.PodProtector{web, single}, `Breakwater: 2 floors that keep 4 pods available (now 5) depend on Namespace "shop": ` +
			`they stay in force until you confirm: kubectl annotate namespace shop breakwater.dev/confirm-release=true`},
		{rootguard.Deny, core, namespaceNamed(t, "shop"), []*v1alpha1.PodProtector{web, single}, `Breakwater denies the deletion of Namespace "shop": 2 floors that keep 4 pods available (now 5) depend on it; ` +
			`if it is intended, confirm it: kubectl annotate namespace shop breakwater.dev/confirm-release=true`},
		{rootguard.Warn, core, deploymentNamed(t, "api"), []*v1alpha1.PodProtector{single}, `Breakwater: 1 floor that keeps 1 pod available (now 1) depends on Deployment "shop/api": ` +
			`it is released after a quiet period, unless too many floors fall at once; confirm: kubectl annotate -n shop podprotector deployment-api breakwater.dev/confirm-release=true`},
		{rootguard.Deny, worker, deploymentNamed(t, "api"), []*v1alpha1.PodProtector{single}, `Breakwater denies the deletion of Deployment "shop/api": 1 floor that keeps 1 pod available (now 1, 1 of them in this cluster) depends on it; ` +
			`if it is intended, confirm it: kubectl annotate -n shop deployment api breakwater.dev/confirm-release=true, or scale it to 0 first`},
		{rootguard.Warn, core, definitionOf(t, "argoproj.io", "Rollout", "rollouts"), []*v1alpha1.PodProtector{rollout}, `Breakwater: 1 floor that keeps 3 pods available (now 0) depends on CustomResourceDefinition "rollouts.argoproj.io": ` +
			`it stays in force until you confirm: kubectl annotate -n shop podprotector ` + rollout.Name + ` breakwater.dev/confirm-release=true`},
		{
			rootguard.Deny, core, object(t, "argoproj.io/v1alpha1", "Rollout", "rollouts", fields{"metadata": fields{"namespace": "shop", "name": "web"}}), []*v1alpha1.PodProtector{rollout},
			`Breakwater denies the deletion of Rollout "shop/web": 1 floor that keeps 3 pods available (now 0) depends on it; ` +
				`if it is intended, confirm it: kubectl annotate -n shop rollouts.argoproj.io web breakwater.dev/confirm-release=true`,
		},
	} {
		q := &rootguard.Deletion{Mode: c.mode, Cluster: c.at, Object: c.object, Now: now()}
		if diff := cmp.Diff(c.want, q.Decide(floorsOf(c.at, c.floors...)).Text); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.mode, c.object, diff)
		}
	}
}

func TestReadObjectAcceptsAnyObject(t *testing.T) {
	for claim, of := range map[string]fields{
		"no spec":                    {},
		"a spec of another type":     {"spec": "none"},
		"replicas of another type":   {"spec": fields{"replicas": "4"}},
		"a fraction of a replica":    {"spec": fields{"replicas": 0.5}},
		"a template of another type": {"spec": fields{"template": []string{"a"}}},
	} {
		t.Run(claim, func(t *testing.T) {
			of["metadata"] = fields{"namespace": "shop", "name": "x"}
			if o := object(t, "example.com/v1", "App", "apps", of); o.Replicas != nil || o.TemplateLabels != nil {
				t.Errorf("ReadObject() = %+v, want neither replicas nor a template", o)
			}
		})
	}
}

// The oracle is a slow, simple count of the floors of a namespace.
func TestNamespaceCountsItsLiveFloors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rootguard.ClusterIdentity{Core: rapid.SampledFrom([]string{"", "core", "second"}).Draw(t, "core")}
		if at.Core == "" || rapid.Bool().Draw(t, "has cells") {
			at.Cells = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 1, 2, rapid.ID).Draw(t, "cells")
		}
		var floors []rootguard.Floor
		want, confirmed := rootguard.Answer{}, 0
		for range rapid.IntRange(0, 8).Draw(t, "protectors") {
			p := protector("web", rapid.Int32Range(0, 4).Draw(t, "floor"))
			p.Namespace = rapid.SampledFrom([]string{"shop", "bank"}).Draw(t, "namespace")
			here := 0
			for _, cell := range []string{"a", "b", "c"} {
				available := rapid.Int32Range(0, 3).Draw(t, "available in "+cell)
				counted(cell, available)(p)
				for _, of := range at.Cells {
					if of == cell {
						here += int(available)
					}
				}
			}
			isConfirmed := rapid.IntRange(0, 4).Draw(t, "confirmed") == 0
			if isConfirmed {
				annotated(v1alpha1.AnnotationConfirmRelease, "true")(p)
			}
			of := rapid.SampledFrom([]string{"core", "second"}).Draw(t, "of core")
			if f, ok := rootguard.FloorOf(of, p, at, now()); ok {
				floors = append(floors, f)
			}
			floor := p.Spec.MinAvailable.IntValue()
			switch {
			case p.Namespace != "shop" || floor == 0 || of != at.Core && here == 0:
			case isConfirmed:
				confirmed++
			default:
				want.Floors, want.Pods, want.LocalPods = want.Floors+1, want.Pods+floor, want.LocalPods+here
			}
		}
		switch {
		case want.Floors > 0:
			want.Reason = rootguard.Denied
		case confirmed > 0:
			want.Reason = rootguard.Confirmed
		default:
			want.Reason = rootguard.NoFloor
		}
		q := &rootguard.Deletion{Mode: rootguard.Deny, Cluster: at, Object: &rootguard.Object{Name: "shop"}, Now: now()}
		q.Object.Kind.Kind = "Namespace"
		if diff := cmp.Diff(want, q.Decide(floors), cmpopts.IgnoreFields(rootguard.Answer{}, "Text")); diff != "" {
			t.Fatalf("Decide() (-want +got):\n%s", diff)
		}
	})
}
