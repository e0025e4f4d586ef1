package rootguard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// shareOf returns the share that a cell has of the protector of a name, whose UID is the name.
func shareOf(of, cell string, floor int32, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := protector(of+".share-"+cell, floor)
	p.Spec.Selector.MatchLabels["app"] = of
	p.Spec.ShareOf = &v1alpha1.ShareOf{Name: of, UID: of, Cell: cell}
	for _, c := range change {
		c(p)
	}
	return p
}

// shared makes a protector the one that shareOf returns the shares of.
func shared(p *v1alpha1.PodProtector) { p.UID = types.UID(p.Name) }

// workerFloors returns the floors of protectors of the core "core" and of shares, as the webhook of a worker reads them.
func workerFloors(worker rootguard.ClusterIdentity, all ...*v1alpha1.PodProtector) (floors []rootguard.Floor) {
	for _, p := range all {
		core := "core"
		if p.Spec.ShareOf != nil {
			core = "shares"
		}
		if f, ok := rootguard.FloorOf(core, p, worker, now()); ok {
			floors = append(floors, f)
		}
	}
	return floors
}

func TestWorkerDependsOnItsShares(t *testing.T) {
	worker := rootguard.ClusterIdentity{Core: "shares", Cells: []string{"a", "b"}}
	closed := func(p *v1alpha1.PodProtector) { p.Spec.ShareOf.Closed = true }
	cell := func(name string) *rootguard.Object {
		return object(t, "breakwater.dev/v1alpha1", "Cell", "cells", fields{"metadata": fields{"name": name}})
	}
	share := func(name string) *rootguard.Object {
		return object(t, "breakwater.dev/v1alpha1", "PodProtector", "podprotectors", fields{"metadata": fields{"namespace": "shop", "name": name}})
	}
	web := protector("web", 5, shared, counted("a", 4), counted("c", 3))
	confirmedWeb := protector("web", 5, shared, counted("a", 4), annotated(v1alpha1.AnnotationConfirmRelease, "true"))
	of := shareOf("web", "a", 3, counted("a", 4))
	denied := func(shares, floors, pods, local int) rootguard.Answer {
		return rootguard.Answer{Reason: rootguard.Denied, Shares: shares, Floors: floors, Pods: pods, LocalPods: local}
	}
	none := rootguard.Answer{Reason: rootguard.NoFloor}
	for claim, c := range map[string]struct {
		at         rootguard.ClusterIdentity
		object     *rootguard.Object
		protectors []*v1alpha1.PodProtector
		want       rootguard.Answer
	}{
		"the CRD of PodProtectors":                           {worker, definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors"), []*v1alpha1.PodProtector{web, of}, denied(1, 1, 3, 4)},
		"the CRD of Cells":                                   {worker, definitionOf(t, "breakwater.dev", "Cell", "cells"), []*v1alpha1.PodProtector{web, of}, denied(1, 1, 3, 4)},
		"the CRD of policies":                                {worker, definitionOf(t, "breakwater.dev", "ProtectionPolicy", "protectionpolicies"), []*v1alpha1.PodProtector{web, of}, none},
		"several shares of one floor, and one of another":    {worker, definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors"), []*v1alpha1.PodProtector{of, shareOf("web", "b", 1, counted("b", 1)), shareOf("api", "a", 2, counted("a", 2))}, denied(3, 2, 6, 7)},
		"the copy of its Cell":                               {worker, cell("a"), []*v1alpha1.PodProtector{web, of, shareOf("web", "b", 1, counted("b", 1))}, denied(1, 1, 3, 4)},
		"the copy of its Cell, in which no pod is left":      {worker, cell("a"), []*v1alpha1.PodProtector{shareOf("web", "a", 3)}, denied(1, 1, 3, 0)},
		"another Cell":                                       {worker, cell("c"), []*v1alpha1.PodProtector{web, of}, none},
		"the share":                                          {worker, share("web.share-a"), []*v1alpha1.PodProtector{web, of}, denied(1, 1, 3, 4)},
		"a share that is confirmed":                          {worker, share("web.share-a"), []*v1alpha1.PodProtector{web, shareOf("web", "a", 3, annotated(v1alpha1.AnnotationConfirmRelease, "true"))}, rootguard.Answer{Reason: rootguard.Confirmed}},
		"a share that is closed, because the cell leaves":    {worker, share("web.share-a"), []*v1alpha1.PodProtector{web, shareOf("web", "a", 3, closed)}, none},
		"a share that keeps no pods":                         {worker, share("web.share-a"), []*v1alpha1.PodProtector{web, shareOf("web", "a", 0)}, none},
		"a workload, whose floor is not counted twice":       {worker, deploymentNamed(t, "web"), []*v1alpha1.PodProtector{web, of}, denied(0, 1, 5, 4)},
		"a workload of a floor that the webhook cannot read": {worker, deploymentNamed(t, "web"), []*v1alpha1.PodProtector{of}, denied(1, 1, 3, 4)},
		"its namespace, whose floor is not counted twice":    {worker, namespaceNamed(t, "shop"), []*v1alpha1.PodProtector{web, of}, denied(0, 1, 5, 4)},
		"its namespace, if it holds a share but no pods":     {worker, namespaceNamed(t, "shop"), []*v1alpha1.PodProtector{protector("web", 5, shared, counted("c", 3)), shareOf("web", "a", 3)}, denied(1, 1, 3, 0)},
		"its namespace, confirmed on the protector":          {worker, namespaceNamed(t, "shop"), []*v1alpha1.PodProtector{confirmedWeb, of}, rootguard.Answer{Reason: rootguard.Confirmed}},
		"the CRD, confirmed on the protector":                {worker, definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors"), []*v1alpha1.PodProtector{confirmedWeb, of}, denied(1, 1, 3, 4)},
		"the CRD, in a cluster without these shares":         {rootguard.ClusterIdentity{Cells: []string{"a"}}, definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors"), []*v1alpha1.PodProtector{web, of}, none},
	} {
		t.Run(claim, func(t *testing.T) {
			q := &rootguard.Deletion{Mode: rootguard.Deny, Cluster: c.at, Object: c.object, User: "jane", Now: now()}
			got := q.Decide(workerFloors(c.at, c.protectors...))
			got.Text = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Decide() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTextsAboutShares(t *testing.T) {
	worker := rootguard.ClusterIdentity{Core: "shares", Cells: []string{"a", "b"}}
	cell := object(t, "breakwater.dev/v1alpha1", "Cell", "cells", fields{"metadata": fields{"name": "a"}})
	crd := definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors")
	share := object(t, "breakwater.dev/v1alpha1", "PodProtector", "podprotectors", fields{"metadata": fields{"namespace": "shop", "name": "web.share-a"}})
	web, api := shareOf("web", "a", 3, counted("a", 4)), shareOf("api", "a", 1, counted("a", 1))
	for _, c := range []struct {
		mode   rootguard.Mode
		object *rootguard.Object
		floors []*v1alpha1.PodProtector
		want   string
	}{
		{rootguard.Warn, crd, []*v1alpha1.PodProtector{web, shareOf("web", "b", 2), api}, `Breakwater: 3 shares of 2 floors that keep 6 pods available in this cluster (now 5) depend on CustomResourceDefinition "podprotectors.breakwater.dev": ` +
			`removals of these pods are denied until Breakwater has recreated the shares, for which it needs their core clusters`},
		{rootguard.Deny, crd, []*v1alpha1.PodProtector{web, api}, `Breakwater denies the deletion of CustomResourceDefinition "podprotectors.breakwater.dev": 2 shares of 2 floors that keep 4 pods available in this cluster (now 5) depend on it; ` +
			`if it is intended, confirm it: kubectl annotate crd podprotectors.breakwater.dev breakwater.dev/confirm-release=true`},
		{rootguard.Warn, cell, []*v1alpha1.PodProtector{web}, `Breakwater: 1 share of 1 floor that keeps 3 pods available in this cluster (now 4) depends on Cell "a": ` +
			`Breakwater does not count their pods until it has recreated the Cell, for which it needs their core clusters`},
		{rootguard.Deny, cell, []*v1alpha1.PodProtector{web}, `Breakwater denies the deletion of Cell "a": 1 share of 1 floor that keeps 3 pods available in this cluster (now 4) depends on it; ` +
			`if it is intended, confirm it: kubectl annotate cell a breakwater.dev/confirm-release=true`},
		{rootguard.Deny, share, []*v1alpha1.PodProtector{web}, `Breakwater denies the deletion of PodProtector "shop/web.share-a": 1 share of 1 floor that keeps 3 pods available in this cluster (now 4) depends on it; ` +
			`if it is intended, confirm it: kubectl annotate -n shop podprotector web.share-a breakwater.dev/confirm-release=true`},
		{rootguard.Warn, deploymentNamed(t, "web"), []*v1alpha1.PodProtector{protector("web", 5, shared, counted("a", 4)), web}, `Breakwater: 1 floor that keeps 5 pods available (now 4, 4 of them in this cluster) depends on Deployment "shop/web": ` +
			`it stays in force, and the webhook denies removals of pods beyond the budget`},
		{rootguard.Warn, deploymentNamed(t, "web"), []*v1alpha1.PodProtector{web}, `Breakwater: 1 share of 1 floor that keeps 3 pods available in this cluster (now 4) depends on Deployment "shop/web": ` +
			`it stays in force, and the webhook denies removals of pods beyond the budget`},
	} {
		q := &rootguard.Deletion{Mode: c.mode, Cluster: worker, Object: c.object, Now: now()}
		if diff := cmp.Diff(c.want, q.Decide(workerFloors(worker, c.floors...)).Text); diff != "" {
			t.Errorf("%s of %s (-want +got):\n%s", c.mode, c.object, diff)
		}
	}
}
