package aggregator_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// kind is a kind that a test defines.
type kind struct {
	plural, kind string
	isCluster    bool
	// replicas and selector are paths of the scale subresource. A kind without replicas has none.
	replicas, selector string
}

// kinds has a kind for each row of the table in docs/concepts/overview.md.
var kinds = map[string]kind{
	"Monitor":      {"monitors", "Monitor", false, ".spec.shards", ".status.selector"},
	"Search":       {"searches", "Search", false, "", ""},
	"Integration":  {"integrations", "Integration", false, ".spec.replicas", ""},
	"Installation": {"installations", "Installation", true, "", ""},
	"Rollout":      {"rollouts", "Rollout", false, ".spec.replicas", ".status.selector"},
	"CloneSet":     {"clonesets", "CloneSet", false, ".spec.replicas", ".status.labelSelector"},
	"Database":     {"databases", "Database", false, ".spec.instances", ""},
	"PodGroup":     {"podgroups", "PodGroup", false, "", ""},
	"NodePool":     {"nodepools", "NodePool", false, ".spec.replicas", ".status.labelSelector"},
	"LeaderSet":    {"leadersets", "LeaderSet", false, ".spec.replicas", ".status.leaders"},
	"Fleet":        {"fleets", "Fleet", true, ".spec.replicas", ".status.selector"},
}

const kindsGroup = "rule16.test"

// defineKinds defines the kinds, which stay for all tests.
func (l *fixture) defineKinds() {
	l.Helper()
	if err := apiextensionsv1.AddToScheme(l.scheme); err != nil {
		l.Fatal(err)
	}
	preserve := true
	for _, k := range kinds {
		version := apiextensionsv1.CustomResourceDefinitionVersion{
			Name: "v1", Served: true, Storage: true,
			Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
		if k.replicas != "" {
			version.Subresources.Scale = &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: k.replicas, StatusReplicasPath: ".status.replicas"}
			if k.selector != "" {
				version.Subresources.Scale.LabelSelectorPath = &k.selector
			}
		}
		definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: k.plural + "." + kindsGroup}}
		definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: kindsGroup, Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version},
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: k.plural, Kind: k.kind},
		}
		if k.isCluster {
			definition.Spec.Scope = apiextensionsv1.ClusterScoped
		}
		if err := l.client.Create(l.Context(), definition); client.IgnoreAlreadyExists(err) != nil {
			l.Fatal(err)
		}
	}
}

// operand creates an object of one of the kinds.
func (l *fixture) operand(kindName string, spec, status map[string]any, controller client.Object) *unstructured.Unstructured {
	l.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(kindsGroup + "/v1")
	object.SetKind(kindName)
	object.SetName(l.namespace)
	if !kinds[kindName].isCluster {
		object.SetNamespace(l.namespace)
	}
	l.control(controller, object)
	l.eventually(func() string { return text(l.client.Create(l.Context(), object)) })
	l.setStatus(object, status)
	return object
}

func (l *fixture) setStatus(object *unstructured.Unstructured, status map[string]any) {
	l.Helper()
	if status == nil {
		return
	}
	patch := object.DeepCopy()
	patch.Object["status"] = status
	if err := l.client.Status().Patch(l.Context(), patch, client.MergeFrom(object)); err != nil {
		l.Fatal(err)
	}
}

// control sets the controller of an object, which may be of cluster scope; nil sets none.
func (l *fixture) control(controller, object client.Object) {
	l.Helper()
	if controller == nil {
		return
	}
	of, err := l.client.GroupVersionKindFor(controller)
	if err != nil {
		l.Fatal(err)
	}
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(controller, of)})
}

// built creates an object of a built-in kind that controls pods with the labels app=web and the given ones.
func (l *fixture) built(object client.Object, replicas int32, labels map[string]string, controller client.Object) client.Object {
	l.Helper()
	pods := template()
	maps.Copy(pods.Labels, labels)
	selector := &metav1.LabelSelector{MatchLabels: pods.Labels}
	switch o := object.(type) {
	case *appsv1.Deployment:
		o.Spec = appsv1.DeploymentSpec{Replicas: &replicas, Template: pods, Selector: selector}
	case *appsv1.StatefulSet:
		o.Spec = appsv1.StatefulSetSpec{Replicas: &replicas, Template: pods, Selector: selector}
	case *appsv1.ReplicaSet:
		o.Spec = appsv1.ReplicaSetSpec{Replicas: &replicas, Template: pods, Selector: selector}
	case *appsv1.DaemonSet:
		o.Spec = appsv1.DaemonSetSpec{Template: pods, Selector: selector}
	case *batchv1.Job:
		pods.Spec.RestartPolicy = corev1.RestartPolicyNever
		o.Spec = batchv1.JobSpec{Parallelism: &replicas, Completions: &replicas, Template: pods}
	}
	object.SetNamespace(l.namespace)
	l.control(controller, object)
	l.create(object)
	return object
}

// pods creates ready pods with the label app=web and the given ones, which a controller controls.
func (l *fixture) pods(prefix string, number int, labels map[string]string, controller client.Object) []*corev1.Pod {
	l.Helper()
	var all []*corev1.Pod
	for i := range number {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: l.namespace, Name: fmt.Sprint(prefix, "-", i), Labels: map[string]string{"app": "web"},
		}, Spec: template().Spec}
		maps.Copy(p.Labels, labels)
		p.Spec.NodeName = "node-1"
		l.control(controller, p)
		l.create(p)
		l.setReady(p, true)
		all = append(all, p)
	}
	return all
}

// orphan deletes the controller of some pods, which stay.
func (l *fixture) orphan(controller client.Object) {
	l.Helper()
	if err := l.client.Delete(l.Context(), controller, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		l.Fatal(err)
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

type fields = map[string]any

// The claims are the rows of the table in docs/concepts/overview.md, on a real API server (rule 16).
func TestCountingWorkload(t *testing.T) {
	first := newFixture(t)
	first.defineKinds()
	stateful := func(name string) *appsv1.StatefulSet { return &appsv1.StatefulSet{ObjectMeta: named(name)} }
	deployment := func(name string) *appsv1.Deployment { return &appsv1.Deployment{ObjectMeta: named(name)} }
	replicaSet := func(name string) *appsv1.ReplicaSet { return &appsv1.ReplicaSet{ObjectMeta: named(name)} }
	selectsWeb := fields{"selector": "app=web"}
	for claim, c := range map[string]struct {
		build func(l *fixture)
		want  int32
		// problem is what the condition Ready says if the number is unknown.
		problem string
	}{
		"StatefulSet: its replicas": {func(l *fixture) {
			l.pods("db", 3, nil, l.built(stateful("db"), 3, nil, nil))
		}, 3, ""},
		"ReplicaSet without a controller: its replicas": {func(l *fixture) {
			l.pods("web", 2, nil, l.built(replicaSet("web"), 4, nil, nil))
		}, 4, ""},
		"ReplicaSets of a Deployment: the Deployment once": {func(l *fixture) {
			web := l.built(deployment("web"), 5, nil, nil)
			l.pods("old", 3, nil, l.built(replicaSet("web-old"), 3, nil, web))
			l.pods("new", 3, nil, l.built(replicaSet("web-new"), 3, nil, web))
		}, 5, ""},
		"ReplicaSet that its Deployment deleted while pods terminate: the Deployment once": {func(l *fixture) {
			old := l.built(replicaSet("web-old"), 3, map[string]string{"hash": "a"}, nil)
			l.pods("old", 3, map[string]string{"hash": "a"}, old)
			l.orphan(old)
			l.pods("new", 3, nil, l.built(replicaSet("web-new"), 5, nil, l.built(deployment("web"), 5, nil, nil)))
		}, 5, ""},
		"ReplicaSet that was deleted and none of whose pods a Deployment selects: its pods": {func(l *fixture) {
			blue := l.built(replicaSet("blue"), 3, map[string]string{"hash": "a"}, nil)
			l.pods("blue", 3, map[string]string{"hash": "a"}, blue)
			l.orphan(blue)
			green := l.built(deployment("green"), 5, map[string]string{"hash": "b"}, nil)
			l.pods("green", 3, map[string]string{"hash": "b"}, l.built(replicaSet("green"), 5, map[string]string{"hash": "b"}, green))
		}, 8, ""},
		"operator's object with a scale in another unit, above a StatefulSet: the StatefulSet": {func(l *fixture) {
			monitor := l.operand("Monitor", fields{"shards": int64(1)}, selectsWeb, nil)
			l.pods("db", 3, nil, l.built(stateful("db"), 3, nil, monitor))
		}, 3, ""},
		"and above a Deployment: the Deployment": {func(l *fixture) {
			monitor := l.operand("Monitor", fields{"shards": int64(2)}, selectsWeb, nil)
			web := l.built(deployment("web"), 4, nil, monitor)
			l.pods("web", 4, nil, l.built(replicaSet("web-1"), 4, nil, web))
		}, 4, ""},
		"operator's object without a scale, above a Deployment: the Deployment": {func(l *fixture) {
			web := l.built(deployment("web"), 3, nil, l.operand("Search", fields{}, nil, nil))
			l.pods("web", 3, nil, l.built(replicaSet("web-1"), 3, nil, web))
		}, 3, ""},
		"without a scale, above a ReplicaSet: the ReplicaSet": {func(l *fixture) {
			l.pods("web", 3, nil, l.built(replicaSet("web-1"), 3, nil, l.operand("Search", fields{}, nil, nil)))
		}, 3, ""},
		"with a scale that answers an error, above a Deployment: the Deployment": {func(l *fixture) {
			web := l.built(deployment("web"), 3, nil, l.operand("Integration", fields{}, nil, nil))
			l.pods("web", 3, nil, l.built(replicaSet("web-1"), 3, nil, web))
		}, 3, ""},
		"above a ReplicaSet: the ReplicaSet": {func(l *fixture) {
			l.pods("web", 3, nil, l.built(replicaSet("web-1"), 3, nil, l.operand("Integration", fields{}, nil, nil)))
		}, 3, ""},
		"with a scale that answers an error, as the controller of the pods: unknown": {func(l *fixture) {
			l.pods("web", 3, nil, l.operand("Integration", fields{}, nil, nil))
		}, 0, "set its number of replicas, or spec.expectedReplicas"},
		"of cluster scope, above a Deployment: the Deployment": {func(l *fixture) {
			web := l.built(deployment("web"), 5, nil, l.operand("Installation", fields{}, nil, nil))
			l.pods("web", 5, nil, l.built(replicaSet("web-1"), 5, nil, web))
		}, 5, ""},
		"of cluster scope, as the controller of the pods: its replicas": {func(l *fixture) {
			l.pods("web", 2, nil, l.operand("Fleet", fields{"replicas": int64(6)}, selectsWeb, nil))
		}, 6, ""},
		"Rollout: its replicas, not those of its ReplicaSets": {func(l *fixture) {
			rollout := l.operand("Rollout", fields{"replicas": int64(5)}, selectsWeb, nil)
			l.pods("stable", 4, map[string]string{"hash": "a"}, l.built(replicaSet("web-a"), 4, map[string]string{"hash": "a"}, rollout))
			l.pods("canary", 2, map[string]string{"hash": "b"}, l.built(replicaSet("web-b"), 2, map[string]string{"hash": "b"}, rollout))
		}, 5, ""},
		"Rollout whose scale selects one color: its replicas for that one, and those of the other ReplicaSet": {func(l *fixture) {
			rollout := l.operand("Rollout", fields{"replicas": int64(5)}, fields{"selector": "app=web,hash=a"}, nil)
			l.pods("blue", 5, map[string]string{"hash": "a"}, l.built(replicaSet("web-a"), 5, map[string]string{"hash": "a"}, rollout))
			l.pods("green", 3, map[string]string{"hash": "b"}, l.built(replicaSet("web-b"), 3, map[string]string{"hash": "b"}, rollout))
		}, 8, ""},
		"CloneSet: its replicas": {func(l *fixture) {
			l.pods("web", 2, nil, l.operand("CloneSet", fields{"replicas": int64(4)}, fields{"labelSelector": "app=web"}, nil))
		}, 4, ""},
		"controller of pods with a scale without a selector: its replicas": {func(l *fixture) {
			l.pods("db", 3, nil, l.operand("Database", fields{"instances": int64(3)}, nil, nil))
		}, 3, ""},
		"controller of pods without a scale, below one that selects them: the upper one": {func(l *fixture) {
			pool := l.operand("NodePool", fields{"replicas": int64(3)}, fields{"labelSelector": "app=web"}, nil)
			l.pods("broker", 2, nil, l.operand("PodGroup", fields{}, nil, pool))
		}, 3, ""},
		"or one that owns it and does not control it": {func(l *fixture) {
			pool := l.operand("NodePool", fields{"replicas": int64(3)}, fields{"labelSelector": "app=web"}, nil)
			group := l.operand("PodGroup", fields{}, nil, nil)
			patch := client.MergeFrom(group.DeepCopy())
			group.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: kindsGroup + "/v1", Kind: "NodePool", Name: pool.GetName(), UID: pool.GetUID()}})
			if err := l.client.Patch(l.Context(), group, patch); err != nil {
				l.Fatal(err)
			}
			l.pods("broker", 2, nil, group)
		}, 3, ""},
		"below one without a selector: unknown": {func(l *fixture) {
			l.pods("db", 2, nil, l.operand("PodGroup", fields{}, nil, l.operand("Database", fields{"instances": int64(3)}, nil, nil)))
		}, 0, "PodGroup %s has no scale subresource, the scale of Database %s has no selector: set spec.expectedReplicas"},
		"LeaderWorkerSet: its StatefulSets": {func(l *fixture) {
			llm := l.operand("LeaderSet", fields{"replicas": int64(2)}, fields{"leaders": "app=web,index=0"}, nil)
			leaders := l.pods("llm", 2, map[string]string{"index": "0"}, l.built(stateful("llm"), 2, map[string]string{"index": "0"}, llm))
			for i, leader := range leaders {
				group := fmt.Sprint("llm-", i, "-w")
				labels := map[string]string{"index": "1", "group": fmt.Sprint(i)}
				l.pods(group, 3, labels, l.built(stateful(group), 3, labels, leader))
			}
		}, 8, ""},
		"Job: unknown": {func(l *fixture) {
			l.pods("task", 2, nil, l.built(&batchv1.Job{ObjectMeta: named("task")}, 2, nil, nil))
		}, 0, "Job task has no scale subresource: set spec.expectedReplicas"},
		"DaemonSet: unknown": {func(l *fixture) {
			l.pods("agent", 2, nil, l.built(&appsv1.DaemonSet{ObjectMeta: named("agent")}, 0, nil, nil))
		}, 0, "DaemonSet agent has no scale subresource: set spec.expectedReplicas"},
		"Node, above static pods: unknown": {func(l *fixture) {
			node := &corev1.Node{ObjectMeta: named(l.namespace)}
			l.create(node)
			l.Cleanup(func() { _ = l.client.Delete(l.Context(), node) })
			l.pods("static", 2, nil, node)
		}, 0, "Node %s has no scale subresource: set spec.expectedReplicas"},
		"pods without a controller: unknown": {func(l *fixture) { l.pods("web", 2, nil, nil) }, 0, "2 pods: no controller states"},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			l.createCell()
			c.build(l)
			l.createProtector(oneMissing)
			l.run("a")
			if c.problem != "" {
				l.wantUnknownFloor(strings.ReplaceAll(c.problem, "%s", l.namespace))
				return
			}
			l.wantFloor(c.want-1, c.want)
		})
	}
}

func oneMissing(spec *v1alpha1.PodProtectorSpec) {
	one := intstr.FromInt32(1)
	spec.MinAvailable, spec.MaxUnavailable = nil, &one
}

// wantUnknownFloor waits until the floor is unknown, for this reason.
func (l *fixture) wantUnknownFloor(says string) {
	l.Helper()
	l.eventually(func() string {
		p := l.protector()
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonFloorUnknown || !strings.Contains(ready.Message, says) ||
			strings.Contains(ready.Message, "not found") || p.Status.DisruptionsAllowed != 0 {
			return fmt.Sprintf("want the floor unknown because %q, status %+v", says, p.Status)
		}
		return ""
	})
}

// What a status says follows its resourceVersion, not metadata.generation (rule 16).
func TestCoverageFollowsStatusOfTarget(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	color := func(hash string) fields { return fields{"selector": "app=web,hash=" + hash} }
	rollout := l.operand("Rollout", fields{"replicas": int64(5)}, color("blue"), nil)
	l.pods("blue", 5, map[string]string{"hash": "blue"}, l.built(&appsv1.ReplicaSet{ObjectMeta: named("blue")}, 5, map[string]string{"hash": "blue"}, rollout))
	green := l.pods("green", 5, map[string]string{"hash": "green"}, l.built(&appsv1.ReplicaSet{ObjectMeta: named("green")}, 5, map[string]string{"hash": "green"}, rollout))
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) {
		setTarget(kindsGroup+"/v1", "Rollout", l.namespace)(spec)
		oneMissing(spec)
	})
	l.run("a")
	l.wantFloor(4, 5)
	l.eventually(func() string {
		if p := l.protector(); p.Status.DisruptionsAllowed != 1 || p.Status.Cells[0].Aggregation.Target.Selector != "app=web,hash=blue" {
			return fmt.Sprintf("want one removal of blue allowed, status %+v", p.Status)
		}
		return ""
	})
	generation := rollout.GetGeneration()
	l.setStatus(rollout, color("green"))
	l.eventually(func() string {
		a := l.protector().Status.Cells[0].Aggregation
		if a.Target.Selector != "app=web,hash=green" || a.TotalReplicas != int32(len(green)) || a.CountedReplicas != 0 || !a.InTransition {
			return fmt.Sprintf("want green covered, and not counted while removals of green may be under way: %+v", a)
		}
		return ""
	})
	l.wantFloor(4, 5)
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(rollout), rollout); err != nil || rollout.GetGeneration() != generation {
		t.Errorf("generation %d, error %v, want %d: the test must change the status alone", rollout.GetGeneration(), err, generation)
	}
}

// A target whose scale has another unit does not state the number of its pods either.
func TestTargetInAnotherUnit(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	monitor := l.operand("Monitor", fields{"shards": int64(1)}, fields{"selector": "app=web"}, nil)
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) {
		setTarget(kindsGroup+"/v1", "Monitor", l.namespace)(spec)
		oneMissing(spec)
	})
	l.run("a")
	l.wantFloor(0, 1) // nothing else states a number before there are pods
	set := l.built(&appsv1.StatefulSet{ObjectMeta: named("db")}, 3, nil, monitor)
	l.pods("db", 3, nil, set)
	l.wantFloor(2, 3)
	l.scale(set, 5)
	l.wantFloor(4, 5)
	l.eventually(func() string {
		if err := l.client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(l.namespace), client.GracePeriodSeconds(0)); err != nil {
			return err.Error()
		}
		return ""
	})
	l.awaitTotal(0)
	l.wantFloor(4, 5) // rule 13
	l.scale(set, 0)
	l.wantFloor(0, 1) // the workload of earlier pods requests none, so the target states the number again
}

// A target may have pods of its own beside those of a workload that it controls.
func TestTargetWithPodsBesideAWorkload(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	monitor := l.operand("Monitor", fields{"shards": int64(3)}, fields{"selector": "app=web"}, nil)
	l.createProtector(func(spec *v1alpha1.PodProtectorSpec) {
		setTarget(kindsGroup+"/v1", "Monitor", l.namespace)(spec)
		oneMissing(spec)
	})
	l.run("a")
	own := l.pods("web", 3, nil, monitor)
	l.wantFloor(2, 3)
	set := l.built(&appsv1.StatefulSet{ObjectMeta: named("db")}, 2, nil, monitor)
	beside := l.pods("db", 2, nil, set)
	l.wantFloor(4, 5)
	l.scale(set, 0)
	remove := func(pods []*corev1.Pod) {
		for _, p := range pods {
			if err := l.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove(beside)
	l.awaitTotal(3)
	l.wantFloor(2, 3)
	remove(own)
	l.awaitTotal(0)
	l.wantFloor(2, 3) // rule 13
}

// Case cluster-scoped-owner: an owner of cluster scope exists, so nothing is released.
func TestOwnerOfClusterScope(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	typha := l.built(&appsv1.Deployment{ObjectMeta: named("typha")}, 5, nil, l.operand("Installation", fields{}, nil, nil))
	l.pods("typha", 5, nil, l.built(&appsv1.ReplicaSet{ObjectMeta: named("typha-1")}, 5, nil, typha))
	l.createProtector(oneMissing)
	stop := l.run("a")
	l.wantFloor(4, 5)
	l.scale(typha, 2)
	l.wantFloor(1, 2)
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease })
	l.confirmRelease()
	l.eventually(func() string {
		if p := l.protector(); p.Status.ObservedGeneration != p.Generation {
			return fmt.Sprintf("want the new spec observed, status %+v", p.Status)
		}
		return ""
	})
	if p := l.wantFloor(1, 2); len(deletedWorkloads(p)) != 0 {
		t.Errorf("deleted workloads %+v, want none", deletedWorkloads(p))
	}

	stop() // it would count the pods of the other protector too

	// A workload of cluster scope is watched at cluster scope.
	other := newFixture(t)
	other.createCell()
	fleet := other.operand("Fleet", fields{"replicas": int64(6)}, fields{"selector": "app=web"}, nil)
	other.pods("web", 2, nil, fleet)
	other.createProtector(oneMissing)
	other.run("a")
	other.wantFloor(5, 6)
	other.scale(fleet, 8)
	other.wantFloor(7, 8)
	other.erase(fleet)
	other.eventually(func() string {
		if p := other.protector(); len(deletedWorkloads(p)) != 1 {
			return fmt.Sprintf("want the deleted Fleet, status %+v", p.Status)
		}
		return ""
	})
	other.wantFloor(7, 8)
}

// What was expected before does not include pods whose number was never known, so it is no floor for them (rule 9).
func TestPodsOfUnknownNumberJoinKnownOnes(t *testing.T) {
	l := newFixture(t)
	l.createCell()
	l.createProtector(oneMissing)
	l.run("a")
	l.wantFloor(0, 0)
	agents := l.pods("agent", 2, nil, l.built(&appsv1.DaemonSet{ObjectMeta: named("agent")}, 0, nil, nil))
	l.wantUnknownFloor("DaemonSet agent has no scale subresource: set spec.expectedReplicas")
	l.pods("db", 3, nil, l.built(&appsv1.StatefulSet{ObjectMeta: named("db")}, 3, nil, nil))
	for _, p := range agents {
		if err := l.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	l.wantFloor(2, 3)
	l.pods("more", 1, nil, l.built(&appsv1.DaemonSet{ObjectMeta: named("more")}, 0, nil, nil))
	l.wantUnknownFloor("DaemonSet more has no scale subresource: set spec.expectedReplicas")
}

// Pods that name a deleted controller are those of its successor, also while that one has not stated which pods it selects (seed 218 of owners).
func TestSuccessorOfControllerBelowAnother(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	pool := l.operand("NodePool", fields{"replicas": int64(1)}, fields{"labelSelector": "app=web"}, nil)
	set := l.operand("CloneSet", fields{"replicas": int64(3)}, fields{"labelSelector": "app=web"}, pool)
	l.pods("web", 3, nil, set)
	l.createProtector(oneMissing)
	l.run("a")
	l.wantFloor(2, 3)
	l.erase(set)
	l.eventually(func() string {
		if p := l.protector(); len(deletedWorkloads(p)) != 1 {
			return fmt.Sprintf("want the deleted CloneSet, status %+v", p.Status)
		}
		return ""
	})
	l.operand("CloneSet", fields{"replicas": int64(4)}, nil, pool)
	l.wantFloor(3, 4)
}

// A controller without a scale that was deleted before any leader saw it is expected with its pods. Its successor states no number, so it is
// expected no longer: it would get the pods of other workloads that are scaled down while it is deleted again (owner seed 831921).
func TestSuccessorWithoutAScaleIsNotExpected(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	db := l.built(&appsv1.StatefulSet{ObjectMeta: named("db")}, 3, nil, nil)
	l.pods("db", 3, nil, db)
	group := l.operand("PodGroup", nil, nil, nil)
	pods := l.pods("web", 4, nil, group)
	l.erase(group)
	l.createProtector(oneMissing)
	stop := l.run("a")
	l.wantFloor(6, 7)
	for _, p := range pods {
		if err := l.client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	group = l.operand("PodGroup", nil, nil, nil)
	p := l.wantFloor(2, 3)
	if got := p.Status.Cells[0].Aggregation.Workloads; len(got) != 1 || got[0].UID != db.GetUID() {
		t.Errorf("the status expects %+v, want StatefulSet db alone", got)
	}
	stop()
	l.erase(group)
	l.scale(db, 1)
	l.run("b")
	l.wantFloor(0, 1)
}

// An older version stored the topmost controller. It does not stay expected beside those below it.
func TestFormerExpectationIsReplaced(t *testing.T) {
	l := newFixture(t)
	l.defineKinds()
	l.createCell()
	monitor := l.operand("Monitor", fields{"shards": int64(1)}, fields{"selector": "app=web"}, nil)
	l.pods("db", 3, nil, l.built(&appsv1.StatefulSet{ObjectMeta: named("db")}, 3, nil, monitor))
	lost := v1alpha1.ExpectedWorkload{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "lost", UID: "lost", Replicas: 2, Gone: true}
	l.createProtector(oneMissing)
	stop := l.run("a")
	l.wantFloor(2, 3)
	stop()
	l.eventually(func() string {
		p := l.protector()
		a, one := &p.Status.Cells[0].Aggregation, int32(3)
		a.SelectedSpec, a.ExpectedReplicas = quota.FormerSelectedSpec(&p.Spec), &one
		a.Workloads = []v1alpha1.ExpectedWorkload{lost, {
			APIVersion: kindsGroup + "/v1", Kind: "Monitor", Name: monitor.GetName(), UID: monitor.GetUID(), Replicas: 1,
		}}
		return text(l.client.Status().Update(t.Context(), p))
	})
	l.run("b")
	l.wantFloor(4, 5) // the StatefulSet that counts, and the one that was deleted
}

// With the permissions of the chart the aggregator reads the kinds of Kubernetes only. What it cannot read never delays a count for long.
func TestWorkloadBelowUnreadableKinds(t *testing.T) {
	for claim, c := range map[string]struct {
		build   func(l *fixture)
		want    int32
		problem string
	}{
		"operator's object that may not be read, above a StatefulSet: the StatefulSet": {func(l *fixture) {
			monitor := l.operand("Monitor", fields{"shards": int64(1)}, fields{"selector": "app=web"}, nil)
			l.pods("db", 3, nil, l.built(&appsv1.StatefulSet{ObjectMeta: named("db")}, 3, nil, monitor))
		}, 3, ""},
		"above a ReplicaSet: the ReplicaSet": {func(l *fixture) {
			rollout := l.operand("Rollout", fields{"replicas": int64(5)}, fields{"selector": "app=web"}, nil)
			l.pods("web", 4, nil, l.built(&appsv1.ReplicaSet{ObjectMeta: named("web")}, 4, nil, rollout))
		}, 4, ""},
		"as the controller of the pods: unknown": {func(l *fixture) {
			l.pods("web", 2, nil, l.operand("CloneSet", fields{"replicas": int64(4)}, fields{"labelSelector": "app=web"}, nil))
		}, 0, "cannot list the clonesets.rule16.test of the cell: allow the aggregator to get, list and watch them"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.defineKinds()
			l.createCell()
			c.build(l)
			l.createProtector(oneMissing)
			l.runAs(l.coreUser(), testplane.User(t, l.namespace+"-cell", roles.Rules(t, "aggregator.cell")))
			if c.problem != "" {
				l.wantUnknownFloor(c.problem)
				return
			}
			l.wantFloor(c.want-1, c.want)
		})
	}
}
