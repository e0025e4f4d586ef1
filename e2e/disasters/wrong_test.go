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

// apply puts a Deployment's spec into a cell, as a tool does that was given the wrong cluster.
func (l lab) apply(cell storm.Cell, replicas int, image string) {
	l.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, replicas, image)
	_, err := cell.Client.AppsV1().Deployments(l.Namespace).Patch(l.Context(), "web-0", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	l.Must(err)
}

func TestAWrongClustersSpecIsApplied(t *testing.T) {
	claim(t, "the workers' controllers take down what the floor leaves, and the right spec mends it", func(l lab) {
		l.Protect(6)
		l.deploy(8)
		v := l.watch(6)
		end := v.siege()
		for _, cell := range l.Cells {
			l.apply(cell, 1, "registry.k8s.io/staging:1")
		}
		l.Eventually(l.refusedReplicaSet)
		v.awaitAvailable(6)
		l.awaitRefusals("/web", "floor 6, available 6")
		end()

		for _, cell := range l.Cells {
			l.apply(cell, 4, storm.Image)
		}
		l.AwaitSummary(e2e.AllAvailable(8))
		for _, cell := range l.Cells {
			l.Eventually(func() string {
				pods := l.Pods(cell)
				for i := range pods {
					if image := pods[i].Spec.Containers[0].Image; image != storm.Image {
						return fmt.Sprintf("pod %s of cell %s has the image %s", pods[i].Name, cell.Name, image)
					}
				}
				return ""
			})
		}
	})
}

// refusedReplicaSet is empty when a ReplicaSet of any cell was refused. One cell may get all it wants, if the budget was spent there.
func (l lab) refusedReplicaSet() string {
	for _, cell := range l.Cells {
		events, err := cell.Client.CoreV1().Events(l.Namespace).List(l.Context(), metav1.ListOptions{FieldSelector: "reason=FailedDelete"})
		l.Must(err)
		if len(events.Items) > 0 {
			return ""
		}
	}
	return "no ReplicaSet of any cell was refused yet"
}

func TestAWrongClustersProtectorIsApplied(t *testing.T) {
	claim(t, "the generator puts back what it owns", func(l lab) {
		l.protectSource(8)
		v := l.watch(6)
		wrong := []byte(`{"spec":{"minAvailable":0,"selector":{"matchLabels":{"app":"staging"}}}}`)
		p := l.protector(generated)
		applied := p.Generation
		_, err := l.applyProtector(p, wrong)
		l.Must(err)
		l.Eventually(func() string {
			now := l.protector(generated)
			if now.Generation < applied+2 || now.Spec.MinAvailable.IntValue() != 6 || now.Spec.Selector.MatchLabels["app"] != "web" {
				return fmt.Sprintf("the protector is still another's: %+v", now.Spec)
			}
			return ""
		})
		v.wantExhausted(generated)
	})
}

func (l lab) applyProtector(p *v1alpha1.PodProtector, patch []byte) (*v1alpha1.PodProtector, error) {
	now := p.DeepCopy()
	return now, l.Core.Patch(l.Context(), now, client.RawPatch(types.MergePatchType, patch))
}
