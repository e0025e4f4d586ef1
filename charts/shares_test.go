package charts_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

const sharesRelease = "shares-test"

// The accounts that write shares, and a user. All have all RBAC permissions.
const (
	mover   = "system:serviceaccount:" + namespace + ":" + sharesRelease + "-aggregator"
	counter = "system:serviceaccount:" + namespace + ":" + sharesRelease + "-shares"
	decider = "system:serviceaccount:" + namespace + ":" + sharesRelease + "-webhook"
	jane    = "jane"
)

// worker is a worker whose cells shop and bank have shares, with the chart's policy.
type worker struct {
	testing.TB
	admin     client.Client
	namespace string
	users     map[string]client.Client
	stored    map[string]*v1alpha1.PodProtector
	cells     map[string]*v1alpha1.Cell
}

// newWorker installs the policy of the rendered chart. It applies in one namespace, so that it does not disturb other tests.
func newWorker(t testing.TB, admin client.Client) *worker {
	t.Helper()
	w := &worker{
		TB: t, admin: admin, namespace: testplane.Namespace(t), users: map[string]client.Client{}, stored: map[string]*v1alpha1.PodProtector{},
		cells: map[string]*v1alpha1.Cell{},
	}
	for name, cell := range map[string]string{"share": "shop", "foreign": "east", "plain": ""} {
		w.stored[name] = w.protector(name, cell)
		w.create(w.stored[name])
	}
	for _, name := range []string{"shop", "east"} {
		w.cells[name] = &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
		w.create(w.cells[name])
	}
	for _, object := range render(t, "--values", "breakwater/ci/shares.yaml", "--set", "fullnameOverride="+sharesRelease) {
		if !strings.HasPrefix(object.GetKind(), policyDenial) {
			continue
		}
		if object.GetKind() == policyDenial+"Binding" {
			here := map[string]any{"kubernetes.io/metadata.name": w.namespace}
			if err := unstructured.SetNestedMap(object.Object, here, "spec", "matchResources", "namespaceSelector", "matchLabels"); err != nil {
				t.Fatal(err)
			}
		}
		w.create(object)
	}
	for _, name := range []string{mover, counter, decider, jane} {
		config := rest.CopyConfig(testplane.Config(t))
		config.Impersonate = rest.ImpersonationConfig{UserName: name}
		user, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		w.users[name] = user
		w.create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: sharesRelease + "-"}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		})
	}
	testplane.Eventually(t, func() string { // the policy is in force some time after it is created
		if err := w.users[jane].Create(t.Context(), w.protector("probe", ""), client.DryRunAll); !isDenied(err) {
			return "the policy is not in force"
		}
		return ""
	})
	return w
}

func (w *worker) create(object client.Object) {
	w.Helper()
	if err := w.admin.Create(w.Context(), object); err != nil {
		w.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
	w.Cleanup(func() { _ = w.admin.Delete(context.Background(), object) })
}

// protector returns the share of a cell, or a protector that is not a share.
func (w *worker) protector(name, cell string) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(3)
	if cell != "" {
		p.Spec.ShareOf = &v1alpha1.ShareOf{Name: "web", UID: "1", Cell: cell}
	}
	return p
}

func TestOnlyBreakwaterChangesSharesOfItsCells(t *testing.T) {
	w := newWorker(t, apiserver(t))
	type attempt = func(ctx context.Context, user client.Client) error
	update := func(name string, change func(*v1alpha1.PodProtector)) attempt {
		return func(ctx context.Context, user client.Client) error {
			changed := w.stored[name].DeepCopy()
			change(changed)
			return user.Update(ctx, changed, client.DryRunAll)
		}
	}
	count := func(name string) attempt {
		return func(ctx context.Context, user client.Client) error {
			changed := w.stored[name].DeepCopy()
			changed.Status.Wanted++
			return user.Status().Update(ctx, changed, client.DryRunAll)
		}
	}
	updateCell := func(name string, change func(*v1alpha1.Cell)) attempt {
		return func(ctx context.Context, user client.Client) error {
			changed := w.cells[name].DeepCopy()
			change(changed)
			return user.Update(ctx, changed, client.DryRunAll)
		}
	}
	lower := func(p *v1alpha1.PodProtector) { p.Spec.MinAvailable = v1alpha1.Pods(1) }
	unshare := func(p *v1alpha1.PodProtector) { p.Spec.ShareOf = nil }
	label := func(p *v1alpha1.PodProtector) { p.Labels = map[string]string{"team": "web"} }
	deadline := func(cell *v1alpha1.Cell) { cell.Spec.AdmissionDeadline = &metav1.Duration{Duration: 35 * time.Second} }
	secret := func(cell *v1alpha1.Cell) {
		cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: "a", Name: "b"}
	}
	statusOfCell := func(name string) attempt {
		return func(ctx context.Context, user client.Client) error {
			changed := w.cells[name].DeepCopy()
			changed.Status.Cluster = "1"
			return user.Status().Update(ctx, changed, client.DryRunAll)
		}
	}
	for claim, c := range map[string]struct {
		change  attempt
		allowed []string
	}{
		"create a share": {func(ctx context.Context, user client.Client) error {
			return user.Create(ctx, w.protector("new", "shop"), client.DryRunAll)
		}, []string{mover}},
		"create a share of another cell": {func(ctx context.Context, user client.Client) error {
			return user.Create(ctx, w.protector("new", "east"), client.DryRunAll)
		}, nil},
		"create a protector": {func(ctx context.Context, user client.Client) error {
			return user.Create(ctx, w.protector("new", ""), client.DryRunAll)
		}, nil},
		"lower a share":                 {update("share", lower), []string{mover}},
		"lower a share of another cell": {update("foreign", lower), nil},
		"turn a share into a protector": {update("share", unshare), nil},
		"label a share":                 {update("share", label), []string{mover, jane}},
		"delete a share": {func(ctx context.Context, user client.Client) error {
			return user.Delete(ctx, w.stored["share"], client.DryRunAll)
		}, []string{mover, jane}},
		"delete a protector": {func(ctx context.Context, user client.Client) error {
			return user.Delete(ctx, w.stored["plain"], client.DryRunAll)
		}, []string{jane}},
		"count for a share":                 {count("share"), []string{mover, counter, decider, jane}},
		"count for a share of another cell": {count("foreign"), []string{jane}},
		"count for a protector":             {count("plain"), []string{jane}},
		"change the copy of its Cell":       {updateCell("shop", deadline), []string{mover, jane}},
		"change another Cell":               {updateCell("east", deadline), []string{jane}},
		"let its Cell refer to a Secret":    {updateCell("shop", secret), []string{jane}},
		"delete its Cell": {func(ctx context.Context, user client.Client) error {
			return user.Delete(ctx, w.cells["shop"], client.DryRunAll)
		}, []string{jane}},
		"write the status of its Cell":     {statusOfCell("shop"), []string{mover, counter, jane}},
		"write the status of another Cell": {statusOfCell("east"), []string{jane}},
	} {
		t.Run(claim, func(t *testing.T) {
			for name, user := range w.users {
				err := c.change(t.Context(), user)
				switch allowed := slices.Contains(c.allowed, name); {
				case allowed && err != nil:
					t.Errorf("%s: error %v, want it allowed", name, err)
				case !allowed && !isDenied(err):
					t.Errorf("%s: error %v, want a denial by the policy", name, err)
				}
			}
		})
	}
}

// A cell has one aggregator for each core, and one for its shares. The webhook reads shares like another core.
func TestComponentsOfAWorkerUseSharesInTheirOwnCluster(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/shares.yaml", "--set", "fullnameOverride=breakwater")
	for name, want := range map[string][]string{
		"breakwater-aggregator-shares-shop":  {"--cell=shop", "--of-shares", "--kubeconfig=in-cluster", "--core-kubeconfig=in-cluster", "--leader-election-namespace=" + namespace},
		"breakwater-aggregator-shares-bank":  {"--cell=bank", "--of-shares"},
		"breakwater-aggregator-america-shop": {"--cell=shop", "--shares", "--kubeconfig=in-cluster", "--core-kubeconfig=/etc/breakwater/cores/america/kubeconfig"},
		"breakwater-aggregator-europe-bank":  {"--cell=bank", "--shares"},
		"breakwater-webhook":                 {"--core=shares=in-cluster", "--core=europe=/etc/breakwater/cores/europe/kubeconfig", "--cells-of="},
	} {
		pod := deployment(t, objects, name).Spec.Template.Spec
		for _, argument := range want {
			if !slices.Contains(pod.Containers[0].Args, argument) {
				t.Errorf("%s: argument %s is missing in %q", name, argument, pod.Containers[0].Args)
			}
		}
		if account := pod.ServiceAccountName; (account == "breakwater-shares") != strings.Contains(name, "-shares-") {
			t.Errorf("%s: ServiceAccount %s", name, account)
		}
	}
}

func TestSharesChangeNothingInASingleCluster(t *testing.T) {
	without, errWithout := template(t, "--values", "breakwater/ci/single.yaml")
	with, errWith := template(t, "--values", "breakwater/ci/single.yaml", "--set", "shares.enabled=true")
	if errWithout != nil || errWith != nil || with != without {
		t.Errorf("%d and %d bytes, errors %v and %v; want the same", len(without), len(with), errWithout, errWith)
	}
}
