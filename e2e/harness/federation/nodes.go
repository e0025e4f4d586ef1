package federation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// controlPlaneTaint keeps pods from a node that runs only a control plane.
const controlPlaneTaint = "node-role.kubernetes.io/control-plane"

// CheckNodes returns an error unless a cluster has the wanted number of nodes, and pods can run on all of them. Nodes that run only a control
// plane need only be ready.
func CheckNodes(ctx context.Context, clients kubernetes.Interface, want int) error {
	nodes, err := clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if len(nodes.Items) < want {
		return fmt.Errorf("%d of %d nodes exist", len(nodes.Items), want)
	}
	var unready []error
	for i := range nodes.Items {
		unready = append(unready, checkAcceptsPods(&nodes.Items[i]))
	}
	return errors.Join(unready...)
}

// checkAcceptsPods returns why a node would not run pods. The taint of a new node stays for a moment after it is ready.
func checkAcceptsPods(node *corev1.Node) error {
	for _, taint := range node.Spec.Taints {
		if taint.Key != controlPlaneTaint {
			return fmt.Errorf("node %s is tainted %s", node.Name, taint.Key)
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", node.Name)
}
