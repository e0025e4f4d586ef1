package sharding_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/breakwater-k8s/breakwater/api/sharding"
	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestNewReportsInvalidOptions(t *testing.T) {
	t.Parallel()
	r := newRing(t, 15)
	for name, ring := range map[string]string{"theirs": "another", "election": ""} {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.name, Name: name}}
		if ring != "" {
			lease.Labels = map[string]string{v1alpha1.LabelRing: ring}
		}
		if err := r.Create(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	for claim, of := range map[string]struct {
		options sharding.Options
		says    string
	}{
		"no ring":                             {sharding.Options{Name: "a"}, "set Ring"},
		"a ring that the rights do not cover": {sharding.Options{Ring: "another", Name: "a"}, `clusterrings.breakwater.dev "another" is forbidden`},
		"a namespace that is not the ring's":  {sharding.Options{Ring: r.name, Name: "a", Namespace: "another"}, "set spec.shardNamespace of the ring"},
		"a name that is none":                 {sharding.Options{Ring: r.name, Name: "a.b"}, `a label value, for which "a.b" is invalid`},
		"a name that is too long":             {sharding.Options{Ring: r.name, Name: strings.Repeat("a", 64)}, "no more than 63"},
		"a Lease of another ring":             {sharding.Options{Ring: r.name, Name: "theirs"}, `belongs to a shard of ring "another"`},
		"a Lease that is no shard's":          {sharding.Options{Ring: r.name, Name: "election"}, "does not belong to a shard"},
		"the name of a host, and a Lease":     {sharding.Options{Ring: r.name, Namespace: r.name}, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			s, err := sharding.New(t.Context(), r.account, of.options)
			if of.says == "" {
				if err != nil || s.Name() == "" || !strings.HasPrefix(s.Identity(), s.Name()+"_") {
					t.Errorf("New() error = %v, shard %v", err, s)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), of.says) {
				t.Errorf("error = %v, want it to contain %q", err, of.says)
			}
		})
	}
}

func TestNewReportsAMissingRing(t *testing.T) {
	t.Parallel()
	r := newRing(t, 15)
	if err := r.Delete(t.Context(), &v1alpha1.ClusterRing{ObjectMeta: metav1.ObjectMeta{Name: r.name}}); err != nil {
		t.Fatal(err)
	}
	_, err := sharding.New(t.Context(), r.account, sharding.Options{Ring: r.name, Name: "a"})
	if err == nil || !strings.Contains(err.Error(), "create it before its shards start") {
		t.Errorf("it says %v", err)
	}
}

func TestUnassignedTypesAreRejected(t *testing.T) {
	t.Parallel()
	r := newRing(t, 15)
	start := func(objects ...client.Object) (*sharding.Shard, manager.Manager, error) {
		s, err := sharding.New(t.Context(), r.account, sharding.Options{Ring: r.name, Name: "a", Objects: objects})
		if err != nil {
			t.Fatal(err)
		}
		mgr, err := s.NewManager(manager.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
		return s, mgr, err
	}
	if _, _, err := start(&corev1.Secret{}); err == nil || !strings.Contains(err.Error(), "does not assign secrets to shards: add them to spec.resources or") {
		t.Errorf("a cache of what is not assigned: %v", err)
	}
	s, mgr, err := start(&appsv1.Deployment{}, &corev1.ConfigMap{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconciler(mgr, &corev1.ConfigMap{}, nil); err == nil || !strings.Contains(err.Error(), "does not assign configmaps to shards: add them to spec.resources,") {
		t.Errorf("a reconciler of what is only controlled: %v", err)
	}
	if _, err := s.Reconciler(mgr, &appsv1.Deployment{}, nil); err != nil {
		t.Errorf("a reconciler of a main resource: %v", err)
	}
}
