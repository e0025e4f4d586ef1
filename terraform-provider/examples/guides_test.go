package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// The configurations in the guides about GitOps and about moving work when pasted alone.
func TestGuidesApply(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		for _, path := range matching(t, "guides/gitops/*.tf", "guides/moving-from-kubernetes-manifest/*.tf") {
			t.Run(path, func(t *testing.T) {
				createFixture(t)
				if strings.Contains(read(t, path), "import {") {
					createExisting(t, "search")
				}
				d := terraform.New(t, program, "")
				d.Variables = []string{"KUBE_CONFIG_PATH=" + testplane.Kubeconfig(t)}
				addExample(t, d, path)
				d.Run("apply", "-auto-approve")
				if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
					t.Errorf("the second plan is not empty: %v\n%s", err, out)
				}
			})
		}
	})
}

// createExisting creates a protector that the guide about moving imports.
func createExisting(t *testing.T, name string) {
	t.Helper()
	floor := intstr.FromString("70%")
	err := createAll(t, testplane.Client(t), &v1alpha1.PodProtector{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       v1alpha1.PodProtectorSpec{Selector: &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": name}}, MinAvailable: &floor},
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The guide about several cores is one configuration with a module.
func TestFederationGuide(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		createFixture(t)
		c, err := client.New(testplane.Second(t), client.Options{Scheme: clusters.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		if err := createAll(t, c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "breakwater-system"}}); err != nil {
			t.Fatal(err)
		}
		const guide = "guides/several-cores-and-workers"
		d := terraform.New(t, program, "")
		prepareDir(t, d)
		for _, path := range matching(t, guide+"/*.tf") {
			name, _ := strings.CutPrefix(path, guide+"/")
			d.Write(name, destructible(read(t, path)))
		}
		if err := os.Mkdir(filepath.Join(d.Path, "worker"), 0o700); err != nil {
			t.Fatal(err)
		}
		d.Write("worker/main.tf", read(t, guide+"/worker/main.tf"))
		d.Run("get") // fetches modules
		d.Run("apply", "-auto-approve")
		if _, err := d.Try("plan", "-detailed-exitcode"); err != nil {
			d.Run("apply", "-auto-approve") // the day, and so the version of the kubeconfigs, may have just changed
		}
		if out, err := d.Try("plan", "-detailed-exitcode"); err != nil {
			t.Errorf("the second plan is not empty: %v\n%s", err, out)
		}
		for core, c := range map[string]client.Client{"eu": testplane.Client(t), "us": c} {
			cells, secrets := &v1alpha1.CellList{}, &corev1.SecretList{}
			if err := c.List(t.Context(), cells); err != nil || len(cells.Items) != 2 {
				t.Errorf("core %s has %d Cells: %v", core, len(cells.Items), err)
			}
			if err := c.List(t.Context(), secrets, client.InNamespace("breakwater-system")); err != nil || len(secrets.Items) != 2 {
				t.Errorf("core %s has %d Secrets: %v", core, len(secrets.Items), err)
			}
		}
		d.Run("destroy", "-auto-approve")
	})
}
