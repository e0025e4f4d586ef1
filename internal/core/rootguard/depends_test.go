package rootguard_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

func targeting(kind, name string) func(*v1alpha1.PodProtector) {
	return func(p *v1alpha1.PodProtector) {
		p.Spec.Selector, p.Spec.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: kind, Name: name}
	}
}

func TestFloorDependsOnObject(t *testing.T) {
	core, worker := rootguard.ClusterIdentity{Core: "core"}, rootguard.ClusterIdentity{Cells: []string{"a"}}
	both := rootguard.ClusterIdentity{Core: "core", Cells: []string{"a", "b"}}
	web := protector("web", 3, ofDeployment("web"), counted("a", 4), counted("c", 2))
	rollout := protector("web", 3, generatedFrom("argoproj.io", "v1alpha1", "Rollout", "web"))
	hand := protector("hand", 3, counted("a", 4))
	secondVersion := protector("hand", 3, func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(0) }, counted("a", 4))
	target := protector("target", 3, targeting("StatefulSet", "db"), counted("a", 4))
	byPolicy := protector("web", 3, ofDeployment("web"), annotated(v1alpha1.AnnotationPolicy, "ClusterProtectionPolicy/all"))
	set := func(name string) *rootguard.Object {
		return object(t, "apps/v1", "StatefulSet", "statefulsets", fields{"metadata": fields{"namespace": "shop", "name": name}})
	}
	cell := func(name string) *rootguard.Object {
		return object(t, "breakwater.dev/v1alpha1", "Cell", "cells", fields{"metadata": fields{"name": name}})
	}
	podProtector := func(name string) *rootguard.Object {
		return object(t, "breakwater.dev/v1alpha1", "PodProtector", "podprotectors", fields{"metadata": fields{"namespace": "shop", "name": name}})
	}
	otherShop, otherHand, renamed := deploymentNamed(t, "web"), deploymentNamed(t, "hand"), deploymentNamed(t, "web")
	otherShop.Namespace, otherHand.Namespace = "bank", "bank"
	renamed.TemplateLabels = map[string]string{"app": "other"}
	for claim, c := range map[string]struct {
		at     rootguard.ClusterIdentity
		floor  *v1alpha1.PodProtector
		object *rootguard.Object
		want   bool
	}{
		"its namespace in the core":                                           {core, web, namespaceNamed(t, "shop"), true},
		"another namespace":                                                   {core, web, namespaceNamed(t, "bank"), false},
		"its namespace where it has pods":                                     {worker, web, namespaceNamed(t, "shop"), true},
		"its namespace where it has none":                                     {rootguard.ClusterIdentity{Cells: []string{"b"}}, web, namespaceNamed(t, "shop"), false},
		"its namespace in another core":                                       {rootguard.ClusterIdentity{Core: "second"}, web, namespaceNamed(t, "shop"), false},
		"its namespace in another core that has its pods":                     {rootguard.ClusterIdentity{Core: "second", Cells: []string{"a"}}, web, namespaceNamed(t, "shop"), true},
		"a floor of 0":                                                        {both, secondVersion, namespaceNamed(t, "shop"), false},
		"its source":                                                          {core, web, deploymentNamed(t, "web"), true},
		"a workload of another name":                                          {core, web, deploymentNamed(t, "api"), false},
		"a workload of the same name of another kind":                         {core, web, set("web"), false},
		"a workload of the same name of another namespace":                    {core, web, otherShop, false},
		"a source of a kind that policies name":                               {core, rollout, object(t, "argoproj.io/v1alpha1", "Rollout", "rollouts", fields{"metadata": fields{"namespace": "shop", "name": "web"}}), true},
		"a kind of that name of another group":                                {core, rollout, object(t, "example.com/v1", "Rollout", "rollouts", fields{"metadata": fields{"namespace": "shop", "name": "web"}}), false},
		"a workload whose pods it covers, only in the core":                   {core, hand, deploymentNamed(t, "hand"), false},
		"a workload whose pods it covers, in a worker":                        {worker, hand, deploymentNamed(t, "hand"), true},
		"a workload whose pods it covers, in a worker without pods":           {rootguard.ClusterIdentity{Cells: []string{"c"}}, hand, deploymentNamed(t, "hand"), false},
		"a workload of another namespace with labels that it covers":          {worker, hand, otherHand, false},
		"a workload with the name of its source whose pods it does not cover": {worker, protector("web", 3, ofDeployment("web"), counted("a", 4)), renamed, false},
		"a workload whose pods it does not cover":                             {worker, hand, deploymentNamed(t, "web"), false},
		"a workload without a template":                                       {worker, hand, set("hand"), false},
		"the workload of targetRef, in a worker":                              {worker, target, set("db"), true},
		"another workload than targetRef":                                     {worker, target, set("queue"), false},
		"the workload of targetRef, only in the core":                         {core, target, set("db"), false},
		"itself":                                                          {core, web, podProtector("deployment-web"), true},
		"another PodProtector":                                            {core, web, podProtector("hand"), false},
		"itself, of which the worker has a copy":                          {worker, web, podProtector("deployment-web"), false},
		"a Cell with its pods":                                            {core, web, cell("c"), true},
		"a Cell without its pods":                                         {core, web, cell("b"), false},
		"the CRD of PodProtectors":                                        {core, hand, definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors"), true},
		"the CRD of PodProtectors in a worker":                            {worker, hand, definitionOf(t, "breakwater.dev", "PodProtector", "podprotectors"), false},
		"the CRD of Cells":                                                {core, hand, definitionOf(t, "breakwater.dev", "Cell", "cells"), true},
		"the CRD of rings":                                                {core, hand, definitionOf(t, "breakwater.dev", "ClusterRing", "clusterrings"), true},
		"the CRD of scheduling policies":                                  {core, hand, definitionOf(t, "breakwater.dev", "PodSchedulingPolicy", "podschedulingpolicies"), false},
		"the CRD of its policy":                                           {core, byPolicy, definitionOf(t, "breakwater.dev", "ClusterProtectionPolicy", "clusterprotectionpolicies"), true},
		"the CRD of another policy":                                       {core, byPolicy, definitionOf(t, "breakwater.dev", "ProtectionPolicy", "protectionpolicies"), false},
		"the CRD of policies, for one without a policy":                   {core, web, definitionOf(t, "breakwater.dev", "ProtectionPolicy", "protectionpolicies"), false},
		"the CRD of its source":                                           {core, rollout, definitionOf(t, "argoproj.io", "Rollout", "rollouts"), true},
		"the CRD of another kind":                                         {core, rollout, definitionOf(t, "argoproj.io", "Workflow", "workflows"), false},
		"the CRD of the kind of targetRef, in a worker":                   {worker, target, definitionOf(t, "apps", "StatefulSet", "statefulsets"), true},
		"a PodProtector with the name of a Cell with its pods":            {core, web, podProtector("c"), false},
		"a namespace with the name of its source":                         {core, web, namespaceNamed(t, "web"), false},
		"a workload of the core that is a source and has its pods, twice": {both, web, deploymentNamed(t, "web"), true},
	} {
		t.Run(claim, func(t *testing.T) {
			floors := floorsOf(c.at, c.floor)
			got := len(floors) == 1 && floors[0].DependsOn(c.object)
			if got != c.want {
				t.Errorf("DependsOn(%s) = %v, want %v (floors %+v)", c.object, got, c.want, floors)
			}
		})
	}
}

func TestFloorOfCountsPods(t *testing.T) {
	share := func(p *v1alpha1.PodProtector) {
		half := intstr.FromString("50%")
		p.Spec.MinAvailable = &half
	}
	expecting := func(pods int32) func(*v1alpha1.PodProtector) {
		return func(p *v1alpha1.PodProtector) { p.Spec.ExpectedReplicas = &pods }
	}
	at := rootguard.ClusterIdentity{Core: "core", Cells: []string{"a", "b"}}
	for claim, c := range map[string]struct {
		protector  *v1alpha1.PodProtector
		live       bool
		pods, here int
	}{
		"a number":                     {protector("web", 3, counted("a", 4), counted("c", 5)), true, 3, 4},
		"a share of the expected pods": {protector("web", 0, share, expecting(9), counted("a", 4)), true, 5, 4},
		"all pods while the expected number is unknown": {protector("web", 0, share, counted("a", 4), counted("c", 5)), true, 9, 4},
		"no pods while the expected number is unknown":  {protector("web", 0, share), false, 0, 0},
		"a share of nothing":                            {protector("web", 0, share, expecting(0), counted("a", 4)), false, 0, 0},
		"the same while it is being deleted":            {protector("web", 3, counted("a", 4), func(p *v1alpha1.PodProtector) { p.DeletionTimestamp = &metav1.Time{Time: now()} }), true, 3, 4},
		"the same in all cells of the cluster":          {protector("web", 3, counted("a", 4), counted("b", 1)), true, 3, 5},
	} {
		t.Run(claim, func(t *testing.T) {
			got, live := rootguard.FloorOf("core", c.protector, at, now())
			if live != c.live || got.Pods != c.pods || got.LocalPods != c.here {
				t.Errorf("FloorOf() = %d pods, %d local, live %v, want %d, %d, %v", got.Pods, got.LocalPods, live, c.pods, c.here, c.live)
			}
		})
	}
}

func TestSourcesDependOnTheirOwners(t *testing.T) {
	app := schema.GroupKind{Group: "example.com", Kind: "App"}
	for claim, c := range map[string]struct {
		at     rootguard.ClusterIdentity
		object *rootguard.Object
		want   bool
	}{
		"the owner":                    {rootguard.ClusterIdentity{Core: "core"}, object(t, "example.com/v1", "App", "apps", fields{"metadata": fields{"namespace": "shop", "name": "x", "uid": "1"}}), true},
		"an owner without a namespace": {rootguard.ClusterIdentity{Core: "core"}, object(t, "example.com/v1", "App", "apps", fields{"metadata": fields{"name": "x", "uid": "1"}}), true},
		"another object of its name":   {rootguard.ClusterIdentity{Core: "core"}, object(t, "example.com/v1", "App", "apps", fields{"metadata": fields{"namespace": "shop", "name": "x", "uid": "2"}}), false},
		"the CRD of the owner":         {rootguard.ClusterIdentity{Core: "core"}, definitionOf(t, "example.com", "App", "apps"), true},
		"the CRD of another kind":      {rootguard.ClusterIdentity{Core: "core"}, definitionOf(t, "example.com", "Job", "jobs"), false},
		"an owner in a worker":         {rootguard.ClusterIdentity{Cells: []string{"a"}}, object(t, "example.com/v1", "App", "apps", fields{"metadata": fields{"namespace": "shop", "name": "x", "uid": "1"}}), false},
	} {
		t.Run(claim, func(t *testing.T) {
			floors := floorsOf(c.at, protector("web", 3, ofDeployment("web"), counted("a", 4)))
			floors[0].Owners = []rootguard.Owner{{Kind: app, UID: "1"}}
			if got := floors[0].DependsOn(c.object); got != c.want {
				t.Errorf("DependsOn(%s) = %v, want %v", c.object, got, c.want)
			}
		})
	}
}
