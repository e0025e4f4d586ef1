package chaos

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

func TestRolloutIsPartlyUpdatedOnlyByItsOwnTemplate(t *testing.T) {
	for claim, test := range map[string]struct {
		observed int64
		updated  int32
		want     bool
	}{
		"pods of the old template before the controller has observed the new one": {1, 8, false},
		"too few pods of the new template":                                        {2, 1, false},
		"a quarter of the pods":                                                   {2, 2, true},
	} {
		t.Run(claim, func(t *testing.T) {
			client := fake.NewClientset(&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2},
				Status:     appsv1.DeploymentStatus{ObservedGeneration: test.observed, UpdatedReplicas: test.updated},
			})
			p := &play{
				stage: &Stage{Cells: []storm.Cell{{Name: "worker-1", Client: client}}},
				app:   storm.Application{Namespace: "shop", Pods: 8},
			}
			if err := p.checkPartlyUpdated(t.Context()); (err == nil) != test.want {
				t.Errorf("checkPartlyUpdated() error %v, want an error: %t", err, !test.want)
			}
		})
	}
}
