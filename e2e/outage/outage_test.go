// Package outage_test tests cells that go on while their core is unreachable.
package outage_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

var suite = e2e.NewSuiteWith("federated", startSuite)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// startSuite installs the charts, so that the tests also show that the accounts have the permissions that shares need.
func startSuite(ctx context.Context, s *e2e.Suite) (func(), error) {
	setup := release.Setup{Program: s.Program(), Dir: s.Dir(), Charts: "../../charts/", Deadline: e2e.AdmissionDeadline, Shares: true}
	clusters := s.Federation().Clusters()
	installed, err := setup.Federation(ctx, clusters[0], clusters[1:])
	return installed.Close, err
}

// fixture is a protector with shares, and its pods.
type fixture struct {
	*e2e.Fixture
	floor int
}

func newFixture(l *e2e.Fixture, floor, pods int) *fixture {
	l.Helper()
	l.CreateProtector(floor, func(spec *v1alpha1.PodProtectorSpec) { spec.CoreOutage = v1alpha1.CoreOutageLocalShare })
	l.CreateBarePods(l.Application(pods))
	f := &fixture{l, floor}
	f.waitForShares()
	return f
}

// waitForShares waits until all cells have shares that add up to the floor, and whose objects are open. A share falls in the core first.
func (f *fixture) waitForShares() {
	f.Helper()
	f.Eventually(func() string {
		sum, recorded := 0, map[string]int{}
		for _, cell := range f.GetProtector().Status.Cells {
			if cell.Share == nil || cell.Share.Floor >= cell.Aggregation.CountedReplicas {
				return fmt.Sprintf("cell %s has no share, or no budget: %+v", cell.CellID, cell.Share)
			}
			recorded[cell.CellID] = int(cell.Share.Floor)
			sum += int(cell.Share.Floor)
		}
		if sum != f.floor {
			return fmt.Sprintf("all shares are %d, want %d", sum, f.floor)
		}
		for i, cell := range f.Cells {
			share := f.share(i)
			if share == nil || share.Spec.ShareOf.Closed || len(share.Status.Cells) == 0 || share.Status.Cells[0].Aggregation.CountedSpec == "" {
				return fmt.Sprintf("the share of cell %s is not open: %+v", cell.Name, share)
			}
			if got, want := share.Spec.MinAvailable.IntValue(), recorded[cell.Name]; got != want {
				return fmt.Sprintf("cell %s keeps %d pods, and its protector records %d", cell.Name, got, want)
			}
		}
		return ""
	})
}

// share returns the share of a cell; nil if there is none.
func (f *fixture) share(cell int) *v1alpha1.PodProtector {
	f.Helper()
	c, err := install.Client(f.Federation().Workers()[cell])
	f.Must(err)
	list := &v1alpha1.PodProtectorList{}
	f.Must(c.List(f.Context(), list, client.InNamespace(f.Namespace)))
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// deleteUntilDenied deletes pods of a cell, one after the other, until deletions have been denied for that long, and several times: while the core
// is unreachable, one denial alone can take so long. It returns how many were admitted.
func (f *fixture) deleteUntilDenied(cell storm.Cell, patience time.Duration) (admitted int) {
	f.Helper()
	const several = 3
	for last, denied := time.Now(), 0; denied < several || time.Since(last) < patience; {
		pods := f.ExistingPods(cell)
		if len(pods) == 0 {
			return admitted
		}
		if err := f.DeletePod(cell, pods[0].Name); err == nil {
			admitted, last, denied = admitted+1, time.Now(), 0
		} else {
			denied++
		}
	}
	return admitted
}

// watchReservations counts the writes of the protector in the core until stop is called. It reports those that store reservations: cells with shares
// store theirs in their own clusters.
func (f *fixture) watchReservations() (stop func() (writes int)) {
	f.Helper()
	c, err := client.NewWithWatch(f.Federation().Cores()[0].RESTConfig(), client.Options{Scheme: f.Core.Scheme()})
	f.Must(err)
	p := f.GetProtector()
	w, err := c.Watch(f.Context(), &v1alpha1.PodProtectorList{}, client.InNamespace(p.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: p.ResourceVersion}})
	f.Must(err)
	counted := make(chan int)
	var stopped atomic.Bool // then the watch may end with an error
	go func() {
		writes := 0
		for event := range w.ResultChan() {
			p, ok := event.Object.(*v1alpha1.PodProtector)
			if !ok && stopped.Load() {
				continue
			}
			if !ok {
				f.Errorf("watch the protector: %v", apierrors.FromObject(event.Object))
				continue
			}
			writes++
			for i := range p.Status.Cells {
				if h := &p.Status.Cells[i].AdmissionHistory; len(h.Buckets) > 0 {
					f.Errorf("cell %s has reservations in the core: %+v", p.Status.Cells[i].CellID, h)
				}
			}
		}
		counted <- writes
	}()
	return func() int {
		stopped.Store(true)
		w.Stop()
		return <-counted
	}
}

func TestCellUsesTheBudgetOfAllCells(t *testing.T) {
	suite.Claim(t, "while the core is reachable, one cell can use the whole budget", func(l *e2e.Fixture) {
		f := newFixture(l, 12, 20)
		stop := f.watchReservations()
		if got, want := f.deleteUntilDenied(l.Cells[0], 10*time.Second), 8; got != want {
			l.Errorf("%d removals were admitted, want %d", got, want)
		}
		writes := stop()
		l.Logf("the protector was written %d times in the core", writes)
		if writes == 0 {
			l.Error("the protector was not written in the core, though budget moved")
		}
		if got := f.CountExistingPods(); got != f.floor {
			l.Errorf("%d pods are left, want the floor %d", got, f.floor)
		}
	})
}

func TestCoreOutage(t *testing.T) {
	suite.Claim(t, "while the core is unreachable, each cell uses its own share, and afterwards shares move again", func(l *e2e.Fixture) {
		core, ok := l.Federation().Cores()[0].(federation.Faults)
		if !ok {
			l.Skip("this backend cannot stop an API server")
		}
		f := newFixture(l, 12, 20)
		l.Must(core.Kill(federation.APIServer))
		lost := time.Now()
		admitted := 0
		for _, cell := range l.Cells {
			n := f.deleteUntilDenied(cell, 3*time.Second)
			l.Logf("%d removals were admitted in cell %s, %s after the core was lost", n, cell.Name, time.Since(lost))
			if n == 0 {
				l.Errorf("no removal was admitted in cell %s", cell.Name)
			}
			admitted += n
		}
		if admitted != 8 || f.CountExistingPods() != f.floor {
			l.Errorf("%d removals were admitted and %d pods are left, want 8 and %d", admitted, f.CountExistingPods(), f.floor)
		}
		// New pods are counted in the cell.
		more := l.Application(4)
		more.Instance = "more"
		l.Must(more.DeployBare(l.Context(), l.Cells[:1]))
		f.Eventually(func() string {
			if got, want := f.share(0).Status.DisruptionsAllowed, int32(4); got != want {
				return fmt.Sprintf("the share allows %d removals, want %d", got, want)
			}
			return ""
		})
		l.Must(core.Restart(l.Context(), federation.APIServer))
		back := time.Now()
		if got, want := f.deleteUntilDenied(l.Cells[1], 20*time.Second), 4; got != want {
			l.Errorf("%d removals were admitted in the other cell, want %d", got, want)
		}
		l.Logf("the other cell had used the budget %s after the core was back", time.Since(back))
		if got := f.CountExistingPods(); got != f.floor {
			l.Errorf("%d pods are left, want the floor %d", got, f.floor)
		}
	})
}

func TestSharesFollowTheirProtector(t *testing.T) {
	suite.Claim(t, "a share follows its spec, is recreated when it is lost, and ends with it", func(l *e2e.Fixture) {
		f := newFixture(l, 12, 20)
		f.changeProtector(func(spec *v1alpha1.PodProtectorSpec) { spec.MinReadySeconds = 1 })
		f.Eventually(func() string {
			if got := f.share(0).Spec.MinReadySeconds; got != 1 {
				return fmt.Sprintf("minReadySeconds of the share is %d, want 1", got)
			}
			return ""
		})
		lost := f.share(0)
		worker, err := install.Client(l.Federation().Workers()[0])
		l.Must(err)
		l.Must(worker.Delete(l.Context(), lost))
		admitted := 0 // unless a share exists again, and then with its budget
		if err := l.DeletePod(l.Cells[0], f.ExistingPods(l.Cells[0])[0].Name); err == nil {
			admitted++
		}
		f.waitForShares()
		if got, want := admitted+f.deleteUntilDenied(l.Cells[0], 10*time.Second), 8; got != want {
			l.Errorf("%d removals were admitted, want %d", got, want)
		}
		f.changeProtector(func(spec *v1alpha1.PodProtectorSpec) { spec.CoreOutage = v1alpha1.CoreOutageDeny })
		f.Eventually(func() string {
			p := f.GetProtector()
			for i, cell := range p.Status.Cells {
				if cell.Share != nil || f.share(i) != nil {
					return fmt.Sprintf("cell %s still has a share: %+v", cell.CellID, cell)
				}
			}
			if got, want := p.Status.Summary.EstimatedAvailable, int32(f.floor); got != want {
				return fmt.Sprintf("%d pods are estimated to be available, want %d", got, want)
			}
			return ""
		})
		f.changeProtector(func(spec *v1alpha1.PodProtectorSpec) {
			spec.CoreOutage, spec.MinAvailable = v1alpha1.CoreOutageLocalShare, v1alpha1.Pods(4)
		})
		f.floor = 4
		f.waitForShares()
		l.Must(l.Core.Delete(l.Context(), f.GetProtector()))
		f.Eventually(func() string {
			for i := range f.Cells {
				if share := f.share(i); share != nil {
					return fmt.Sprintf("cell %d still has the share of a protector that was deleted: %+v", i, share)
				}
			}
			return ""
		})
	})
}

// changeProtector changes the spec of the protector.
func (f *fixture) changeProtector(change func(*v1alpha1.PodProtectorSpec)) {
	f.Helper()
	f.Must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p := f.GetProtector()
		change(&p.Spec)
		return f.Core.Update(f.Context(), p)
	}))
}
