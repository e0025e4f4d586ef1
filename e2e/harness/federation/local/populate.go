package local

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// populate creates the initial objects: the CRDs of Breakwater in a core, nodes in a worker.
func (c *Cluster) populate(ctx context.Context) error {
	if c.HasRole(federation.Core) {
		if err := federation.InstallDefinitions(ctx, c.identities.admin); err != nil {
			return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
		}
	}
	if c.HasRole(federation.Worker) && !c.options.WithoutControllers {
		if err := createNodes(ctx, c.identities.admin, c.spec); err != nil {
			return fmt.Errorf("cluster %s: %w", c.spec.Name, err)
		}
	}
	return nil
}

// createNodes creates kwok's RBAC objects and the nodes that it simulates.
func createNodes(ctx context.Context, admin *rest.Config, spec federation.ClusterSpec) error {
	clients, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return err
	}
	role, binding := kwokAccess()
	if _, err := clients.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the ClusterRole of kwok: %w", err)
	}
	if _, err := clients.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create the ClusterRoleBinding of kwok: %w", err)
	}
	for i := range spec.Nodes {
		if _, err := clients.CoreV1().Nodes().Create(ctx, node(spec.Name, i), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %d: %w", i, err)
		}
	}
	return nil
}

// node is large enough that the scheduler never runs out of room in a test.
func node(cluster string, i int) *corev1.Node {
	name := fmt.Sprintf("%s-node-%d", cluster, i+1)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("4Ti"),
		corev1.ResourcePods:   resource.MustParse("10000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname:   name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeHostName, Address: name},
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", (i+1)/256, (i+1)%256)},
			},
		},
	}
}

func kwokAccess() (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "federation:kwok"},
		Rules: []rbacv1.PolicyRule{
			rule("", "nodes", "get", "list", "watch"),
			rule("", "nodes/status", "patch", "update"),
			rule("", "pods", "get", "list", "watch", "patch", "delete"),
			rule("", "pods/status", "patch", "update"),
			rule("", "events", "create", "patch", "update"),
			rule("coordination.k8s.io", "leases", "get", "list", "watch", "create", "patch", "update"),
		},
	}
	return role, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kwokUser}},
	}
}
