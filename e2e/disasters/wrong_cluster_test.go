package disasters_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// applyDeployment changes the spec of a Deployment in a cell, like a tool that uses the manifest of another cluster.
func (l fixture) applyDeployment(cell storm.Cell, replicas int, image string) {
	l.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, replicas, image)
	_, err := cell.Client.AppsV1().Deployments(l.Namespace).Patch(l.Context(), "web-0", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	l.Must(err)
}

func TestDeploymentOfWrongClusterIsApplied(t *testing.T) {
	claim(t, "the workers' controllers remove pods down to the floor, and applying the right spec repairs it", func(l fixture) {
		l.CreateProtector(6)
		l.deployWorkloads(8)
		v := l.startPodWatch(6)
		end := v.startAttack()
		for _, cell := range l.Cells {
			l.applyDeployment(cell, 1, "registry.k8s.io/staging:1")
		}
		l.Eventually(l.missingReplicaSetDenial)
		v.waitForAvailable(6)
		l.waitForDenials("/web", "floor 6, available 6")
		end()

		for _, cell := range l.Cells {
			l.applyDeployment(cell, 4, storm.Image)
		}
		l.WaitForSummary(e2e.AllAvailable(8))
		for _, cell := range l.Cells {
			l.Eventually(func() string {
				pods := l.ExistingPods(cell)
				for i := range pods {
					if image := pods[i].Spec.Containers[0].Image; image != storm.Image {
						return fmt.Sprintf("pod %s of cell %s has image %s", pods[i].Name, cell.Name, image)
					}
				}
				return ""
			})
		}
	})
}

// missingReplicaSetDenial returns "" once a ReplicaSet of any cell was denied a removal. In one cell all removals may be admitted, if they
// use the whole budget.
func (l fixture) missingReplicaSetDenial() string {
	for _, cell := range l.Cells {
		events, err := cell.Client.CoreV1().Events(l.Namespace).List(l.Context(), metav1.ListOptions{FieldSelector: "reason=FailedDelete"})
		l.Must(err)
		if len(events.Items) > 0 {
			return ""
		}
	}
	return "no ReplicaSet of any cell was denied a removal yet"
}

func TestProtectorOfWrongClusterIsApplied(t *testing.T) {
	claim(t, "the generator reverts the fields that it owns", func(l fixture) {
		l.createProtectedSource(8)
		v := l.startPodWatch(6)
		wrong := []byte(`{"spec":{"minAvailable":0,"selector":{"matchLabels":{"app":"staging"}}}}`)
		p := l.getProtector(generatedName)
		applied := p.Generation
		_, err := l.applyProtector(p, wrong)
		l.Must(err)
		l.Eventually(func() string {
			now := l.getProtector(generatedName)
			if now.Generation < applied+2 || now.Spec.MinAvailable.IntValue() != 6 || now.Spec.Selector.MatchLabels["app"] != "web" {
				return fmt.Sprintf("the protector still has the spec of another cluster: %+v", now.Spec)
			}
			return ""
		})
		v.waitForExhaustedBudget(generatedName)
	})
}

func (l fixture) applyProtector(p *v1alpha1.PodProtector, patch []byte) (*v1alpha1.PodProtector, error) {
	now := p.DeepCopy()
	return now, l.Core.Patch(l.Context(), now, client.RawPatch(types.MergePatchType, patch))
}
