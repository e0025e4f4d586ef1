package accidents_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/install"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

const (
	namespaces = 5
	// replicas is the number of pods of each service. A rollout may make one of them unavailable, so the floor is one less.
	replicas, floor = 4, 3
	// policyLabel is the label of the services that a policy protects. The other services have the label that requests protection.
	policyLabel = "by-policy"
)

// allAccidents reports whether ACCIDENTS_ALL is set, as by make e2e: all accidents then affect all clusters, and more services.
var allAccidents = os.Getenv("ACCIDENTS_ALL") != ""

// perNamespace is the number of services of a namespace. Those of all namespaces are several times as many as the decreases that a window permits.
var perNamespace = func() int {
	if allAccidents {
		return 10
	}
	return 4
}()

// service is one of the workloads that an accident affects.
type service struct{ namespace, name string }

func (s service) protector() client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: "deployment-" + s.name}
}

// serviceCluster is a cluster with a Deployment of each service.
type serviceCluster struct {
	federation.Cluster
	client.Client
	// replicas is the number of replicas of each Deployment. isSource reports whether floors are derived from the Deployments of this
	// cluster. runsPods reports whether pods run in it.
	replicas           int32
	isSource, runsPods bool
}

// fixture has the namespaces, the policy and the services of an installation. The first cluster has the source Deployments.
type fixture struct {
	*e2e.Fixture
	prefix   string
	clusters []serviceCluster
	services []service
}

func newFixture(l *e2e.Fixture) *fixture {
	l.Helper()
	s := &fixture{Fixture: l, prefix: l.Namespace}
	for _, cluster := range l.Federation().Clusters() {
		c, err := install.Client(cluster)
		l.Must(err)
		at := serviceCluster{Cluster: cluster, Client: c, replicas: replicas, isSource: cluster.HasRole(federation.Core), runsPods: cluster.HasRole(federation.Worker)}
		if !at.isSource {
			at.replicas = int32(replicas / len(l.Federation().Workers()))
		}
		s.clusters = append(s.clusters, at)
	}
	for n := range namespaces {
		namespace := fmt.Sprintf("%s-%d", l.Namespace, n)
		for _, at := range s.clusters {
			l.Must(at.Create(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
		}
		for i := range perNamespace {
			s.services = append(s.services, service{namespace, fmt.Sprintf("service-%d", i)})
		}
	}
	l.Must(client.IgnoreAlreadyExists(s.Core.Create(l.Context(), s.newPolicy())))
	return s
}

// newDeployment returns the Deployment of a service in a cluster, as its chart defines it.
func (s *fixture) newDeployment(at serviceCluster, of service) *appsv1.Deployment {
	n, one, labels := at.replicas, intstr.FromInt32(1), map[string]string{"app": of.name}
	protection := map[string]string{v1alpha1.LabelProtect: "true"}
	switch {
	case !at.isSource:
		protection = nil
	case of.name < fmt.Sprint("service-", perNamespace/2):
		protection = map[string]string{policyLabel: "true"}
	}
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name, Labels: protection},
		Spec: appsv1.DeploymentSpec{
			Replicas: &n, Paused: !at.runsPods, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{
				Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &one},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: new(int64), Containers: []corev1.Container{{Name: "app", Image: storm.Image}},
				},
			},
		},
	}
}

// newPolicy returns a policy that protects the services with policyLabel. Its protectors are released when it is deleted.
func (s *fixture) newPolicy() *v1alpha1.ClusterProtectionPolicy {
	p := &v1alpha1.ClusterProtectionPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyLabel}}
	p.Spec.Workloads.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{policyLabel: "true"}}
	p.Spec.TargetRemovalPolicy = v1alpha1.TargetRemovalRelease
	return p
}

// writeChart writes a chart with the Deployments, and returns its folder.
func (s *fixture) writeChart(name string, services []service) string {
	s.Helper()
	folder := filepath.Join(s.TB.(*testing.T).TempDir(), name)
	s.Must(os.MkdirAll(filepath.Join(folder, "templates"), 0o750))
	s.Must(os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("apiVersion: v2\nname: "+name+"\nversion: 1.0.0\n"), 0o600))
	for _, of := range services {
		raw, err := yaml.Marshal(s.newDeployment(s.clusters[0], of))
		s.Must(err)
		s.Must(os.WriteFile(filepath.Join(folder, "templates", of.namespace+"-"+of.name+".yaml"), raw, 0o600))
	}
	return folder
}

// runHelm runs helm in a namespace of a user, in the first cluster.
func (s *fixture) runHelm(arguments ...string) {
	s.Helper()
	command, err := release.Helm(s.Context(), s.Dir(), append(arguments, "--namespace", s.prefix)...)
	s.Must(err)
	command.Env = append(command.Env, "KUBECONFIG="+s.clusters[0].Kubeconfig())
	if out, err := command.CombinedOutput(); err != nil {
		s.Fatalf("helm %v: %v\n%s", arguments, err, out)
	}
}

// runKubectl runs kubectl as the administrator of the first cluster.
func (s *fixture) runKubectl(arguments ...string) {
	s.Helper()
	s.runKubectlAt(s.clusters[0], arguments...)
}

func (s *fixture) runKubectlAt(at serviceCluster, arguments ...string) {
	s.Helper()
	e2e.RunTool(s.Context(), s, "kubectl", at.Kubeconfig(), arguments...)
}

// runKubectlInEachNamespace runs kubectl in each namespace of the services, in all clusters.
func (s *fixture) runKubectlInEachNamespace(arguments ...string) {
	s.Helper()
	for _, at := range s.clusters {
		s.runKubectlInNamespacesOf(at, arguments...)
	}
}

// runKubectlInNamespacesOf runs kubectl in each namespace of the services, in one cluster.
func (s *fixture) runKubectlInNamespacesOf(at serviceCluster, arguments ...string) {
	s.Helper()
	for n := range namespaces {
		s.runKubectlAt(at, slices.Concat(arguments, []string{"--namespace", fmt.Sprintf("%s-%d", s.prefix, n)})...)
	}
}

// restoreServices applies the original Deployments of all services. It waits until each service has its floor and no decrease is pending.
func (s *fixture) restoreServices() {
	s.Helper()
	s.applyAllDeployments(func(*appsv1.Deployment) {})
	s.waitForAllProtectors(func(p *v1alpha1.PodProtector) string {
		switch {
		case !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionTargetResolved):
			return "its source was not found"
		case meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionDecreasePending):
			return "a decrease is pending"
		case p.Spec.MinAvailable.IntValue() != floor:
			return "its floor differs"
		case p.Status.Summary.Available < replicas:
			return "not all of its pods are available"
		}
		return ""
	})
}

// applyAllDeployments applies the Deployments of all services in all clusters, after change has modified them. It repeats this for each
// Deployment until it is applied. It sends all requests at once: the limit of large decreases allows a few of them, so the first must not be
// observed a quiet period before the others.
func (s *fixture) applyAllDeployments(change func(*appsv1.Deployment)) {
	s.Helper()
	for _, at := range s.clusters {
		left := make(chan *appsv1.Deployment, len(s.services))
		var requests sync.WaitGroup
		for _, of := range s.services {
			d := s.newDeployment(at, of)
			change(d)
			requests.Go(func() {
				if s.tryToApply(at, d) != "" {
					left <- d
				}
			})
		}
		requests.Wait()
		close(left)
		for d := range left {
			s.applyDeployment(at, d)
		}
	}
}

// applyDeployment applies a Deployment and overrides the changes of other clients. If a Deployment of that name is still being deleted, it
// repeats this until the new one exists.
func (s *fixture) applyDeployment(at serviceCluster, d *appsv1.Deployment) {
	s.Helper()
	s.Eventually(func() string { return s.tryToApply(at, d) })
}

// tryToApply returns why the Deployment must be applied again, or "".
func (s *fixture) tryToApply(at serviceCluster, d *appsv1.Deployment) (problem string) {
	raw, err := yaml.Marshal(d)
	if err != nil {
		return err.Error()
	}
	applied := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
	if err := at.Patch(s.Context(), applied, client.RawPatch("application/apply-patch+yaml", raw), client.FieldOwner("team"), client.ForceOwnership); err != nil {
		return err.Error()
	}
	if applied.DeletionTimestamp != nil {
		return fmt.Sprintf("Deployment %s/%s is still being deleted", d.Namespace, d.Name)
	}
	return ""
}

// getProtectors returns all protectors, by key.
func (s *fixture) getProtectors() map[client.ObjectKey]*v1alpha1.PodProtector {
	s.Helper()
	var list v1alpha1.PodProtectorList
	s.Must(s.Core.List(s.Context(), &list))
	all := map[client.ObjectKey]*v1alpha1.PodProtector{}
	for i := range list.Items {
		all[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}
	return all
}

// waitForAllProtectors waits until each service has a protector for which unmet returns "".
func (s *fixture) waitForAllProtectors(unmet func(*v1alpha1.PodProtector) string) {
	s.Helper()
	s.Eventually(func() string {
		all, left, last := s.getProtectors(), 0, ""
		for _, of := range s.services {
			p := all[of.protector()]
			word := "it does not exist"
			if p != nil {
				word = unmet(p)
			}
			if word != "" {
				left, last = left+1, fmt.Sprintf("%s: %s: %+v", of.protector(), word, p)
			}
		}
		if left == 0 {
			return ""
		}
		return fmt.Sprintf("%d of %d protectors do not have the wanted state: %s", left, len(s.services), last)
	})
}

func pending(reason string) func(*v1alpha1.PodProtector) string {
	return func(p *v1alpha1.PodProtector) string {
		return conditionIs(p, v1alpha1.ConditionDecreasePending, metav1.ConditionTrue, reason)
	}
}

func resolved(reason string) func(*v1alpha1.PodProtector) string {
	return func(p *v1alpha1.PodProtector) string {
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionTargetResolved)
		if c == nil {
			return "it has no condition " + v1alpha1.ConditionTargetResolved
		}
		return conditionIs(p, v1alpha1.ConditionTargetResolved, c.Status, reason)
	}
}

func conditionIs(p *v1alpha1.PodProtector, kind string, status metav1.ConditionStatus, reason string) string {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil || c.Status != status || c.Reason != reason {
		return fmt.Sprintf("want %s=%s/%s", kind, status, reason)
	}
	return ""
}
