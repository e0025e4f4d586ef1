package join_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/cli/join"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// testPlanes are two clusters with controllers, which create the tokens of Secrets.
var testPlanes struct {
	sync.Once
	federation *local.Federation
	err        error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if testPlanes.federation != nil {
		if err := testPlanes.federation.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "stop the control planes:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func testClusters(t *testing.T) []federation.Cluster {
	t.Helper()
	testPlanes.Do(func() {
		roles := []federation.Role{federation.Core}
		topology := &federation.Topology{Name: "join", Clusters: []federation.ClusterSpec{{Name: "core", Roles: roles}, {Name: "worker", Roles: roles}}}
		testPlanes.federation, testPlanes.err = local.Start(context.Background(), topology,
			local.Options{Binaries: filepath.SplitList(os.Getenv(local.BinariesVariable)), Log: logr.Discard()})
	})
	if testPlanes.err != nil {
		t.Fatal(testPlanes.err)
	}
	return testPlanes.federation.Clusters()
}

// testCluster is one of the two clusters, in a namespace of the test.
type testCluster struct {
	admin client.Client
	// config impersonates a user with exactly the permissions that join needs.
	config *rest.Config
}

const joiner = "who-joins"

// fixture is a core and a worker with the chart installed.
type fixture struct {
	*testing.T
	core, worker testCluster
	namespace    string
}

func newFixture(t *testing.T) *fixture {
	t.Parallel()
	l := &fixture{T: t}
	both := testClusters(t)
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "join-"}}
	l.core, l.worker = l.connect(both[0]), l.connect(both[1])
	l.create(l.core, made)
	l.namespace = made.Name
	l.create(l.worker, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}})
	for _, p := range []testCluster{l.core, l.worker} {
		l.grant(p, join.NamespaceRules(), join.ClusterRules(l.account()), rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: joiner})
		l.create(p, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.account()}})
	}
	access := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: l.namespace, Name: l.account()}
	shared := []rbacv1.PolicyRule{
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"breakwater.dev"}, Resources: []string{"podprotectors/status"}, Verbs: []string{"update"}},
	}
	l.grant(l.core, nil, shared, access)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: l.account() + "-cell"}, Rules: shared}
	l.create(l.core, role)
	l.Cleanup(func() { _ = l.core.admin.Delete(context.Background(), role) })
	l.grant(l.worker, nil, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: []string{"kube-system"}, Verbs: []string{"get"}},
	}, access)
	return l
}

// account returns the ServiceAccount of the chart. It is also the name prefix of cluster-scoped bindings.
func (l *fixture) account() string { return "access-" + l.namespace }

// ownAccount returns the ServiceAccount of the cell in the core.
func (l *fixture) ownAccount() string { return l.account() + "-" + l.namespace }

func (l *fixture) connect(cluster federation.Cluster) testCluster {
	l.Helper()
	admin, err := client.New(cluster.RESTConfig(), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		l.Fatal(err)
	}
	config := cluster.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: joiner}
	return testCluster{admin: admin, config: config}
}

func (l *fixture) create(p testCluster, object client.Object) {
	l.Helper()
	if err := p.admin.Create(l.Context(), object); err != nil {
		l.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// grant gives a subject the permissions of the rules, in the lab's namespace and in the whole cluster.
func (l *fixture) grant(p testCluster, namespaced, clusterWide []rbacv1.PolicyRule, subject rbacv1.Subject) {
	l.Helper()
	meta := metav1.ObjectMeta{Name: l.namespace + "-" + subject.Name}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: clusterWide}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{subject}}
	l.create(p, role)
	l.create(p, binding)
	l.Cleanup(func() {
		_ = p.admin.Delete(context.Background(), role)
		_ = p.admin.Delete(context.Background(), binding)
	})
	if namespaced == nil {
		return
	}
	meta.Namespace = l.namespace
	l.create(p, &rbacv1.Role{ObjectMeta: meta, Rules: namespaced})
	l.create(p, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{subject}})
}

func (l *fixture) eventually(look func() string) {
	l.Helper()
	testplane.Eventually(l, look)
}
