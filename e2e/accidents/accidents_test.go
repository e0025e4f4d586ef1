package accidents_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
)

// massAccident is an accident that affects all or several services at once.
type massAccident struct {
	name  string
	cause func(s *fixture)
	// unobserved returns why a protector does not yet show the accident, or "" if it does. It is nil if nothing changes in the core.
	unobserved func(p *v1alpha1.PodProtector) string
	// repair undoes what restoreServices does not; nil means nothing.
	repair func(s *fixture)
	// inFederation reports whether the accident is also tested in a federation, where it affects all clusters at once.
	inFederation bool
}

func massAccidents() []massAccident {
	return []massAccident{
		{"helm-uninstall-of-an-umbrella", func(s *fixture) { s.runHelm("uninstall", "umbrella") }, pending(v1alpha1.ReasonLimitExceeded), nil, false},
		{"delete-deployments-all", func(s *fixture) {
			s.runKubectlInEachNamespace("delete", "deployments", "--all", "--wait=false")
		}, pending(v1alpha1.ReasonLimitExceeded), nil, true},
		{"etcd-loses-the-deployments", deleteDeploymentsFromEtcd, resolved(v1alpha1.ReasonSourceVanished), nil, false},
		{"specs-of-another-cluster", func(s *fixture) {
			one := int32(1)
			s.applyAllDeployments(func(d *appsv1.Deployment) { d.Spec.Replicas = &one })
		}, pending(v1alpha1.ReasonLimitExceeded), nil, false},
		{"rollout-bug-everywhere", rolloutBug, pending(v1alpha1.ReasonLimitExceeded), nil, true},
		{"scaled-to-0-by-a-script", func(s *fixture) { s.runKubectlInEachNamespace("scale", "deployments", "--all", "--replicas=0") }, pending(v1alpha1.ReasonLimitExceeded), nil, false},
		{"labels-removed", func(s *fixture) {
			s.Must(s.Core.Delete(s.Context(), s.newPolicy()))
			s.runKubectlInEachNamespace("label", "deployments", "--all", v1alpha1.LabelProtect+"-", policyLabel+"-")
		}, pending(v1alpha1.ReasonLimitExceeded), (*fixture).recreatePolicy, false},
		{"policy-deleted", func(s *fixture) { s.Must(s.Core.Delete(s.Context(), s.newPolicy())) }, func(p *v1alpha1.PodProtector) string {
			if p.Annotations[v1alpha1.AnnotationPolicy] == "" {
				return ""
			}
			return pending(v1alpha1.ReasonLimitExceeded)(p)
		}, (*fixture).recreatePolicy, false},
		{"drains-everywhere", evictAll, nil, nil, true},
		{"crd-of-the-owners-deleted", deleteOwners, func(p *v1alpha1.PodProtector) string {
			if p.Namespace[len(p.Namespace)-2:] != "-1" {
				return ""
			}
			return pending(v1alpha1.ReasonCascade)(p)
		}, nil, false},
		{"delete-podprotectors-all", func(s *fixture) {
			s.runKubectlInNamespacesOf(s.clusters[0], "delete", "podprotectors", "--all", "--wait=false")
		}, func(p *v1alpha1.PodProtector) string {
			return conditionIs(p, v1alpha1.ConditionTargetResolved, metav1.ConditionTrue, v1alpha1.ReasonDeletionHeld)
		}, nil, false},
	}
}

func TestAccidentsKeepFloorsInForce(t *testing.T) {
	singleSuite.Claim(t, "no accident that deletes, scales or edits many workloads at once lowers a floor or takes pods below it", func(l *e2e.Fixture) {
		s := newFixture(l)
		r := newReport("single", s)
		defer func() { s.Must(r.saveReport()) }()
		s.installServices()
		for _, b := range massAccidents() {
			r.Accidents[b.name] = s.runAccident(b)
		}
		s.measureTeardowns(r)
		r.Accidents["namespace-deleted"] = s.deleteNamespace(r)
		r.checkAccidents(s)
	})
}

// TestAccidentsInAFederation causes accidents that affect the sources in the core and the Deployments of all workers. It includes the
// accidents that affect only the core if ACCIDENTS_ALL is set, as make e2e does, because they take much time.
func TestAccidentsInAFederation(t *testing.T) {
	s := newFixture(startFederation(t))
	r := newReport("federation", s)
	defer func() { s.Must(r.saveReport()) }()
	s.installServices()
	for _, b := range massAccidents() {
		if allAccidents || b.inFederation {
			r.Accidents[b.name] = s.runAccident(b)
		}
	}
	if allAccidents {
		r.Accidents["namespace-deleted"] = s.deleteNamespace(r)
	}
	r.checkAccidents(s)
}

// installServices installs the services with an umbrella chart, and creates owners for some of them.
func (s *fixture) installServices() {
	s.Helper()
	s.runHelm("install", "umbrella", s.writeChart("umbrella", s.services))
	s.restoreServices()
	s.addOwners(s.services[perNamespace : 2*perNamespace])
}

// runAccident causes an accident, waits until Breakwater has observed it, and then tries to remove all pods.
func (s *fixture) runAccident(b massAccident) accident {
	s.Helper()
	started, o := time.Now(), s.watchPods()
	b.cause(s)
	if b.unobserved != nil {
		s.waitForAllProtectors(b.unobserved)
	}
	s.removeAllPods()
	result := accident{FloorsHeld: s.floorsHeld()}
	result.PodsBelowFloor, result.Removed = o.judgeSince(b.name)
	s.Logf("%s: %.0f %% of the floors held, %d pods removed, %s", b.name, 100*result.FloorsHeld, result.Removed, time.Since(started).Round(time.Second))
	if b.repair != nil {
		b.repair(s)
	}
	s.restoreServices()
	return result
}

// floorsHeld returns the share of the services whose protector is in force with at least the original floor.
func (s *fixture) floorsHeld() float64 {
	s.Helper()
	all, held := s.getProtectors(), 0
	for _, of := range s.services {
		p := all[of.protector()]
		if p != nil && slices.Contains(p.Finalizers, v1alpha1.FinalizerProtector) && p.Spec.MinAvailable.IntValue() >= floor {
			held++
		} else {
			s.Logf("floor of %v is not in force: %+v", of, p)
		}
	}
	return float64(held) / float64(len(s.services))
}

// recreatePolicy recreates the policy when the old one is deleted.
func (s *fixture) recreatePolicy() {
	s.Helper()
	s.Eventually(func() string {
		if err := client.IgnoreAlreadyExists(s.Core.Create(s.Context(), s.newPolicy())); err != nil {
			return err.Error()
		}
		p := s.newPolicy()
		if err := s.Core.Get(s.Context(), client.ObjectKeyFromObject(p), p); err != nil || p.DeletionTimestamp != nil {
			return fmt.Sprintf("the policy is still being deleted: %v", err)
		}
		return ""
	})
}

func deleteDeploymentsFromEtcd(s *fixture) {
	s.Helper()
	cluster, ok := s.clusters[0].Cluster.(*local.Cluster)
	if !ok {
		s.Fatal("the backend of the cluster gives no access to etcd")
	}
	etcd, err := cluster.DialEtcd()
	s.Must(err)
	defer etcd.Close()
	for n := range namespaces {
		ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
		keys, err := etcd.Get(ctx, fmt.Sprintf("/registry/deployments/%s-%d/", s.prefix, n), clientv3.WithPrefix(), clientv3.WithKeysOnly())
		s.Must(err)
		if len(keys.Kvs) != perNamespace {
			s.Fatalf("%d Deployments found in etcd, want %d", len(keys.Kvs), perNamespace)
		}
		// Delete each in a transaction of its own, like an API server. If one revision contains several deletions, a watch that restarts
		// may receive only some of them.
		for _, kv := range keys.Kvs {
			_, err := etcd.Delete(ctx, string(kv.Key))
			s.Must(err)
		}
		cancel()
	}
}

// rolloutBug gives all services a template whose pods never become ready, and a strategy that does not wait for them.
func rolloutBug(s *fixture) {
	s.Helper()
	all := intstr.FromString("100%")
	s.applyAllDeployments(func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{federation.ReadyAnnotation: "false"}
		d.Spec.Strategy.RollingUpdate.MaxUnavailable = &all
	})
}

func evictAll(s *fixture) {
	s.Helper()
	for _, cell := range s.Cells {
		for _, of := range s.services {
			pods, err := cell.Client.CoreV1().Pods(of.namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "app=" + of.name})
			s.Must(err)
			for _, pod := range pods.Items {
				// Most of the requests are denied. The oracle judges the result.
				_ = cell.Client.CoreV1().Pods(pod.Namespace).EvictV1(s.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
			}
		}
	}
}

// addOwners creates an owner of a custom kind for each service, as operators do.
func (s *fixture) addOwners(services []service) {
	s.Helper()
	s.applyJSON(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "applications.example.com"},
		"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "applications", "singular": "application", "kind": "Application", "listKind": "ApplicationList"},
		"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`)
	s.runKubectl("wait", "--for=condition=Established", "crd/applications.example.com")
	for _, of := range services {
		owner := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Application", "metadata": map[string]any{"namespace": of.namespace, "name": of.name},
		}}
		s.Eventually(func() string { return e2e.ErrorText(client.IgnoreAlreadyExists(s.Core.Create(s.Context(), owner))) })
	}
}

// applyJSON applies an object in JSON.
func (s *fixture) applyJSON(object string) {
	s.Helper()
	parsed := &unstructured.Unstructured{}
	s.Must(parsed.UnmarshalJSON([]byte(object)))
	s.Must(s.Core.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(parsed), client.FieldOwner("team")))
}

// deleteOwners deletes the CRD of the owners. The garbage collector then deletes each Deployment.
func deleteOwners(s *fixture) {
	s.Helper()
	for _, of := range s.services[perNamespace : 2*perNamespace] {
		owner := &unstructured.Unstructured{}
		owner.SetAPIVersion("example.com/v1")
		owner.SetKind("Application")
		s.Must(s.Core.Get(s.Context(), client.ObjectKey{Namespace: of.namespace, Name: of.name}, owner))
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: of.namespace, Name: of.name}}
		patch := fmt.Sprintf(`{"metadata": {"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Application", "name": %q, "uid": %q}]}}`, of.name, owner.GetUID())
		s.Must(s.Core.Patch(s.Context(), d, client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	s.runKubectl("delete", "crd", "applications.example.com", "--wait=false")
}
