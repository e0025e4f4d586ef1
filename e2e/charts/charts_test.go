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

// The tests share a release, and the last of them, in the last file, uninstalls it.

func TestAStormOnWhatTheChartInstalls(t *testing.T) {
	single.Claim(t, "the floor holds, and all of the budget is used", func(l *e2e.Lab) {
		l.AwaitCells(installed.Complaints)
		e2e.Tempest{Pods: 60, Floors: []int{40}, Exhausts: true}.Rage(l)
		l.Must(installed.Complaints())
	})
}

func TestHelmTest(t *testing.T) {
	single.Claim(t, "an installation is tested by its users", func(l *e2e.Lab) {
		l.AwaitCells(installed.Complaints)
		if out, err := installed.Helm(l.Context(), "test", "breakwater"); err != nil {
			l.Fatalf("%v\n%s\n%v", err, out, installed.Complaints())
		}
		l.Must(installed.Complaints())
	})
}

// What a policy, a percentage, a rollout and a drain need of rights that a storm does not.
func TestNoComponentLacksARight(t *testing.T) {
	single.Claim(t, "a workload gets its protector, whose floor is a share of it, and is rolled out under it", func(l *e2e.Lab) {
		l.Must(l.Core.Create(l.Context(), policyOf(l)))
		deploy(l, 8)
		awaitProtector(l, "deployment-web", 6)
		// The generator knows how many pods its Deployment wants. Of others the aggregator finds out.
		share := intstr.FromString("75%")
		l.Protect(0, func(s *v1alpha1.PodProtectorSpec) { s.MinAvailable = &share })
		if p := awaitProtector(l, "web", 6); p.Status.ExpectedReplicas == nil || *p.Status.ExpectedReplicas != 8 {
			t.Errorf("expected replicas %v, want 8", p.Status.ExpectedReplicas)
		}
		roll(l)
		l.Must(installed.Complaints())
	})
}

func TestAnUpgradeInAStorm(t *testing.T) {
	single.Claim(t, "the floor holds while every component is replaced by that of another version of the chart", func(l *e2e.Lab) {
		next := nextVersion(t)
		upgrade := func(l *e2e.Lab, gale *storm.Storm) {
			l.AwaitRequests(gale, 20)
			out, err := installed.Helm(l.Context(), "upgrade", "breakwater", next, "--values", installed.Values, "--set", "podAnnotations.next=yes", "--wait")
			if err != nil {
				l.Fatalf("%v\n%s", err, out)
			}
		}
		e2e.Tempest{Pods: 60, Floors: []int{40}, During: upgrade}.Rage(l)
		for _, d := range deployments(l) {
			if d.Spec.Template.Annotations["next"] != "yes" || d.Status.UpdatedReplicas != *d.Spec.Replicas {
				t.Errorf("%s was not replaced: %+v", d.Name, d.Status)
			}
		}
		l.AwaitCells(installed.Complaints)
		l.Must(installed.Complaints())
	})
}

// policyOf asks for three quarters of each Deployment.
func policyOf(l *e2e.Lab) *v1alpha1.ProtectionPolicy {
	share := intstr.FromString("75%")
	policy := &v1alpha1.ProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "web"}}
	policy.Spec.Workloads.Kinds = []v1alpha1.WorkloadKind{{APIVersion: "apps/v1", Kind: "Deployment"}}
	policy.Spec.Floor = &v1alpha1.FloorRule{PodShare: v1alpha1.PodShare{MinAvailable: &share}}
	return policy
}

// deploy makes a Deployment of pods with app=web.
func deploy(l *e2e.Lab, replicas int32) {
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

// awaitProtector waits until a protector has that floor, and all pods are counted and available.
func awaitProtector(l *e2e.Lab, name string, floor int32) *v1alpha1.PodProtector {
	l.Helper()
	p := &v1alpha1.PodProtector{}
	l.Eventually(func() string {
		if err := l.Core.Get(l.Context(), client.ObjectKey{Namespace: l.Namespace, Name: name}, p); err != nil {
			return fmt.Sprintf("%v; %v", err, installed.Complaints())
		}
		if p.Status.DesiredAvailable != floor || p.Status.Summary.Available != p.Status.Summary.Total || p.Status.Summary.Total < floor {
			return fmt.Sprintf("%+v, want the floor %d; %v", p.Status, floor, installed.Complaints())
		}
		return ""
	})
	return p
}

// roll gives the pods of the Deployment another image, and waits until all have it. Its strategy takes down more at once than the
// floor allows, so that its controller is refused, and woken.
func roll(l *e2e.Lab) {
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

// nextVersion is a copy of the chart with another version.
func nextVersion(t *testing.T) string {
	t.Helper()
	next := filepath.Join(t.TempDir(), "breakwater")
	if err := os.CopyFS(next, os.DirFS(folder+"breakwater")); err != nil {
		t.Fatal(err)
	}
	about := filepath.Join(next, "Chart.yaml")
	raw, err := os.ReadFile(about)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), "\nversion: 0.", "\nversion: 99.", 1)
	if changed == string(raw) {
		t.Fatal("the chart has no version 0")
	}
	if err := os.WriteFile(about, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	return next
}

func deployments(l *e2e.Lab) []appsv1.Deployment {
	l.Helper()
	list := &appsv1.DeploymentList{}
	l.Must(l.Core.List(l.Context(), list, client.InNamespace(release.Namespace)))
	if len(list.Items) < 4 {
		l.Fatalf("%d Deployments, want those of 4 components", len(list.Items))
	}
	return list.Items
}
