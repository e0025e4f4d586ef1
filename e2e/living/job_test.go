package living_test

import (
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

func TestJob(t *testing.T) {
	claim(t, "a suspended Job keeps its protected pods until budget exists", func(l *fixture) {
		jobs := here(l).Client.BatchV1().Jobs(l.Namespace)
		_, err := jobs.Create(l.Context(), newHeldJob(), metav1.CreateOptions{})
		l.Must(err)
		createDeployment(l, elsewhere(l), "elsewhere", 2)
		k := startFloorWatch(l, 5, 5)
		_, err = jobs.Patch(l.Context(), "here", types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
		l.Must(err)
		waitForDenialEvent(l, here(l), "Job", "FailedDelete")
		k.expectNoRemoval()

		scaleDeployment(l, elsewhere(l), "elsewhere", 5)
		waitForPods(l, 0)
		l.Eventually(func() string {
			job, err := jobs.Get(l.Context(), "here", metav1.GetOptions{})
			l.Must(err)
			for _, c := range job.Status.Conditions {
				if c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue && job.Status.Active == 0 {
					return ""
				}
			}
			return fmt.Sprintf("the Job is not suspended: %+v", job.Status)
		})
		l.WaitForSummary(e2e.AllAvailable(5))
	})
}

// newHeldJob returns a Job with three pods that do not complete.
func newHeldJob() *batchv1.Job {
	three := int32(3)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "here"}}
	job.Spec.Parallelism, job.Spec.Completions = &three, &three
	job.Spec.Template = podTemplate("here", func(t *corev1.PodTemplateSpec) {
		t.Annotations = map[string]string{federation.CompleteAnnotation: "held"}
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
	})
	return job
}
