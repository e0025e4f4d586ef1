package charts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// The tests share a release. The last test, which is in the last file, uninstalls it.

func TestStormOnInstalledChart(t *testing.T) {
	single.Claim(t, "the floor holds, and the whole budget is used", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		e2e.FaultStorm{Pods: 60, FloorsByCore: []int{40}, ExhaustsBudget: true}.Run(l)
		l.Must(installed.Problems())
	})
}

func TestHelmTest(t *testing.T) {
	single.Claim(t, "helm test succeeds", func(l *e2e.Fixture) {
		l.WaitForReadyCells(installed.Problems)
		if out, err := installed.Helm(l.Context(), "test", "breakwater"); err != nil {
			l.Fatalf("%v\n%s\n%v", err, out, installed.Problems())
		}
		l.Must(installed.Problems())
	})
}

// TestComponentsHaveRights covers the permissions for policies, percentages, rollouts and drains, which a storm does not need.
func TestComponentsHaveRights(t *testing.T) {
	single.Claim(t, "a workload gets a protector with a percentage floor, and is rolled out under it", func(l *e2e.Fixture) {
		l.Must(l.Core.Create(l.Context(), createPolicy(l)))
		createDeployment(l, 8)
		waitForProtector(l, "deployment-web", 6)
		// The generator determines the expected replicas of its own protectors from the Deployment. The aggregator determines those of
		// other protectors.
		share := intstr.FromString("75%")
		l.CreateProtector(0, func(s *v1alpha1.PodProtectorSpec) { s.MinAvailable = &share })
		if p := waitForProtector(l, "web", 6); p.Status.ExpectedReplicas == nil || *p.Status.ExpectedReplicas != 8 {
			t.Errorf("expected replicas %v, want 8", p.Status.ExpectedReplicas)
		}
		rollImage(l)
		l.Must(installed.Problems())
	})
}

func TestUpgradeDuringStorm(t *testing.T) {
	single.Claim(t, "the floor holds during an upgrade of all components to another chart version", func(l *e2e.Fixture) {
		next := nextVersion(t)
		upgrade := func(l *e2e.Fixture, load *storm.Storm) {
			l.WaitForRequests(load, 20)
			out, err := installed.Helm(l.Context(), "upgrade", "breakwater", next, "--values", installed.Values, "--set", "podAnnotations.next=yes", "--wait")
			if err != nil {
				l.Fatalf("%v\n%s", err, out)
			}
		}
		e2e.FaultStorm{Pods: 60, FloorsByCore: []int{40}, DuringStorm: upgrade}.Run(l)
		for _, d := range deployments(l) {
			if d.Spec.Template.Annotations["next"] != "yes" || d.Status.UpdatedReplicas != *d.Spec.Replicas {
				t.Errorf("%s was not replaced: %+v", d.Name, d.Status)
			}
		}
		l.WaitForReadyCells(installed.Problems)
		l.Must(installed.Problems())
	})
}

// createPolicy returns a policy with a floor of three quarters of each Deployment.
func createPolicy(l *e2e.Fixture) *v1alpha1.ProtectionPolicy {
	share := intstr.FromString("75%")
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
	policy.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	policy.Spec.Floor = &v1alpha1.FloorRule{PodShare: v1alpha1.PodShare{MinAvailable: &share}}
	return policy
}

// createDeployment creates a Deployment of pods labeled app=web.
func createDeployment(l *e2e.Fixture, replicas int32) {
	l.Helper()
	labels := map[string]string{"app": "web"}
	grace, noToken := int64(0), false
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &noToken,
		Containers: []corev1.Container{{Name: "app", Image: storm.Image}},
	}}
	l.Must(l.Core.Create(l.Context(), d))
}

// waitForProtector waits until a protector has the floor, and all pods are counted and available.
func waitForProtector(l *e2e.Fixture, name string, floor int32) *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	l.Eventually(func() string {
		if err := l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: name}, p); err != nil {
			return fmt.Sprintf("%v; %v", err, installed.Problems())
		}
		if p.Status.DesiredAvailable != floor || p.Status.Summary.Available != p.Status.Summary.Total || p.Status.Summary.Total < floor {
			return fmt.Sprintf("%+v, want the floor %d; %v", p.Status, floor, installed.Problems())
		}
		return ""
	})
	return p
}

// rollImage changes the image of the Deployment, and waits until all pods have it. The strategy allows more unavailable pods than the floor
// does, so that the Deployment's controller is denied removals and retries.
func rollImage(l *e2e.Fixture) {
	l.Helper()
	l.Must(l.Core.Patch(l.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}},
		client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"100%"}},
			"template":{"spec":{"containers":[{"name":"app","image":"`+storm.Image+`.1"}]}}}}`))))
	l.Eventually(func() string {
		d := &appsv1.Deployment{}
		l.Must(l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: "web"}, d))
		if d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != *d.Spec.Replicas || d.Status.Replicas != *d.Spec.Replicas ||
			d.Status.AvailableReplicas != *d.Spec.Replicas {
			return fmt.Sprintf("%+v", d.Status)
		}
		return ""
	})
}

// nextVersion returns the folder of a copy of the chart with another version.
func nextVersion(t *testing.T) string {
	t.Helper()
	return editChart(t, "Chart.yaml", "\nversion: 0.", "\nversion: 99.")
}

// editChart returns the folder of a copy of the chart in which the first occurrence of a text in a file is replaced.
func editChart(t *testing.T, file, old, replacement string) string {
	t.Helper()
	edited := filepath.Join(t.TempDir(), "breakwater")
	if err := os.CopyFS(edited, os.DirFS(folder+"breakwater")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(edited, file)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), old, replacement, 1)
	if changed == string(raw) {
		t.Fatalf("%s of the chart does not contain %q", file, old)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return edited
}

func deployments(l *e2e.Fixture) []appsv1.Deployment {
	l.Helper()
	list := &appsv1.DeploymentList{}
	l.Must(l.Core.List(l.Context(), list, client.InNamespace(release.Namespace)))
	if len(list.Items) < 4 {
		l.Fatalf("%d Deployments, want those of 4 components", len(list.Items))
	}
	return list.Items
}
