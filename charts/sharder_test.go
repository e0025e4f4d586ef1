package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func deployment(t *testing.T, objects []*unstructured.Unstructured, name string) *appsv1.Deployment {
	t.Helper()
	all := objectsOfKind[appsv1.Deployment](t, objects, "Deployment")
	at := slices.IndexFunc(all, func(d *appsv1.Deployment) bool { return d.Name == name })
	if at < 0 {
		return nil
	}
	return all[at]
}

func TestSharderIsDisabledByDefault(t *testing.T) {
	for _, set := range []string{"single", "core", "worker", "mesh"} {
		for _, object := range render(t, "--values", "breakwater/ci/"+set+".yaml") {
			raw, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(raw), "sharder") {
				t.Errorf("%s: %s %s belongs to a sharder, want none", set, object.GetKind(), object.GetName())
			}
		}
	}
}

// TestSharderHasItsOwnCertificate checks the three TLS modes, and how API servers trust the certificate in each.
func TestSharderHasItsOwnCertificate(t *testing.T) {
	for set, want := range map[string]struct {
		secret, argument string
		authority        bool
	}{
		"sharder":     {"breakwater-sharder-tls", "--inject-ca-from=breakwater-system/breakwater-sharder", false},
		"self-signed": {"breakwater-sharder-tls", "--tls-ca=/etc/breakwater/tls/ca.crt", true},
		"own-secret":  {"sharder-certificate", "--tls-ca=/etc/breakwater/tls/ca.crt", true},
	} {
		t.Run(set, func(t *testing.T) {
			objects := render(t, "--values", "breakwater/ci/"+set+".yaml")
			d := deployment(t, objects, "breakwater-sharder")
			if d == nil || *d.Spec.Replicas != 2 {
				t.Fatalf("%+v", d)
			}
			volume, arguments := d.Spec.Template.Spec.Volumes[0].Secret, d.Spec.Template.Spec.Containers[0].Args
			if volume.SecretName != want.secret || slices.Contains(volume.Items, corev1.KeyToPath{Key: "ca.crt", Path: "ca.crt"}) != want.authority || len(volume.Items) > 3 {
				t.Errorf("unexpected certificate volume %+v", volume)
			}
			if !slices.Contains(arguments, want.argument) || !slices.Contains(arguments, "--service=breakwater-system/breakwater-sharder") {
				t.Errorf("arguments %q", arguments)
			}
			names := []string{"breakwater-sharder.breakwater-system.svc", "breakwater-sharder.breakwater-system.svc.cluster.local"}
			for _, c := range objectsOfKind[certmanagerv1.Certificate](t, objects, "Certificate") {
				if c.Name == "breakwater-sharder" && (c.Spec.SecretName != want.secret || !slices.Equal(c.Spec.DNSNames, names) || len(c.Spec.Usages) != 2) {
					t.Errorf("Certificate %+v", c.Spec)
				}
			}
			issuer := deployment(t, objects, "breakwater-sharder-certificates")
			if (issuer != nil) != (set == "self-signed") {
				t.Fatalf("no Deployment issues the certificate: %+v", issuer)
			}
			if issuer == nil {
				return
			}
			for _, argument := range []string{
				"--secret=breakwater-system/breakwater-sharder-tls", "--dns-name=" + names[0], "--dns-name=" + names[1],
				"--leader-election-lease=breakwater-sharder-certificates",
			} {
				if !slices.Contains(issuer.Spec.Template.Spec.Containers[0].Args, argument) {
					t.Errorf("argument %s is missing in %q", argument, issuer.Spec.Template.Spec.Containers[0].Args)
				}
			}
			other := deployment(t, objects, "breakwater-certificates")
			if maps.Equal(issuer.Spec.Selector.MatchLabels, other.Spec.Selector.MatchLabels) ||
				issuer.Spec.Template.Labels["app.kubernetes.io/component"] == other.Spec.Template.Labels["app.kubernetes.io/component"] {
				t.Errorf("two Deployments select the pods of %v", issuer.Spec.Selector)
			}
		})
	}
}

func TestSharderAccessesOnlyShardLeasesAndGrantedResources(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/sharder.yaml")
	var where []string
	for _, role := range objectsOfKind[rbacv1.Role](t, objects, "Role") {
		if role.Name == "breakwater-sharder-shards" {
			where = append(where, role.Namespace)
		}
	}
	slices.Sort(where)
	if !slices.Equal(where, []string{namespace, "clusters"}) {
		t.Errorf("the sharder may write Leases in %q", where)
	}
	if d := deployment(t, objects, "breakwater-sharder"); !slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--shard-namespaces=breakwater-system,clusters") {
		t.Errorf("arguments %q", d.Spec.Template.Spec.Containers[0].Args)
	}
	for _, role := range objectsOfKind[rbacv1.ClusterRole](t, objects, "ClusterRole") {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "leases") {
				t.Errorf("role %s grants access to the Leases of all namespaces", role.Name)
			}
		}
		if role.Name == "breakwater-sharder-resources" && (role.AggregationRule == nil || role.Rules != nil ||
			role.AggregationRule.ClusterRoleSelectors[0].MatchLabels["breakwater.dev/aggregate-to-sharder"] != "true") {
			t.Errorf("%+v", role)
		}
	}
}

// A namespace that is listed twice, or is the release's own, would render two Roles with one name.
func TestShardNamespacesAreDeduplicated(t *testing.T) {
	objects := render(t, "--values", "breakwater/ci/sharder.yaml", "--set", "sharder.shardNamespaces={clusters,"+namespace+"}")
	seen := map[string]bool{}
	for _, object := range objects {
		name := object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
		if seen[name] {
			t.Errorf("%s is rendered twice", name)
		}
		seen[name] = true
	}
}

func TestNetworkPolicyAllowsSharderReviews(t *testing.T) {
	policies := objectsOfKind[networkingv1.NetworkPolicy](t, render(t, "--values", "breakwater/ci/everything.yaml"), "NetworkPolicy")
	if len(policies) != 1 {
		t.Fatalf("got %d NetworkPolicies, want 1", len(policies))
	}
	for _, port := range policies[0].Spec.Ingress[0].Ports {
		if port.Port.IntValue() == 9444 {
			return
		}
	}
	t.Errorf("the sharder's port is not in %+v", policies[0].Spec.Ingress)
}
