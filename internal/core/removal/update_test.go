package removal_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// A change makes a pod unavailable if it restarts one of its containers, or ends it earlier.
func TestUpdateRestartsContainers(t *testing.T) {
	const (
		before = `{"name":"web-0","namespace":"default","uid":"u","generation":4}`
		status = `"status":{"containerStatuses":[{"name":"web","restartCount":2},{"name":"log"}],"initContainerStatuses":[{"name":"mesh","restartCount":7}]}`
		web    = `{"name":"web","image":"web:1","resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"RestartContainer"}],
			"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}`
		logs = `{"name":"log","image":"log:1"}`
		init = `{"name":"init","image":"init:1"},{"name":"mesh","image":"mesh:1","restartPolicy":"Always"}`
	)
	pod := func(metadata, containers, inits, more string) string {
		return fmt.Sprintf(`{"metadata":%s,"spec":{"nodeName":"n","containers":[%s],"initContainers":[%s]%s},%s}`, metadata, containers, inits, more, status)
	}
	all := []v1alpha1.ContainerRestarts{{Name: "web", Restarts: 3}, {Name: "log", Restarts: 1}, {Name: "mesh", Restarts: 8}}
	for claim, c := range map[string]struct {
		subresource                   string
		containers, inits, more, from string
		want                          []v1alpha1.ContainerRestarts
	}{
		"nothing":                                {containers: web + "," + logs, inits: init},
		"another image":                          {containers: strings.Replace(web, "web:1", "web:2", 1) + "," + logs, inits: init, want: all[:1]},
		"two images":                             {containers: strings.Replace(web, "web:1", "web:2", 1) + "," + strings.Replace(logs, "log:1", "log:2", 1), inits: init, want: all[:2]},
		"an init container, which has ended":     {containers: web + "," + logs, inits: strings.Replace(init, "init:1", "init:2", 1)},
		"a sidecar":                              {containers: web + "," + logs, inits: strings.Replace(init, "mesh:1", "mesh:2", 1), want: all[2:]},
		"a toleration":                           {containers: web + "," + logs, inits: init, more: `,"tolerations":[{"key":"a"}]`},
		"an earlier end of the pod":              {containers: web + "," + logs, inits: init, more: `,"activeDeadlineSeconds":1`, want: all},
		"the end that it had":                    {containers: web + "," + logs, inits: init, more: `,"activeDeadlineSeconds":9`, from: `,"activeDeadlineSeconds":9`},
		"a later end":                            {containers: web + "," + logs, inits: init, more: `,"activeDeadlineSeconds":10`, from: `,"activeDeadlineSeconds":9`},
		"a resource that restarts its container": {subresource: "resize", containers: strings.Replace(web, "1Gi", "2Gi", 1) + "," + logs, inits: init, want: all[:1]},
		"a limit of it":                          {subresource: "resize", containers: strings.Replace(web, `"resources":{`, `"resources":{"limits":{"memory":"1Gi"},`, 1) + "," + logs, inits: init, want: all[:1]},
		"a resource that restarts nothing":       {subresource: "resize", containers: strings.Replace(web, `"cpu":"1"`, `"cpu":"2"`, 1) + "," + logs, inits: init},
		"a resource without a policy":            {subresource: "resize", containers: web + "," + strings.Replace(logs, `"image"`, `"resources":{"limits":{"memory":"9Gi"}},"image"`, 1), inits: init},
	} {
		t.Run(claim, func(t *testing.T) {
			review := reviewOf(admissionv1.Update, c.subresource, pod(strings.Replace(before, "4", "5", 1), c.containers, c.inits, c.more))
			review.OldObject = runtime.RawExtension{Raw: []byte(pod(before, web+","+logs, init, c.from))}
			got, guarded, err := removal.Parse(review)
			if err != nil || guarded != (c.want != nil) {
				t.Fatalf("Parse() guarded = %v, error = %v", guarded, err)
			}
			if !guarded {
				return
			}
			if diff := cmp.Diff(c.want, got.Containers); diff != "" || got.Generation != 5 || got.PodName != "web-0" || got.Pod.UID != "u" {
				t.Errorf("Parse() = %+v\ncontainers (-want +got):\n%s", got, diff)
			}
		})
	}
	t.Run("an apiserver that counts no generations", func(t *testing.T) {
		none := strings.Replace(before, `,"generation":4`, "", 1)
		review := reviewOf(admissionv1.Update, "", pod(none, strings.Replace(web, "web:1", "web:2", 1), init, ""))
		review.OldObject = runtime.RawExtension{Raw: []byte(pod(none, web, init, ""))}
		if got, guarded, err := removal.Parse(review); err != nil || !guarded || got.Generation != math.MaxInt64 {
			t.Errorf("Parse() = %+v, guarded %v, error %v", got, guarded, err)
		}
	})
}
