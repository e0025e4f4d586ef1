package hostile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

const compromisedWorker = "compromised worker"

// stolenCoreConfig returns the credentials for the core that breakwater join stored in the first worker.
func stolenCoreConfig(l *e2e.Fixture) *rest.Config {
	l.Helper()
	worker, err := client.New(installed[1].Cluster.RESTConfig(), client.Options{})
	l.Must(err)
	secret := &corev1.Secret{}
	l.Must(worker.Get(l.Context(), client.ObjectKey{Namespace: release.Namespace, Name: "core-" + l.Core.Name}, secret))
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	l.Must(err)
	return config
}

func newClient(l *e2e.Fixture, config *rest.Config) client.Client {
	l.Helper()
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	l.Must(err)
	return c
}

func TestCompromisedWorker(t *testing.T) {
	suite.Claim(t, "it changes nothing but the reservations of its own cell", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		const pods, floor = 12, 8
		l.CreateProtector(floor)
		l.CreateBarePods(l.Application(pods))
		config, own, other := stolenCoreConfig(l), l.Cells[0].Name, l.Cells[1].Name
		thief := newClient(l, config)
		// The aggregators write the same status, so an update that conflicts is retried.
		updateStatus := func(change func(p *v1alpha1.PodProtector)) error {
			return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				p := l.GetProtector()
				change(p)
				return thief.Status().Update(l.Context(), p)
			})
		}
		status := func(attempt string, change func(p *v1alpha1.PodProtector)) attack {
			return forbiddenAttack(attempt, func() error { return updateStatus(change) })
		}
		counts := func(cell string) func(*v1alpha1.PodProtector) {
			return func(p *v1alpha1.PodProtector) {
				a := &cellEntry(p, cell).Aggregation
				a.TotalReplicas, a.CountedReplicas, a.AvailableReplicas = a.TotalReplicas+100, a.CountedReplicas+100, a.AvailableReplicas+100
			}
		}
		named := func(namespace, name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: namespace, Name: name}
		}
		runAttacks(l, compromisedWorker, []attack{
			status("claims 100 more available pods in another cell", counts(other)),
			status("claims 100 more available pods in its own cell, which it does not count", counts(own)),
			status("reserves removals in the name of another cell", func(p *v1alpha1.PodProtector) {
				addReservations(cellEntry(p, other), l.ExistingPods(l.Cells[1]))
			}),
			status("removes the entry of another cell", func(p *v1alpha1.PodProtector) {
				p.Status.Cells = slices.DeleteFunc(p.Status.Cells, func(c v1alpha1.PodProtectorCell) bool { return c.CellID == other })
			}),
			{"lowers the floor and raises the summary in the status, which inform and decide nothing", func() (string, bool) {
				err := updateStatus(func(p *v1alpha1.PodProtector) {
					p.Status.DesiredAvailable, p.Status.DisruptionsAllowed, p.Status.Summary.Available = 0, 100, 100
				})
				left := quota.BudgetOf(l.GetProtector()).Left()
				return fmt.Sprintf("the write is answered with %q; %d removals are left", e2e.ErrorText(err), left), left == pods-floor
			}},
			forbiddenAttack("lowers the floor in the spec", func() error {
				p := l.GetProtector()
				p.Spec.MinAvailable = v1alpha1.Pods(0)
				return thief.Update(l.Context(), p)
			}),
			forbiddenAttack("deletes the protector", func() error { return thief.Delete(l.Context(), l.GetProtector()) }),
			forbiddenAttack("makes another cell's Cell lead to another cluster", func() error {
				cell := &v1alpha1.Cell{}
				l.Must(l.Core.Get(l.Context(), client.ObjectKey{Name: other}, cell))
				cell.Status.Cluster = "another"
				return thief.Status().Update(l.Context(), cell)
			}),
			forbiddenAttack("deletes the Cell of another cell", func() error { return thief.Delete(l.Context(), &v1alpha1.Cell{ObjectMeta: named("", other)}) }),
			forbiddenAttack("reads the Secrets of the core", func() error {
				return thief.List(l.Context(), &corev1.SecretList{}, client.InNamespace(release.Namespace))
			}),
			forbiddenAttack("takes the Lease of the generator", func() error {
				return thief.Create(l.Context(), &coordinationv1.Lease{ObjectMeta: named(release.Namespace, "thief")})
			}),
			forbiddenAttack("makes a token of another cell's account", func() error {
				account := &corev1.ServiceAccount{ObjectMeta: named(release.Namespace, "breakwater-access-"+other)}
				return thief.SubResource("token").Create(l.Context(), account, &authenticationv1.TokenRequest{})
			}),
			forbiddenAttack("impersonates an administrator", func() error {
				as := rest.CopyConfig(config)
				as.Impersonate = rest.ImpersonationConfig{UserName: "admin", Groups: []string{"system:masters"}}
				return newClient(l, as).Delete(l.Context(), l.GetProtector())
			}),
			{"reserves the removals of all of its pods, and does not remove them", func() (string, bool) {
				l.Must(updateStatus(func(p *v1alpha1.PodProtector) { addReservations(cellEntry(p, own), l.ExistingPods(l.Cells[0])) }))
				blocked := l.DeletePod(l.Cells[1], l.ExistingPods(l.Cells[1])[0].Name)
				return fmt.Sprintf("%d pods live; until the admission deadline a removal in another cell is answered with %q", l.CountExistingPods(), e2e.ErrorText(blocked)),
					blocked != nil && strings.Contains(blocked.Error(), "Breakwater") && l.CountExistingPods() == pods
			}},
		})
		// Its reservations expire at the admission deadline, and then the whole budget is usable again.
		for removed := range pods - floor {
			l.Eventually(func() string { return e2e.ErrorText(l.DeletePod(l.Cells[1], l.ExistingPods(l.Cells[1])[0].Name)) })
			l.Logf("%d pods removed", removed+1)
		}
		l.WaitForSummary(e2e.AllAvailable(floor))
		l.ExpectDenial(l.DeletePod(l.Cells[1], l.ExistingPods(l.Cells[1])[0].Name))
	})
}

// cellEntry returns the entry of a cell in the status of a protector. It panics if there is none.
func cellEntry(p *v1alpha1.PodProtector, cell string) *v1alpha1.PodProtectorCell {
	for i := range p.Status.Cells {
		if p.Status.Cells[i].CellID == cell {
			return &p.Status.Cells[i]
		}
	}
	panic("no entry of " + cell)
}

// addReservations adds reservations for the removals of pods to an entry.
func addReservations(cell *v1alpha1.PodProtectorCell, pods []corev1.Pod) {
	for i := range pods {
		cell.AdmissionHistory.Buckets = append(cell.AdmissionHistory.Buckets, v1alpha1.Bucket{
			StartTime: metav1.NowMicro(), Counter: 1, PodUID: pods[i].UID, PodName: pods[i].Name, Operation: v1alpha1.OperationDelete,
		})
	}
}
