package aggregator_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/aggregator"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

const (
	zoneLabel = "topology.kubernetes.io/zone"
	hostLabel = "kubernetes.io/hostname"
)

// createNode creates a node of this lab, which is deleted with it.
func (l *fixture) createNode(name, zone string) *corev1.Node {
	l.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + name, Labels: map[string]string{hostLabel: name}}}
	if zone != "" {
		node.Labels[zoneLabel] = zone
	}
	l.create(node)
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), node) })
	return node
}

// createPodOn creates a ready pod on a node of this lab.
func (l *fixture) createPodOn(name, node string) {
	l.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name, Labels: map[string]string{"app": "web"}}}
	p.Spec.NodeName = l.namespace + "-" + node
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "web"}}
	l.create(p)
	l.setReady(p, true)
}

// runAs starts an aggregator with these permissions in its core and its cell.
func (l *fixture) runAs(core, cell *rest.Config) (stop func()) {
	l.Helper()
	return testplane.StartManager(l, core, func(ctx context.Context, mgr manager.Manager) error {
		return aggregator.SetupWithManager(ctx, mgr, aggregator.Options{
			Cell: l.cell, CellConfig: cell, Identity: "aggregator", LeaseNamespace: l.namespace, LeaseDuration: 2 * time.Second,
			Heartbeat: time.Second, Workers: 2, Metrics: prometheus.NewRegistry(), NodeGuardNamespace: l.guardsIn, ReportGaps: true,
			LabelRetention: time.Second,
		})
	})
}

// coreUser returns a config with the permissions that an aggregator needs in its core.
func (l *fixture) coreUser() *rest.Config {
	l.Helper()
	return testplane.User(l, l.namespace+"-core", append(roles.Rules(l, "aggregator.core"), roles.Rules(l, "leases")...))
}

// spread returns a change of a spec that sets its spread.
func spread(key string, change func(*v1alpha1.Spread)) func(*v1alpha1.PodProtectorSpec) {
	return func(spec *v1alpha1.PodProtectorSpec) {
		spec.Spread = &v1alpha1.Spread{TopologyKey: key}
		change(spec.Spread)
	}
}

// createSpread creates a protector that is deleted after the test: otherwise it would use nodes in the next test's cell, too.
func (l *fixture) createSpread(change func(*v1alpha1.PodProtectorSpec)) {
	l.Helper()
	p := l.createProtector(change)
	l.Cleanup(func() { _ = l.client.Delete(context.Background(), p) })
}

func nothing(*v1alpha1.Spread) {}

func minDomains(number int32) func(*v1alpha1.Spread) {
	return func(s *v1alpha1.Spread) { s.MinDomains = &number }
}

// wantSpread waits until the cell has these counts, and the condition has this reason; an empty reason means no condition.
func (l *fixture) wantSpread(want *v1alpha1.CellDomains, reason string) *v1alpha1.PodProtector {
	l.Helper()
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		p = l.protector()
		cell := quota.CellOf(p, l.cell)
		if cell == nil {
			return "the cell has not counted"
		}
		is := ""
		if satisfied := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied); satisfied != nil {
			is = satisfied.Reason
		}
		if diff := cmp.Diff(want, cell.Aggregation.Spread); diff != "" || is != reason {
			return fmt.Sprintf("condition %q, want %q; spread (-want +got):\n%s", is, reason, diff)
		}
		return ""
	})
	return p
}

func domains(key string, counted ...v1alpha1.DomainCount) *v1alpha1.CellDomains {
	return &v1alpha1.CellDomains{TopologyKey: key, Domains: counted}
}

func in(zone string, counted int32) v1alpha1.DomainCount {
	return v1alpha1.DomainCount{Name: zone, Counted: counted}
}

// events returns the reasons of the events for the protector's condition, oldest first.
func (l *fixture) events() (reasons []string) {
	l.Helper()
	list := &eventsv1.EventList{}
	if err := l.client.List(l.Context(), list, client.InNamespace(l.namespace)); err != nil {
		l.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	for i := range list.Items {
		if list.Items[i].Action == "Conclude" {
			reasons = append(reasons, list.Items[i].Type+" "+list.Items[i].Reason)
		}
	}
	return reasons
}

func TestPodsAreCountedByZones(t *testing.T) {
	l := newFixture(t)
	core := l.coreUser()
	cell := testplane.User(t, l.namespace+"-cell", roles.Rules(t, "aggregator.cell"))
	l.createCell()
	for name, zone := range map[string]string{"n1": "a", "n2": "b", "n3": "b", "n4": ""} {
		l.createNode(name, zone)
	}
	for i, node := range []string{"n1", "n2", "n3"} {
		l.createPodOn(fmt.Sprint("web-", i), node)
	}
	l.createSpread(spread(zoneLabel, minDomains(2)))
	l.runAs(core, cell)
	p := l.wantSpread(domains(zoneLabel, in("a", 1), in("b", 2)), v1alpha1.ReasonSpread)
	if s := p.Status.Spread; s == nil || s.Largest != "b" || s.LargestCounted != 2 || s.Domains != 2 {
		t.Errorf("status.spread %+v", s)
	}
	if events := l.events(); len(events) > 0 {
		t.Errorf("events %v without a change, want none", events)
	}

	l.createPodOn("web-4", "n4") // a node that is in no zone
	l.createPodOn("web-5", "n5") // a node that does not exist
	nowhere := domains(zoneLabel, in("a", 1), in("b", 2))
	nowhere.Unknown = 2
	l.wantSpread(nowhere, v1alpha1.ReasonSpread)
	l.createNode("n5", "c")
	l.relabel("n4", "c")
	l.wantSpread(domains(zoneLabel, in("a", 1), in("b", 2), in("c", 2)), v1alpha1.ReasonSpread)

	// Only the spread changes, so the counts stay the same.
	was := quota.CellOf(l.protector(), l.cell).Aggregation.CountedSpec
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { minDomains(4)(spec.Spread) })
	p = l.wantSpread(domains(zoneLabel, in("a", 1), in("b", 2), in("c", 2)), v1alpha1.ReasonTooFewDomains)
	if is := quota.CellOf(p, l.cell).Aggregation.CountedSpec; is != was {
		t.Errorf("counted spec %q, was %q", is, was)
	}
	l.relabel("n3", "d")
	l.wantSpread(domains(zoneLabel, in("a", 1), in("b", 1), in("c", 2), in("d", 1)), v1alpha1.ReasonSpread)
	l.eventually(func() string {
		if events := l.events(); !slices.Equal(events, []string{"Warning TooFewDomains", "Normal SpreadSatisfied"}) {
			return fmt.Sprint(events)
		}
		return ""
	})

	l.deleteNode("n1")
	without := domains(zoneLabel, in("b", 1), in("c", 2), in("d", 1))
	without.Unknown = 1
	l.wantSpread(without, v1alpha1.ReasonDomainsUnknown)
	l.createNode("n1", "a")
	l.wantSpread(domains(zoneLabel, in("a", 1), in("b", 1), in("c", 2), in("d", 1)), v1alpha1.ReasonSpread)

	l.updateDeployment(spread(v1alpha1.TopologyKeyCell, nothing))
	p = l.wantSpread(nil, v1alpha1.ReasonSpread)
	if s := p.Status.Spread; s.Largest != l.cell || s.LargestCounted != 5 {
		t.Errorf("of cells status.spread is %+v", s)
	}
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.Spread = nil })
	if p = l.wantSpread(nil, ""); p.Status.Spread != nil {
		t.Errorf("status.spread %+v is left", p.Status.Spread)
	}
}

// relabel moves a node into another zone.
func (l *fixture) relabel(name, zone string) {
	l.Helper()
	before := &corev1.Node{}
	if err := l.client.Get(l.Context(), client.ObjectKey{Name: l.namespace + "-" + name}, before); err != nil {
		l.Fatal(err)
	}
	after := before.DeepCopy()
	after.Labels[zoneLabel] = zone
	if err := l.client.Patch(l.Context(), after, client.MergeFrom(before)); err != nil {
		l.Fatal(err)
	}
}

func (l *fixture) deleteNode(name string) {
	l.Helper()
	if err := l.client.Delete(l.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + name}}); err != nil {
		l.Fatal(err)
	}
}

// An aggregator of a cell that was joined before it needed nodes counts as before, reports the missing permission, and needs no
// restart when it gets it.
func TestMissingPermissionIsReported(t *testing.T) {
	for claim, missing := range map[string][]string{"to read nodes": {"get", "list", "watch"}, "to watch them": {"watch"}} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			core, rules := l.coreUser(), roles.Rules(l, "aggregator.cell")
			for i := range rules {
				if at := slices.Index(rules[i].Resources, "nodes"); at >= 0 {
					rules[i].Resources = slices.Delete(slices.Clone(rules[i].Resources), at, at+1)
				}
			}
			if !slices.Contains(missing, "list") {
				rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}})
			}
			cell := testplane.User(t, l.namespace+"-cell", rules)
			l.createCell()
			l.createNode("n1", "a")
			l.createPodOn("web-1", "n1")
			l.createSpread(spread(zoneLabel, minDomains(1)))
			l.runAs(core, cell)
			l.eventually(func() string {
				p := l.protector()
				c, satisfied := quota.CellOf(p, l.cell), meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSpreadSatisfied)
				if c == nil || c.Aggregation.CountedReplicas != 1 || c.Aggregation.Spread == nil || c.Aggregation.Spread.Unknown != 1 ||
					!strings.Contains(c.Aggregation.Spread.Problem, "may not list and watch the nodes") || !strings.Contains(satisfied.Message, "upgrade the chart") {
					return fmt.Sprintf("status %+v", p.Status)
				}
				return ""
			})
			role := &rbacv1.ClusterRole{}
			if err := l.client.Get(l.Context(), client.ObjectKey{Name: l.namespace + "-cell"}, role); err != nil {
				t.Fatal(err)
			}
			role.Rules = roles.Rules(t, "aggregator.cell")
			if err := l.client.Update(l.Context(), role); err != nil {
				t.Fatal(err)
			}
			l.wantSpread(domains(zoneLabel, in("a", 1)), v1alpha1.ReasonSpread)
		})
	}
}

// The aggregator does not watch nodes while no protector uses a label of them.
func TestNodesAreWatchedOnlyWhileUsed(t *testing.T) {
	l := newFixture(t)
	core := l.coreUser()
	cell := testplane.User(t, l.namespace+"-cell", roles.Rules(t, "aggregator.cell"))
	watched := &watchCounter{}
	cell.Wrap(watched.count)
	l.createCell()
	l.createNode("n1", "a")
	l.createPodOn("web-1", "n1")
	l.createSpread(spread(v1alpha1.TopologyKeyCell, nothing))
	l.runAs(core, cell)
	l.wantSpread(nil, v1alpha1.ReasonSpread)
	if watched.open() != 0 {
		t.Errorf("%d watches of nodes with cells as domains, want 0", watched.open())
	}
	l.updateDeployment(spread(zoneLabel, nothing))
	l.wantSpread(domains(zoneLabel, in("a", 1)), v1alpha1.ReasonSpread)
	l.updateDeployment(spread(hostLabel, nothing))
	l.wantSpread(domains(hostLabel, in("n1", 1)), v1alpha1.ReasonSpread)
	if watched.open() != 1 {
		t.Errorf("%d watches of nodes are open", watched.open())
	}
	l.updateDeployment(func(spec *v1alpha1.PodProtectorSpec) { spec.Spread = nil })
	l.eventually(func() string {
		if watched.open() != 0 {
			return "nodes are watched although no protector uses them"
		}
		return ""
	})
	l.createPodOn("web-2", "n1")
	l.awaitCount("aggregator", 2)
	if watched.open() != 0 {
		t.Error("nodes are watched again although no protector uses them")
	}
}

// If there are more domains than a status holds, the rest are added up. Nothing is written when nothing changes.
func TestPodsOnManyNodesAreSummed(t *testing.T) {
	const nodes = v1alpha1.MostDomains + 6
	l := newFixture(t)
	core := l.coreUser()
	cell := testplane.User(t, l.namespace+"-cell", roles.Rules(t, "aggregator.cell"))
	l.createCell()
	for i := range nodes {
		l.createNode(fmt.Sprintf("n%02d", i), "a")
		l.createPodOn(fmt.Sprintf("web-%02d", i), fmt.Sprintf("n%02d", i))
	}
	l.createPodOn("web-more", fmt.Sprintf("n%02d", nodes-1))
	l.createSpread(spread(hostLabel, minDomains(nodes)))
	l.runAs(core, cell)
	want := domains(hostLabel)
	for i := range v1alpha1.MostDomains - 1 {
		want.Domains = append(want.Domains, in(fmt.Sprintf("n%02d", i), 1))
	}
	want.Domains = append(want.Domains, in(fmt.Sprintf("n%02d", nodes-1), 2))
	want.Others = &v1alpha1.OtherDomains{Domains: 6, Counted: 6, Largest: 1}
	l.wantSpread(want, v1alpha1.ReasonSpread)
	var p *v1alpha1.PodProtector
	l.eventually(func() string {
		if p = l.protector(); quota.CellOf(p, l.cell).Aggregation.Exempt != v1alpha1.ExemptNoWebhook {
			return "the first look at the cell's webhook configuration is not yet reported"
		}
		return ""
	})
	p.Annotations = map[string]string{"example.com/look": "again"}
	if err := l.client.Update(l.Context(), p); err != nil {
		t.Fatal(err)
	}
	l.relabel("n01", "b") // by another label than the one in use
	second := l.withCell("second", v1alpha1.CellSpec{})
	second.runAs(core, cell)
	second.wantCounts(map[string]int32{l.cell: nodes + 1, second.cell: nodes + 1})
	now, then := quota.CellOf(l.protector(), l.cell), quota.CellOf(p, l.cell)
	if !now.Aggregation.LastEventTime.Equal(&then.Aggregation.LastEventTime) {
		t.Errorf("written without a change (-earlier +now):\n%s", cmp.Diff(then, now))
	}
}

// Shards count the pods of their own protectors by domain.
func TestShardsCountByZones(t *testing.T) {
	l := newFixture(t)
	user := l.shardUser()
	l.createCell()
	l.createRing()
	l.createNode("n1", "a")
	l.createPodOn("web-1", "n1")
	l.createSpread(spread(zoneLabel, nothing))
	stop := l.runShard(user, "a")
	l.awaitSlots("a")
	l.wantSpread(domains(zoneLabel, in("a", 1)), v1alpha1.ReasonSpread)
	stop()
	l.relabel("n1", "b")
	l.runShard(user, "b")
	l.wantSpread(domains(zoneLabel, in("b", 1)), v1alpha1.ReasonSpread)
}
