package operate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/doctest"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
)

const root = "../.."

// TestPagesShowRealOutput runs the commands of each page and compares their output with the page. Each page has its own kubeconfig and folder.
func TestPagesShowRealOutput(t *testing.T) {
	all, err := doctest.All(root)
	if err != nil {
		t.Fatal(err)
	}
	deletePods(operateSuite.NewFixture(t, nil))
	for _, page := range all {
		if !page.Runs(doctest.Shell, doctest.Federation) {
			continue
		}
		t.Run(page.Path, func(t *testing.T) {
			page.Run(t, newSetting(t, doctest.Shell, doctest.Federation))
		})
	}
}

// deletePods deletes the protectors and the pods that other tests have left. A page drains a node, and kubectl drain stops at pods without controllers.
func deletePods(l *fixture) {
	l.Helper()
	protectors := &v1alpha1.PodProtectorList{}
	l.Must(l.Core.List(l.Context(), protectors))
	isLeft := func(o client.Object) bool { return strings.HasPrefix(o.GetNamespace(), "e2e-") }
	for i := range protectors.Items {
		p := &protectors.Items[i]
		if !isLeft(p) {
			continue
		}
		before := p.DeepCopy() // without a confirmation, many deletions at once are held
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, v1alpha1.AnnotationConfirmRelease, "true")
		l.Must(client.IgnoreNotFound(l.Core.Patch(l.Context(), p, client.MergeFrom(before))))
		l.Must(client.IgnoreNotFound(l.Core.Delete(l.Context(), p)))
	}
	for _, worker := range l.Federation().Workers() {
		c, err := install.Client(worker)
		l.Must(err)
		l.Eventually(func() string {
			pods := &corev1.PodList{}
			l.Must(c.List(l.Context(), pods))
			var left []string
			for i := range pods.Items {
				if pod := &pods.Items[i]; isLeft(pod) && metav1.GetControllerOf(pod) == nil {
					err := client.IgnoreNotFound(c.Delete(l.Context(), pod, client.GracePeriodSeconds(0)))
					left = append(left, fmt.Sprintf("pod %s/%s is left: %v", pod.Namespace, pod.Name, err))
				}
			}
			return strings.Join(left, ", ")
		})
	}
}

// newSetting returns doctest options with a folder that has the charts, the programs built from this tree, and a kubeconfig for the federation.
// When the test ends, it deletes the namespaces that the test created.
func newSetting(t *testing.T, environments ...doctest.Environment) doctest.Options {
	t.Helper()
	prelude, err := os.ReadFile("testdata/pages.sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plugin(); err != nil {
		t.Fatal(err)
	}
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(filepath.Join(tree, "charts"), filepath.Join(folder, "charts")); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(operateSuite.Federation().(*local.Federation).Kubeconfig())
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, ".kubeconfig"), kubeconfig, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	programs := []string{filepath.Dir(operateSuite.Program()), os.Getenv(local.BinariesVariable), os.Getenv("PATH")}
	s := doctest.Options{
		Environments: environments, Folder: folder, Prelude: string(prelude),
		Variables: []string{
			"PATH=" + strings.Join(programs, string(os.PathListSeparator)), "KUBECONFIG=" + filepath.Join(folder, ".kubeconfig"), "HOME=" + folder, "TREE=" + tree,
		},
	}
	before := namespaces(t)
	t.Cleanup(func() { deleteNewNamespaces(t, s, before) })
	return s
}

// namespaces returns the namespaces of all clusters, as CLUSTER/NAMESPACE.
func namespaces(t *testing.T) (names []string) {
	t.Helper()
	for _, cluster := range operateSuite.Federation().Clusters() {
		c, err := install.Client(cluster)
		if err != nil {
			t.Fatal(err)
		}
		list := &corev1.NamespaceList{}
		if err := c.List(context.Background(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			names = append(names, cluster.Name()+"/"+list.Items[i].Name)
		}
	}
	return names
}

// deleteNewNamespaces deletes the namespaces that a page created, and all objects in them.
func deleteNewNamespaces(t *testing.T, s doctest.Options, before []string) {
	t.Helper()
	var made []string
	for _, name := range namespaces(t) {
		if !slices.Contains(before, name) {
			made = append(made, name)
		}
	}
	if len(made) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shell, err := doctest.Begin(ctx, s.Folder, s.Variables)
	if err != nil {
		t.Fatal(err)
	}
	defer shell.End()
	if out, code, err := shell.Do(s.Prelude + "\nclean " + strings.Join(made, " ")); err != nil || code != 0 {
		t.Errorf("clean up: exit code %d, %v\n%s", code, err, out)
	}
}
