package webhook_test

import (
	"fmt"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/breakwater-k8s/breakwater/e2e/harness/measure"
)

// BenchmarkStatusPatch measures the CPU time of the API server for a patch of a pod's status as kubelets send it, in a namespace that the
// webhook guards and in one that it does not. Each iteration is a round of 200 patches in either namespace. The match conditions leave
// all of them out, and no webhook runs: a call would fail.
func BenchmarkStatusPatch(b *testing.B) {
	const patches = 200
	guarded, free := newFixtureFor(b), newFixtureFor(b)
	for _, l := range []*fixture{guarded, free} {
		l.config = rest.CopyConfig(l.config)
		l.config.QPS = -1
		l.connect()
	}
	guarded.register(register.Endpoint{URL: "https://127.0.0.1:1", CABundle: newAuthority(b).pem()})
	guarded.awaitConfiguration(func(err error) bool { return err != nil })
	patch := func(l *fixture, pod *corev1.Pod) (cpuSeconds float64) {
		before := measure.APIServerCPU()
		for i := range patches {
			status := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"observedGeneration":1,"conditions":[{"type":"Ready","status":%q},{"type":"ContainersReady","status":%[2]q}],`+
				`"containerStatuses":[{"name":"web","ready":%t,"restartCount":%d,"image":"web","imageID":"web","state":{"running":{}}}]}}`,
				pod.UID, []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}[i%2], i%2 == 0, i)
			if err := l.patchPod(pod, status, "status"); err != nil {
				b.Fatal(err)
			}
		}
		return (measure.APIServerCPU() - before).Seconds()
	}
	pods := map[*fixture]*corev1.Pod{guarded: guarded.pod("web-0", ordinaryPod), free: free.pod("web-0", ordinaryPod)}
	for _, l := range []*fixture{guarded, free} {
		patch(l, pods[l]) // until the API server has compiled the conditions and has connections
	}
	spent := map[*fixture]float64{}
	rounds := 0
	for b.Loop() {
		order := []*fixture{guarded, free}
		if rounds%2 == 1 {
			order = []*fixture{free, guarded}
		}
		for _, l := range order {
			spent[l] += patch(l, pods[l])
		}
		rounds++
	}
	each := func(l *fixture) float64 { return 1000 * spent[l] / float64(rounds*patches) }
	b.ReportMetric(each(guarded), "guarded-ms/patch")
	b.ReportMetric(each(free), "unguarded-ms/patch")
	b.ReportMetric(spent[guarded]/spent[free], "ratio")
}

// ordinaryPod gives a pod about the size of those of a Deployment with a sidecar, as an API server stores them.
func ordinaryPod(p *corev1.Pod) {
	p.Labels["pod-template-hash"], p.Labels["app.kubernetes.io/part-of"] = "6d4cf56db6", "shop"
	p.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "2026-11-27T10:00:00Z", "prometheus.io/scrape": "true", "checksum/config": fmt.Sprintf("%064d", 7)}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-6d4cf56db6", UID: "1d6f0f3a-7f0f-4d3e-9c56-000000000000"}}
	p.Spec.Containers = nil
	for _, name := range []string{"web", "proxy"} {
		c := corev1.Container{Name: name, Image: "registry.example.com/shop/" + name + ":1.2.3", Args: []string{"--port=8080", "--log-level=info"}}
		for i := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", i), Value: fmt.Sprint("value-of-setting-", i)})
		}
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")}
		probe := &corev1.Probe{PeriodSeconds: 10}
		probe.HTTPGet = &corev1.HTTPGetAction{Path: "/ready"}
		probe.HTTPGet.Port.IntVal = 8080
		c.ReadinessProbe, c.LivenessProbe = probe, probe.DeepCopy()
		for _, volume := range []string{"config", "cache", "tls"} {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: "/var/run/" + volume})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true, Image: c.Image, ImageID: c.Image})
	}
	for _, name := range []string{"config", "cache", "tls"} {
		volume := corev1.Volume{Name: name}
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
		p.Spec.Volumes = append(p.Spec.Volumes, volume)
	}
}
