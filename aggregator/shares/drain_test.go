package shares

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// sharedCells are the cells of a protector with shares, each with a cluster and an aggregator of its own.
type sharedCells struct {
	*testing.T
	p       *v1alpha1.PodProtector
	names   []string
	shares  map[string]client.Client
	keepers map[string]*Keeper
	// draining are the cells whose Cell is being deleted.
	draining map[string]*atomic.Bool
}

// newSharedCells has as many pods in each cell, and lets all cells get their shares.
func newSharedCells(t *testing.T, floor, pods int32, names ...string) *sharedCells {
	t.Helper()
	s := &sharedCells{T: t, names: names, shares: map[string]client.Client{}, keepers: map[string]*Keeper{}, draining: map[string]*atomic.Bool{}}
	s.p = &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "p", Finalizers: []string{v1alpha1.FinalizerHold}},
		Spec: v1alpha1.PodProtectorSpec{
			Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, MinAvailable: v1alpha1.Pods(floor), CoreOutage: v1alpha1.CoreOutageLocalShare,
		},
	}
	for _, name := range names {
		s.p.Status.Cells = append(s.p.Status.Cells, v1alpha1.PodProtectorCell{CellID: name, Aggregation: v1alpha1.Aggregation{
			CountedSpec: quota.CountedSpec(&s.p.Spec), CountedReplicas: pods, TermVersion: "5", SnapshotVersion: "100",
		}})
		cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.shares[name], s.draining[name] = fakeShares(), &atomic.Bool{}
		s.keepers[name] = &Keeper{
			Cell: name, Shares: s.shares[name], Live: s.shares[name], Core: sharedCore{s}, Version: 10, Log: logr.Discard(),
			Current: func() *v1alpha1.Cell { return cell }, Draining: s.draining[name].Load,
		}
	}
	s.settle()
	return s
}

// sharedCore is the API server of the core.
type sharedCore struct{ *sharedCells }

func (c sharedCore) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.p.DeepCopyInto(into.(*v1alpha1.PodProtector))
	return nil
}

func (sharedCore) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("it lists nothing")
}

// step aggregates the protector in a cell: it counts the share, takes its next step, and drains the cell if its Cell is being deleted.
func (s *sharedCells) step(cell string) {
	s.Helper()
	entry := quota.CellOf(s.p, cell)
	if entry == nil {
		return
	}
	if share := s.share(cell); share != nil {
		own := quota.CellOf(share, cell)
		if own == nil {
			share.Status.Cells = append(share.Status.Cells, v1alpha1.PodProtectorCell{CellID: cell})
			own = quota.CellOf(share, cell)
		}
		own.Aggregation.CountedSpec, own.Aggregation.CountedReplicas = quota.CountedSpec(&share.Spec), entry.Aggregation.CountedReplicas
		if err := s.shares[cell].Status().Update(s.Context(), share); err != nil {
			s.Fatal(err)
		}
	}
	entry.Aggregation.CountedSpec = quota.CountedSpec(&s.p.Spec)
	next := s.p.DeepCopy()
	finish, err := s.stepShare(cell, next)
	if err != nil {
		s.Fatal(err)
	}
	s.p = next
	if finish != nil {
		if err := finish(s.Context()); err != nil {
			s.Fatal(err)
		}
	}
}

// stepShare begins the next step of a protector that was counted in a cell, and drains the cell if its Cell is being deleted.
func (s *sharedCells) stepShare(cell string, next *v1alpha1.PodProtector) (finish func(context.Context) error, err error) {
	return s.keepers[cell].Step(s.Context(), s.p.DeepCopy(), next, func(p *v1alpha1.PodProtector) {
		if s.draining[cell].Load() {
			Drain(p, cell, 0)
		}
	})
}

// settle lets all cells but some take steps until no share moves any more.
func (s *sharedCells) settle(without ...string) {
	s.Helper()
	for range 8 {
		for _, cell := range s.names {
			if !slices.Contains(without, cell) {
				s.step(cell)
			}
		}
	}
}

// share returns the share of a cell; nil if there is none.
func (s *sharedCells) share(cell string) *v1alpha1.PodProtector {
	s.Helper()
	all := &v1alpha1.PodProtectorList{}
	if err := s.shares[cell].List(s.Context(), all); err != nil {
		s.Fatal(err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// remove returns how many removals of all pods of a cell its share admits.
func (s *sharedCells) remove(cell string) (admitted int) {
	s.Helper()
	share := s.share(cell)
	for i := range quota.CellOf(s.p, cell).Aggregation.CountedReplicas {
		uid := types.UID(fmt.Sprintf("%s-%d", cell, i))
		removal := quota.Removal{Cell: cell, PodUID: uid, PodName: string(uid), Operation: v1alpha1.OperationDelete, Token: string(uid)}
		if quota.Decide(share, []quota.Removal{removal})[0].Outcome.Admitted() {
			admitted++
		}
	}
	if err := s.shares[cell].Status().Update(s.Context(), share); err != nil {
		s.Fatal(err)
	}
	return admitted
}

// A Cell that is being deleted keeps its entry until the shares of the other cells keep the floor without it (rule S3).
func TestDeletedCellStaysUntilOtherSharesKeepTheFloor(t *testing.T) {
	for _, pods := range []int32{4, 5, 6, 9} {
		t.Run(fmt.Sprintf("%d pods in each cell", pods), func(t *testing.T) {
			s := newSharedCells(t, 6, pods, "a", "b")
			s.draining["b"].Store(true)
			s.settle("a") // the aggregator of a is late
			if entry := quota.CellOf(s.p, "b"); entry == nil || entry.Discount != v1alpha1.DiscountDraining || entry.Share != nil {
				t.Fatalf("before the share of a has risen, the entry of b is %+v, want one without a share that is draining", entry)
			}
			s.settle()
			if quota.CellOf(s.p, "b") != nil {
				t.Fatalf("the entry of b stays: %+v", s.p.Status.Cells)
			}
			if left := int(pods) - s.remove("a"); left < min(6, int(pods)) {
				t.Errorf("%d of %d pods of a are left, floor 6", left, pods)
			}
		})
	}
}

// Other cells do not rely on the share of a silent cell, if its Cell wants that, and do again when it reports.
func TestSharesDoNotRelyOnASilentCell(t *testing.T) {
	s := newSharedCells(t, 8, 8, "a", "b")
	before := s.share("a").Spec.MinAvailable.IntValue()
	quota.CellOf(s.p, "b").Discount = v1alpha1.DiscountStale
	s.settle("b")
	if admitted := s.remove("a"); admitted != 0 {
		t.Errorf("a admits %d removals of 8 pods while b is silent, want none: the floor is 8", admitted)
	}
	quota.CellOf(s.p, "b").Discount = ""
	s.settle()
	if got := s.share("a").Spec.MinAvailable.IntValue(); got > before {
		t.Errorf("the share of a is %d after b has reported again, want %d as before", got, before)
	}
}

// While no other cell decides on a share, an entry is dropped at once: the protector decides, and does not count the cell.
func TestDeletedCellWithoutOtherSharesIsDropped(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a")
	s.draining["a"].Store(true)
	s.settle()
	if len(s.p.Status.Cells) != 0 {
		t.Errorf("entries %+v, want none", s.p.Status.Cells)
	}
}

// denyingUpdate is the cluster of a cell that changes no shares.
type denyingUpdate struct{ client.Client }

// Update implements client.Writer.
func (denyingUpdate) Update(context.Context, client.Object, ...client.UpdateOption) error {
	return errors.New("it changes nothing")
}

// A restore of the core has undone that it recorded the shares, and the Cell is deleted then (simulation, 702693). The share admits removals until it is
// closed, and its reservations come back to the entry (rule S6).
func TestEntryOfADeletedCellStaysUntilItsShareIsClosed(t *testing.T) {
	s := newSharedCells(t, 6, 5, "a", "b")
	s.p.Spec.CoreOutage = v1alpha1.CoreOutageDeny
	for i := range s.p.Status.Cells {
		s.p.Status.Cells[i].Share = nil
	}
	s.draining["a"].Store(true)
	s.keepers["a"].Shares = denyingUpdate{s.shares["a"]}
	next := s.p.DeepCopy()
	if _, err := s.stepShare("a", next); err == nil || quota.CellOf(next, "a") == nil {
		t.Fatalf("the step ends with %v and the entries %+v, want an error, and the entry of a", err, next.Status.Cells)
	}
	s.keepers["a"].Shares = s.shares["a"]
	s.settle()
	if share := s.share("a"); quota.CellOf(s.p, "a") != nil || share != nil && !share.Spec.ShareOf.Closed {
		t.Errorf("the entries are %+v, and the share is %+v; want neither of a", s.p.Status.Cells, share)
	}
}

// A share that gets budget forgets what it denied. Otherwise its cell would want budget again once it has given that away, although no client asks.
func TestShareWithBudgetForgetsItsDenials(t *testing.T) {
	const pods = 3
	s := newSharedCells(t, 2*pods-1, pods, "a", "b")
	cell := "a"
	if quota.BudgetOf(s.share("a")).Left() > 0 {
		cell = "b"
	}
	share := s.share(cell)
	if left := quota.BudgetOf(share).Left(); left != 0 {
		t.Fatalf("the share of %s has a budget of %d, want 0", cell, left)
	}
	share.Status.Wanted = 1
	if err := s.shares[cell].Status().Update(t.Context(), share); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		s.write("a", pods, false)
		s.write("b", pods, false)
	}
	if share := s.share(cell); quota.BudgetOf(share).Left() != 1 || share.Status.Wanted != 0 {
		t.Errorf("the share of %s has a budget of %d and wants %d, want 1 and 0", cell, quota.BudgetOf(share).Left(), share.Status.Wanted)
	}
}
