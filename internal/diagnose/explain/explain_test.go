package explain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
	"github.com/breakwater-k8s/breakwater/internal/diagnose/explain"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func web(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "uid-0", Labels: map[string]string{"app": "web"}}}
	p.Spec.NodeName, p.Status.Phase = "node-1", corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}}
	for _, c := range change {
		c(p)
	}
	return p
}

func protector(floor, here, elsewhere int32, change ...func(*v1alpha1.PodProtector)) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	p.Spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}
	p.Spec.MinAvailable = v1alpha1.Pods(floor)
	for id, counted := range map[string]int32{"here": here, "there": elsewhere} {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: id, Aggregation: v1alpha1.Aggregation{CountedReplicas: counted}})
	}
	for _, c := range change {
		c(p)
	}
	for i := range p.Status.Cells {
		p.Status.Cells[i].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
	}
	return p
}

func reserve(p *v1alpha1.PodProtector, cell string, removals int) {
	history := &quota.CellOf(p, cell).AdmissionHistory
	for i := range removals {
		history.Buckets = append(history.Buckets, v1alpha1.Bucket{
			StartTime: metav1.NewMicroTime(now.Add(-time.Second)), Counter: 1, PodUID: "gone-" + metav1.ObjectMeta{}.UID + "x", PodName: fmt.Sprint("gone-", i),
		})
	}
}

func situation(pod *corev1.Pod, operation v1alpha1.Operation, protectors ...*v1alpha1.PodProtector) explain.Situation {
	cells := map[string]*v1alpha1.Cell{"here": {}, "there": {}}
	for _, cell := range cells {
		cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{}
	}
	s := explain.Situation{
		Now: now, Cell: "here", Request: explain.Request(pod, operation), Hooks: []webhookconfig.Hook{{Name: "pods.breakwater.dev"}},
		Cells: map[string]map[string]*v1alpha1.Cell{"core": cells},
	}
	s.Covering, s.Belongs, s.CoveringErr = explain.Covering([]explain.Core{{Name: "core", Protectors: protectors, Cells: cells}}, "here", pod, explain.Node{Err: errors.New("no such node")})
	return s
}

func TestPodExplainsCharge(t *testing.T) {
	second := metav1.NewTime(now.Add(-time.Second))
	old := func(p *v1alpha1.PodProtector) { p.Spec.MinReadySeconds = 10 }
	for claim, c := range map[string]struct {
		pod       func(*corev1.Pod)
		protector func(*v1alpha1.PodProtector)
		operation v1alpha1.Operation
		want      string
		charged   bool
	}{
		"an available pod": {want: "counts: it is available (criterion Available)", charged: true},
		"one that is too young": {
			pod:       func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = second },
			protector: old, want: "does not count yet: it is Ready, and available from 12:00:09Z on (minReadySeconds 10)",
		},
		"one that is not Ready":      {pod: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, want: "does not count: it is Running only (criterion Available)"},
		"one with an unknown status": {pod: func(p *corev1.Pod) { p.Status.Conditions = nil }, want: "may count: its status is unknown (criterion Available)", charged: true},
		"its own criterion": {
			pod: func(p *corev1.Pod) {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
				p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: "Running"}
			}, want: "counts: it is Running (criterion Running, the pod's own)", charged: true,
		},
		"one that is terminating": {pod: func(p *corev1.Pod) { p.DeletionTimestamp = &second }, want: "consumes no budget: it is already terminating"},
		"one without a node":      {pod: func(p *corev1.Pod) { p.Spec.NodeName = "" }, want: "consumes no budget: it is not scheduled to a node"},
		"one that has finished":   {pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, want: "consumes no budget: it has finished (Failed)"},
		"an update":               {operation: v1alpha1.OperationUpdate, want: "consumes no budget: Update is not one of the guarded operations (Delete, Evict, Relabel)"},
	} {
		t.Run(claim, func(t *testing.T) {
			pod, p := web(), protector(3, 2, 2)
			if c.pod != nil {
				c.pod(pod)
			}
			if c.protector != nil {
				p = protector(3, 2, 2, c.protector)
			}
			operation := c.operation
			if operation == "" {
				operation = v1alpha1.OperationDelete
			}
			e := explain.Pod(situation(pod, operation, p))
			if got := e.Protectors[0]; got.Why != c.want || got.Charged != c.charged {
				t.Errorf("Pod() charged %v because %q; want %v, %q", got.Charged, got.Why, c.charged, c.want)
			}
		})
	}
}

func TestCellWorthAddsUpToBudget(t *testing.T) {
	p := protector(3, 4, 2, func(p *v1alpha1.PodProtector) { quota.CellOf(p, "there").Discount = v1alpha1.DiscountStale })
	reserve(p, "here", 1)
	s := situation(web(), v1alpha1.OperationDelete, p)
	beat := metav1.NewMicroTime(now.Add(-5 * time.Minute))
	there := s.Cells["core"]["there"]
	there.Spec.StaleAfter, there.Spec.WhenStale, there.Status.Aggregator.LastHeartbeat = &metav1.Duration{Duration: time.Minute}, v1alpha1.WhenStaleDiscount, &beat
	got := map[string]explain.Cell{}
	e := explain.Pod(s)
	for _, cell := range e.Protectors[0].Cells {
		got[cell.Name] = cell
	}
	want := map[string]explain.Cell{
		"here":  {Name: "here", Counted: 4, UnderWay: 1, Worth: 3},
		"there": {Name: "there", Counted: 2, Discount: v1alpha1.DiscountStale, SilentFor: &metav1.Duration{Duration: 5 * time.Minute}, WhenStale: v1alpha1.WhenStaleDiscount},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(e.Remedies, func(r string) bool {
		return strings.Contains(r, "a report from the aggregator of cell there: until then its pods (2 pods) do not count")
	}) {
		t.Errorf("Pod() has remedies %q, want the report of the silent cell", e.Remedies)
	}
	if e.Protectors[0].Left != 0 || e.Allowed {
		t.Errorf("left %d, allowed %v", e.Protectors[0].Left, e.Allowed)
	}
}

func TestRemediesOfFullProtector(t *testing.T) {
	p := protector(1, 4, 4, func(p *v1alpha1.PodProtector) { p.Spec.AdmissionHistory.MaxConcurrentLag = 2 })
	reserve(p, "here", 2)
	e := explain.Pod(situation(web(), v1alpha1.OperationDelete, p))
	want := []string{
		"shop/web: fewer than 2 removals under way (now 2)",
		"shop/web: settlement of 2 removals under way, at about 12:01:04Z at the latest (a pod that is still alive then counts again)",
		"in an emergency: kubectl breakwater force pod/web-0 -n shop --reason TEXT",
	}
	if diff := cmp.Diff(want, e.Remedies); diff != "" || e.Verdict != removal.VerdictReason(quota.DeniedFull) {
		t.Errorf("%s: remedies (-want +got):\n%s", e.Verdict, diff)
	}
}

func TestPodExplainsPendingDecrease(t *testing.T) {
	p := protector(4, 2, 2, func(p *v1alpha1.PodProtector) {
		p.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLimitExceeded,
			Message: "Deployment web was deleted, which would release the floor of 4. It is held.",
		}}
	})
	e := explain.Pod(situation(web(), v1alpha1.OperationDelete, p))
	if d := e.Protectors[0].DecreasePending; d == nil || d.Effect != "release the floor of 4" {
		t.Errorf("Pod() has decrease %+v, want the release of the floor of 4", d)
	}
	const remedy = `shop/web: the floor is held although Deployment web was deleted: if that is intended, run "kubectl breakwater release --pending -n shop web"`
	if !slices.ContainsFunc(e.Remedies, func(r string) bool { return strings.HasPrefix(r, remedy) }) {
		t.Errorf("Pod() has remedies %q, want one that begins with %q", e.Remedies, remedy)
	}
}

func TestPodExplainsShares(t *testing.T) {
	const missing = `the share of PodProtector core/shop/web in cell "here" cannot be read in the cluster of the cell`
	for claim, c := range map[string]struct {
		// here and there are the shares of the two cells. Each has 10 pods.
		here, there int32
		isMissing   bool
		isLost      bool
		want        explain.Share
		verdict     removal.VerdictReason
		message     string
		remedy      string
	}{
		"a share with budget":                   {here: 6, there: 6, want: explain.Share{Of: "web", Known: true, Floor: 12, Elsewhere: 4}, verdict: removal.VerdictDryRun},
		"a share without, and other cells have": {here: 10, there: 6, want: explain.Share{Of: "web", Known: true, Floor: 12, Elsewhere: 8}, verdict: "NoBudget", message: `than its share of the floor of PodProtector "web"`, remedy: "shop/web.share-1: the budget of other cells, which have enough for 8 removals: it moves within seconds while the core is reachable"},
		"no cell has budget":                    {here: 10, there: 10, want: explain.Share{Of: "web", Known: true, Floor: 20}, verdict: "NoBudget", remedy: "a lower floor of PodProtector web (now 20)"},
		"a share of a lost protector":           {here: 10, isLost: true, want: explain.Share{Of: "web"}, verdict: "NoBudget", remedy: "shop/web.share-1: PodProtector web in its core, from which the share gets budget"},
		"a share that cannot be read":           {here: 6, there: 6, isMissing: true, verdict: removal.VerdictUnknown, message: missing},
	} {
		t.Run(claim, func(t *testing.T) {
			p := protector(int32(c.want.Floor), 10, 10)
			share := protector(c.here, 10, 0)
			p.UID, share.Name, share.Spec.ShareOf = "1", "web.share-1", &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: "here"}
			quota.DropCell(share, "there")
			quota.CellOf(p, "here").Share = &v1alpha1.CellShare{Floor: c.here, TermVersion: "1"}
			quota.CellOf(p, "there").Share = &v1alpha1.CellShare{Floor: c.there, TermVersion: "1"}
			s, pod := situation(web(), v1alpha1.OperationDelete), web()
			core, shares := explain.Core{Name: "core", Protectors: []*v1alpha1.PodProtector{p}}, explain.Core{Name: "shares", Protectors: []*v1alpha1.PodProtector{share}}
			if c.isLost {
				core.Protectors = nil
			}
			if c.isMissing {
				shares.Protectors = nil
			}
			s.ShareOwners, s.Cells = core.Protectors, nil
			s.Covering, s.Belongs, s.CoveringErr = explain.Covering([]explain.Core{core, shares}, "here", pod, explain.Node{})
			e := explain.Pod(s)
			if e.Verdict != c.verdict || !strings.Contains(e.Message, c.message) || !strings.Contains(strings.Join(e.Remedies, "\n"), c.remedy) || len(e.Protectors) != 1 {
				t.Fatalf("Pod() = %s %q with remedies %q and %d protectors, want %s %q, %q and one", e.Verdict, e.Message, e.Remedies, len(e.Protectors), c.verdict, c.message, c.remedy)
			}
			if c.isMissing {
				return
			}
			if len(e.Notes) > 0 {
				t.Errorf("Pod() of a cell with shares, whose Cell was not read, has notes %q", e.Notes)
			}
			if diff := cmp.Diff(&c.want, e.Protectors[0].Share); diff != "" || e.Protectors[0].Floor != int(c.here) || e.Protectors[0].FloorThatWouldDo != nil {
				t.Errorf("Pod() explains %+v (-want +got):\n%s", e.Protectors[0], diff)
			}
		})
	}
}

func TestPodReportsWhetherWebhookIsCalled(t *testing.T) {
	denied := situation(web(), v1alpha1.OperationDelete, protector(4, 2, 2))
	if e := explain.Pod(denied); e.IsAdmitted() || e.Asked != explain.AskedYes || len(e.Remedies) == 0 {
		t.Errorf("Pod() with a webhook: asked %s, goes %v, remedies %q; want Yes, false, some", e.Asked, e.IsAdmitted(), e.Remedies)
	}
	denied.Hooks[0].SkipReason = "the namespace is exempt"
	if e := explain.Pod(denied); !e.IsAdmitted() || e.Asked != explain.AskedNo || e.Allowed || len(e.Remedies) > 0 {
		t.Errorf("Pod() in an exempt namespace: asked %s, goes %v, remedies %q; want No, true, none", e.Asked, e.IsAdmitted(), e.Remedies)
	}
	denied.HooksUnknown = true
	if e := explain.Pod(denied); e.IsAdmitted() || e.Asked != explain.AskedUnknown {
		t.Errorf("Pod() without known webhooks: asked %s, goes %v; want Unknown, false", e.Asked, e.IsAdmitted())
	}
}

func TestPodReportsBreakGlass(t *testing.T) {
	pod := web(func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true"} })
	e := explain.Pod(situation(pod, v1alpha1.OperationDelete, protector(4, 2, 2)))
	if !e.Allowed || e.ForcedOver != "NoBudget" || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "the removal is admitted although the verdict is NoBudget") {
		t.Errorf("Pod() with break-glass: allowed %v, overridden verdict %q, notes %q; want true, NoBudget and one note", e.Allowed, e.ForcedOver, e.Notes)
	}
}

// Each remedy is sufficient, and a smaller change is not.
func TestRemediesAreSufficientAndMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.Int32Range(0, 9)
		floor := small.Draw(t, "floor")
		here, there, under := small.Draw(t, "here"), small.Draw(t, "there"), rapid.IntRange(0, 4).Draw(t, "under way")
		spread := rapid.Bool().Draw(t, "spread")
		build := func(floor, more int32) *v1alpha1.PodProtector {
			p := protector(floor, here+more, there, func(p *v1alpha1.PodProtector) {
				if spread {
					p.Spec.Spread = &v1alpha1.Spread{TopologyKey: v1alpha1.TopologyKeyCell, TolerateDomainLoss: true}
				}
			})
			reserve(p, "there", under)
			return p
		}
		judge := func(floor, more int32) explain.Explanation {
			return explain.Pod(situation(web(), v1alpha1.OperationDelete, build(floor, more)))
		}
		e := judge(floor, 0)
		p := e.Protectors[0]
		if e.Allowed {
			if p.MoreAvailable != nil || p.FloorThatWouldDo != nil || len(e.Remedies) > 0 {
				t.Fatalf("Pod() has remedies for an admitted removal: %+v", e)
			}
			return
		}
		f := p.FloorThatWouldDo
		if f == nil || !judge(int32(*f), 0).Allowed || judge(int32(*f)+1, 0).Allowed {
			t.Fatalf("FloorThatWouldDo = %v, want the highest floor that admits it (now %d): %+v", f, floor, p)
		}
		if n := p.MoreAvailable; n != nil {
			noBudget := removal.VerdictReason(quota.DeniedNoBudget)
			if judge(floor, int32(*n)).Verdict == noBudget || judge(floor, int32(*n)-1).Verdict != noBudget {
				t.Fatalf("MoreAvailable = %d, want the smallest number that admits it: %+v", *n, p)
			}
		} else if p.Outcome == quota.DeniedNoBudget {
			t.Fatalf("MoreAvailable = nil, want a number: %+v", p)
		}
	})
}
