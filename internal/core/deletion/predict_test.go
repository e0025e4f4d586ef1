package deletion_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/brake"
	"github.com/breakwater-k8s/breakwater/internal/core/deletion"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

func now() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

// fixture is a core cluster whose namespaces are added when they are used.
type fixture struct{ deletion.State }

func newFixture() *fixture {
	limits := brake.DefaultLimits()
	limits.Percent = 0
	return &fixture{deletion.State{
		Now: now(), Limits: limits, Namespaces: map[string]*metav1.PartialObjectMetadata{}, Sources: map[policy.Ref]*metav1.PartialObjectMetadata{},
		Owners: map[types.UID]deletion.Owner{}, OwnerKinds: map[schema.GroupKind]deletion.KindAccess{app(): deletion.Complete},
		OptedIn: labels.SelectorFromSet(labels.Set{v1alpha1.LabelProtect: "true"}), Guard: deletion.RootGuard{Mode: rootguard.Off},
	}}
}

func app() schema.GroupKind     { return schema.GroupKind{Group: "example.com", Kind: "Application"} }
func rollout() schema.GroupKind { return schema.GroupKind{Group: "argoproj.io", Kind: "Rollout"} }

func (w *fixture) namespace(name string, annotations map[string]string) {
	w.Namespaces[name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}
}

// protect adds a protector with a floor of 3 and 4 available pods.
func (w *fixture) protect(p *v1alpha1.PodProtector) *v1alpha1.PodProtector {
	p.UID = types.UID(p.Namespace + "/" + p.Name)
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": p.Name}}
	if p.Spec.MinAvailable == nil {
		p.Spec.MinAvailable = v1alpha1.Pods(3)
	}
	p.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "a", Aggregation: v1alpha1.Aggregation{CountedReplicas: 4, CountedSpec: quota.CountedSpec(&p.Spec)}}}
	w.Protectors = append(w.Protectors, *p)
	return &w.Protectors[len(w.Protectors)-1]
}

// source adds a source and its protector.
func (w *fixture) source(kind schema.GroupKind, namespace, name string, owners ...metav1.OwnerReference) *v1alpha1.PodProtector {
	ref := policy.Ref{Group: kind.Group, Kind: kind.Kind, Namespace: namespace, Name: name}
	w.Sources[ref] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(kind.Kind + namespace + name), OwnerReferences: owners,
	}}
	return w.protect(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: policy.ProtectorName(ref), Labels: map[string]string{policy.LabelManagedBy: policy.ManagedBy, v1alpha1.LabelSourceKind: kind.Kind},
		Annotations: map[string]string{v1alpha1.AnnotationSourceName: name, v1alpha1.AnnotationSourceAPIVersion: kind.Group + "/v1"},
	}})
}

// owner adds an Application and returns the reference to it.
func (w *fixture) owner(namespace, name string, owners ...metav1.OwnerReference) metav1.OwnerReference {
	uid := types.UID("app-" + namespace + name)
	w.Owners[uid] = deletion.Owner{Kind: app(), PartialObjectMetadata: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, OwnerReferences: owners},
	}}
	return reference(name, uid)
}

func reference(name string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Application", Name: name, UID: uid}
}

func deployment() schema.GroupKind { return schema.GroupKind{Group: "apps", Kind: "Deployment"} }

// object returns a target.
func object(t *testing.T, kind schema.GroupKind, namespace, name string, more ...any) *rootguard.Object {
	t.Helper()
	metadata, spec := map[string]any{"namespace": namespace, "name": name}, map[string]any{}
	for _, one := range more {
		switch one := one.(type) {
		case types.UID:
			metadata["uid"] = string(one)
		case schema.GroupKind:
			spec["group"], spec["names"] = one.Group, map[string]any{"kind": one.Kind, "plural": strings.ToLower(one.Kind) + "s"}
		case map[string]string:
			metadata["annotations"] = one
		}
	}
	raw, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	o, err := rootguard.ReadObject(kind, schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind) + "s"}, raw)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func namespaceNamed(t *testing.T, name string) *rootguard.Object {
	return object(t, schema.GroupKind{Kind: "Namespace"}, "", name)
}

func definition(t *testing.T, of schema.GroupKind) *rootguard.Object {
	return object(t, schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, "", strings.ToLower(of.Kind)+"s."+of.Group, of)
}

func breakwaterKind(kind string) schema.GroupKind {
	return schema.GroupKind{Group: "breakwater.dev", Kind: kind}
}

// confirmed returns the annotations of a confirmation.
func confirmed() map[string]string {
	return map[string]string{v1alpha1.AnnotationConfirmRelease: "true"}
}

// results formats the rows as NAME RESULT/REASON.
func results(f deletion.Forecast) (all []string) {
	for _, r := range f.Protectors {
		all = append(all, fmt.Sprintf("%s/%s %s/%s", r.Namespace, r.Name, r.Result, r.Reason))
	}
	return all
}

func TestPredict(t *testing.T) {
	eight := func(w *fixture) {
		for i := range 8 {
			w.source(deployment(), "shop", fmt.Sprint("web-", i))
		}
	}
	first := func(n int) func(t *testing.T) []*rootguard.Object {
		return func(t *testing.T) (all []*rootguard.Object) {
			for i := range n {
				all = append(all, object(t, deployment(), "shop", fmt.Sprint("web-", i)))
			}
			return all
		}
	}
	one := func(make func(*testing.T) *rootguard.Object) func(*testing.T) []*rootguard.Object {
		return func(t *testing.T) []*rootguard.Object { return []*rootguard.Object{make(t)} }
	}
	shop := one(func(t *testing.T) *rootguard.Object { return namespaceNamed(t, "shop") })
	web := one(func(t *testing.T) *rootguard.Object { return object(t, deployment(), "shop", "web") })
	hand := func(w *fixture) {
		w.protect(&v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "hand"}})
	}
	handItself := one(func(t *testing.T) *rootguard.Object { return object(t, breakwaterKind("PodProtector"), "shop", "hand") })
	byPolicy := func(w *fixture, removal v1alpha1.TargetRemovalPolicy) *v1alpha1.PodProtector {
		p := w.source(deployment(), "shop", "web")
		p.Annotations[v1alpha1.AnnotationPolicy], p.Annotations[v1alpha1.AnnotationPolicyRule] = "ClusterProtectionPolicy/all", `{"targetRemovalPolicy":"`+string(removal)+`"}`
		spec := &v1alpha1.ProtectionPolicySpec{}
		spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
		spec.TargetRemovalPolicy = removal
		w.Policies = append(w.Policies, &policy.Policy{Name: "all", HasFinalizer: true, Spec: spec})
		return p
	}
	policyItself := one(func(t *testing.T) *rootguard.Object {
		return object(t, breakwaterKind("ClusterProtectionPolicy"), "", "all")
	})
	for claim, c := range map[string]struct {
		world   func(*fixture)
		targets func(*testing.T) []*rootguard.Object
		want    []string
	}{
		"a single workload is released":          {eight, first(1), []string{"shop/deployment-web-0 Released/QuietPeriod"}},
		"workloads up to the limit are released": {eight, first(5), repeat(5, "shop/deployment-web-%d Released/QuietPeriod")},
		"more than the limit are held":           {eight, first(6), repeat(6, "shop/deployment-web-%d Held/LimitExceeded")},
		"grants of the window use the budget":    {func(w *fixture) { eight(w); w.Grants = grants(t, 5) }, first(1), []string{"shop/deployment-web-0 Held/LimitExceeded"}},
		"pending decreases use the budget": {func(w *fixture) {
			eight(w)
			for i := 3; i < 8; i++ {
				w.Protectors[i].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionDecreasePending, Status: "True", Reason: "QuietPeriod", LastTransitionTime: metav1.NewTime(now())}}
			}
		}, first(1), []string{"shop/deployment-web-0 Held/LimitExceeded"}},
		"a floor of 0 is released": {func(w *fixture) {
			w.source(deployment(), "shop", "web").Spec.MinAvailable = v1alpha1.Pods(0)
		}, web, []string{"shop/deployment-web Released/NoFloor"}},
		"a release confirmed on the protector": {func(w *fixture) {
			w.source(deployment(), "shop", "web").Annotations[v1alpha1.AnnotationConfirmRelease] = "true"
		}, shop, []string{"shop/deployment-web Released/Confirmed"}},
		"a release confirmed on the source": {func(w *fixture) {
			w.source(deployment(), "shop", "web")
			w.Sources[policy.Ref{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}].Annotations = confirmed()
		}, shop, []string{"shop/deployment-web Released/Confirmed"}},
		"a release confirmed on the namespace": {func(w *fixture) { eight(w); w.namespace("shop", confirmed()) }, first(8), repeat(8, "shop/deployment-web-%d Released/Confirmed")},
		"a namespace is a cascade": {func(w *fixture) {
			w.source(deployment(), "shop", "web")
			hand(w)
			w.source(deployment(), "bank", "web")
		}, shop, []string{"shop/deployment-web Held/Cascade", "shop/hand Held/Cascade"}},
		"a cascade is not held if its policy releases it": {func(w *fixture) { w.source(deployment(), "shop", "web"); w.Limits.OnCascade = v1alpha1.CascadeRelease }, shop, []string{"shop/deployment-web Released/QuietPeriod"}},
		"the kind of a source is a cascade":               {func(w *fixture) { w.source(rollout(), "shop", "web"); w.source(deployment(), "shop", "web") }, one(func(t *testing.T) *rootguard.Object { return definition(t, rollout()) }), []string{"shop/rollout.argoproj.io-web Held/Cascade"}},
		"the kind of an owner is a cascade":               {func(w *fixture) { w.source(deployment(), "shop", "web", w.owner("shop", "x")) }, one(func(t *testing.T) *rootguard.Object { return definition(t, app()) }), []string{"shop/deployment-web Held/Cascade"}},
		"an owner is a cascade":                           {func(w *fixture) { w.source(deployment(), "shop", "web", w.owner("shop", "x")) }, one(func(t *testing.T) *rootguard.Object { return object(t, app(), "shop", "x", types.UID("app-shopx")) }), []string{"shop/deployment-web Held/Cascade"}},
		"an owner of an owner is a cascade":               {func(w *fixture) { w.source(deployment(), "shop", "web", w.owner("shop", "x", w.owner("shop", "top"))) }, one(func(t *testing.T) *rootguard.Object { return object(t, app(), "shop", "top", types.UID("app-shoptop")) }), []string{"shop/deployment-web Held/Cascade"}},
		"a workload with another owner is not deleted":    {func(w *fixture) { w.source(deployment(), "shop", "web", w.owner("shop", "x"), w.owner("shop", "y")) }, one(func(t *testing.T) *rootguard.Object { return object(t, app(), "shop", "x", types.UID("app-shopx")) }), nil},
		"a workload that has an owner is deleted":         {func(w *fixture) { w.source(deployment(), "shop", "web", w.owner("shop", "x")) }, web, []string{"shop/deployment-web Released/QuietPeriod"}},
		"a workload whose owner was deleted is a cascade": {func(w *fixture) { w.source(deployment(), "shop", "web", reference("gone", "gone")) }, web, []string{"shop/deployment-web Held/Cascade"}},
		"an owner that the generator may not get is a cascade": {func(w *fixture) {
			w.source(deployment(), "shop", "web", w.owner("shop", "x"))
			w.OwnerKinds[app()] = deletion.Forbidden
		}, web, []string{"shop/deployment-web Held/Cascade"}},
		"an owner of an unknown kind is assumed to exist": {func(w *fixture) { w.source(deployment(), "shop", "web", reference("x", "x")); w.OwnerKinds[app()] = "" }, web, []string{"shop/deployment-web Released/QuietPeriod"}},
		"a hand-written protector is released":            {hand, handItself, []string{"shop/hand Released/QuietPeriod"}},
		"a generated protector stays with its source": {func(w *fixture) { w.source(deployment(), "shop", "web") }, one(func(t *testing.T) *rootguard.Object {
			return object(t, breakwaterKind("PodProtector"), "shop", "deployment-web")
		}), []string{"shop/deployment-web Held/SourceExists"}},
		"a generated protector is released with its source": {func(w *fixture) { w.source(deployment(), "shop", "web") }, func(t *testing.T) []*rootguard.Object {
			return []*rootguard.Object{object(t, breakwaterKind("PodProtector"), "shop", "deployment-web"), object(t, deployment(), "shop", "web")}
		}, []string{"shop/deployment-web Released/QuietPeriod"}},
		"the kind of protectors releases none": {func(w *fixture) { w.source(deployment(), "shop", "web"); hand(w); w.namespace("shop", confirmed()) }, one(func(t *testing.T) *rootguard.Object { return definition(t, breakwaterKind("PodProtector")) }), []string{"shop/deployment-web Held/KindDeleted", "shop/hand Held/KindDeleted"}},
		"a policy that releases is released":   {func(w *fixture) { byPolicy(w, v1alpha1.TargetRemovalRelease) }, policyItself, []string{"shop/deployment-web Released/QuietPeriod"}},
		"a policy that retains is kept":        {func(w *fixture) { byPolicy(w, v1alpha1.TargetRemovalRetain) }, policyItself, []string{"shop/deployment-web Kept/PolicyDeleted"}},
		"another policy applies": {func(w *fixture) {
			byPolicy(w, v1alpha1.TargetRemovalRelease)
			other := *w.Policies[0]
			other.Name = "other"
			w.Policies = append(w.Policies, &other)
		}, policyItself, []string{"shop/deployment-web Kept/Protected"}},
		"the kind of policies releases none":              {func(w *fixture) { byPolicy(w, v1alpha1.TargetRemovalRelease) }, one(func(t *testing.T) *rootguard.Object { return definition(t, breakwaterKind("ClusterProtectionPolicy")) }), []string{"shop/deployment-web Kept/PolicyVanished"}},
		"a cell leaves floors in force":                   {hand, one(func(t *testing.T) *rootguard.Object { return object(t, breakwaterKind("Cell"), "", "a") }), []string{"shop/hand Kept/NotReleased"}},
		"an object that no floor depends on":              {eight, web, nil},
		"a source that vanished is kept by the generator": {func(w *fixture) { w.source(deployment(), "shop", "web"); clear(w.Sources) }, shop, []string{"shop/deployment-web Held/SourceVanished"}},
		"a confirmation releases what vanished": {func(w *fixture) {
			w.source(deployment(), "shop", "web")
			clear(w.Sources)
			w.namespace("shop", confirmed())
		}, shop, []string{"shop/deployment-web Released/Confirmed"}},
		"a release that is pending as a cascade is held":   {func(w *fixture) { pendingRelease(w, "Cascade") }, shop, []string{"shop/deployment-web Held/Cascade"}},
		"a release that is pending is decided by its time": {func(w *fixture) { pendingRelease(w, "LimitExceeded") }, shop, []string{"shop/deployment-web Released/QuietPeriod"}},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newFixture()
			c.world(w)
			targets := c.targets(t)
			got := deletion.Predict(&w.State, targets)
			if diff := cmp.Diff(c.want, results(got)); diff != "" {
				t.Errorf("Predict() (-want +got):\n%s\n%+v", diff, got.Protectors)
			}
			held := strings.Contains(fmt.Sprint(c.want), " Held/")
			if got.HasNoDenials() == held || got.Objects != len(targets) {
				t.Errorf("Predict() has no denials = %v with %d objects, want %v with %d", got.HasNoDenials(), got.Objects, !held, len(targets))
			}
		})
	}
}

func repeat(n int, format string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(format, i))
	}
	return all
}

// grants returns n grants of the current window.
func grants(t *testing.T, n int) map[string]string {
	t.Helper()
	var all []brake.Grant
	for i := range n {
		all = append(all, brake.Grant{Protector: types.UID(fmt.Sprint("granted-", i)), At: now().Add(-time.Minute)})
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{brake.CoreBudget: string(text)}
}

// pendingRelease adds a protector whose source was deleted, and whose release is held.
func pendingRelease(w *fixture, reason string) {
	p := w.source(deployment(), "shop", "web")
	clear(w.Sources)
	p.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionTargetResolved, Status: "False", Reason: v1alpha1.ReasonSourceDeleted},
		{Type: v1alpha1.ConditionDecreasePending, Status: "True", Reason: reason, LastTransitionTime: metav1.NewTime(now().Add(-time.Minute)), Message: "Deployment web was deleted, which would release the floor of 3. It is held."},
	}
}

// TestMessagesMatchTheCondition: the predicted message is the one that will be written.
func TestMessagesMatchTheCondition(t *testing.T) {
	w := newFixture()
	w.source(deployment(), "shop", "web")
	row := deletion.Predict(&w.State, []*rootguard.Object{namespaceNamed(t, "shop")}).Protectors[0]
	want := `Deployment web was deleted, which would release the floor of 3, but namespace "shop" is being deleted: a cascade is not evidence of intent.`
	if !strings.HasPrefix(row.Message, want) || row.Object != `Namespace "shop"` || *row.Floor != 3 || row.Available != 4 {
		t.Errorf("row = %+v, want floor 3, available 4 and a message with prefix %q", row, want)
	}
}

func TestRootGuardDecidesFirst(t *testing.T) {
	core := rootguard.ClusterIdentity{Core: "main"}
	all := func(*rootguard.Object) bool { return true }
	for claim, c := range map[string]struct {
		guard          deletion.RootGuard
		annotations    map[string]string
		want           []string
		denied, warned int
	}{
		"Deny denies":                   {deletion.RootGuard{Mode: rootguard.Deny, Cluster: core, IsCalledFor: all}, nil, []string{"shop/deployment-web Refused/RootGuard"}, 1, 0},
		"Deny, and confirmed":           {deletion.RootGuard{Mode: rootguard.Deny, Cluster: core, IsCalledFor: all}, confirmed(), []string{"shop/deployment-web Released/Confirmed"}, 0, 0},
		"Warn allows":                   {deletion.RootGuard{Mode: rootguard.Warn, Cluster: core, IsCalledFor: all}, nil, []string{"shop/deployment-web Released/QuietPeriod"}, 0, 1},
		"Off neither warns nor denies":  {deletion.RootGuard{Mode: rootguard.Off, Cluster: core, IsCalledFor: all}, nil, []string{"shop/deployment-web Released/QuietPeriod"}, 0, 0},
		"a kind without a webhook call": {deletion.RootGuard{Mode: rootguard.Deny, Cluster: core, IsCalledFor: func(*rootguard.Object) bool { return false }}, nil, []string{"shop/deployment-web Released/QuietPeriod"}, 0, 0},
		"a worker without its pods":     {deletion.RootGuard{Mode: rootguard.Deny, Cluster: rootguard.ClusterIdentity{Cells: []string{"b"}}, IsCalledFor: all}, nil, []string{"shop/deployment-web Released/QuietPeriod"}, 0, 0},
	} {
		t.Run(claim, func(t *testing.T) {
			w := newFixture()
			w.source(deployment(), "shop", "web")
			w.namespace("shop", c.annotations)
			w.Guard = c.guard
			got := deletion.Predict(&w.State, []*rootguard.Object{object(t, deployment(), "shop", "web")})
			if diff := cmp.Diff(c.want, results(got)); diff != "" || got.Denied != c.denied || got.Warned != c.warned || len(got.Warnings) != c.warned {
				t.Errorf("Predict() denies %d and warns about %d, want %d and %d; rows (-want +got):\n%s", got.Denied, got.Warned, c.denied, c.warned, diff)
			}
			if c.denied > 0 && !strings.Contains(got.Protectors[0].Message, "kubectl annotate -n shop deployment web") {
				t.Errorf("denial = %q, want it to explain how to confirm", got.Protectors[0].Message)
			}
		})
	}
}

// The root guard sees only owners of the kinds that its configuration lists.
func TestRootGuardReadsOwnersOfItsKinds(t *testing.T) {
	for kinds, want := range map[string]string{"applications": "Refused/RootGuard", "others": "Held/Cascade"} {
		w := newFixture()
		w.source(deployment(), "shop", "web", w.owner("shop", "x"))
		w.Guard = deletion.RootGuard{
			Mode: rootguard.Deny, Cluster: rootguard.ClusterIdentity{Core: "main"}, IsCalledFor: func(*rootguard.Object) bool { return true },
			OwnerKinds: []schema.GroupResource{{Group: "example.com", Resource: kinds}},
		}
		got := results(deletion.Predict(&w.State, []*rootguard.Object{object(t, app(), "shop", "x", types.UID("app-shopx"))}))
		if diff := cmp.Diff([]string{"shop/deployment-web " + want}, got); diff != "" {
			t.Errorf("owner kinds %s (-want +got):\n%s", kinds, diff)
		}
	}
}

func TestPredictForALargeCore(t *testing.T) {
	for claim, n := range map[string]int{"LimitExceeded": 5000, "QuietPeriod": 1000} {
		w := newFixture()
		if w.Limits.Percent = 5; claim == "QuietPeriod" {
			w.Limits.Percent = 100
		}
		w.Guard = deletion.RootGuard{Mode: rootguard.Warn, Cluster: rootguard.ClusterIdentity{Core: "main", Cells: []string{"a"}}, IsCalledFor: func(*rootguard.Object) bool { return true }}
		w.Cells = []string{"a"}
		var targets []*rootguard.Object
		for i := range n {
			namespace, name := fmt.Sprint("shop-", i%50), fmt.Sprint("web-", i)
			w.source(deployment(), namespace, name)
			targets = append(targets, object(t, deployment(), namespace, name))
		}
		got := deletion.Predict(&w.State, targets)
		if len(got.Protectors) != n || got.Protectors[n-1].Reason != claim {
			t.Errorf("%d rows, the last one %+v, want %d of %s", len(got.Protectors), got.Protectors[len(got.Protectors)-1], n, claim)
		}
	}
}
