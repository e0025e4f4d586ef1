package charts_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Each component has extraEnv, extraVolumes and extraVolumeMounts of its own, in addition to what the chart sets.
func TestExtrasReachEveryComponent(t *testing.T) {
	arguments := append(slices.Clone(fullRelease), "--set", "console.enabled=true,tls.mode=self-signed",
		"--set", "tracing.endpoint=http://collector:4318,tracing.env[0].name=OTEL_A,tracing.env[0].value=b")
	components := []string{"webhook", "aggregator", "generator", "topology", "sharder", "console", "certificates"}
	for _, component := range components {
		for key, value := range map[string]string{
			"extraEnv": `[{"name":"OF","value":"` + component + `"}]`, "extraVolumes": `[{"name":"extra","emptyDir":{}}]`,
			"extraVolumeMounts": `[{"name":"extra","mountPath":"/extra"}]`,
		} {
			arguments = append(arguments, "--set-json", component+"."+key+"="+value)
		}
	}
	seen := map[string]bool{}
	for _, d := range objectsOfKind[appsv1.Deployment](t, render(t, arguments...), "Deployment") {
		pod := d.Spec.Template.Spec
		container := pod.Containers[0]
		last := container.Env[len(container.Env)-1]
		if last.Name != "OF" {
			t.Errorf("%s: last environment variable %+v, want that of extraEnv", d.Name, last)
		}
		seen[last.Value] = true
		if last := container.VolumeMounts[len(container.VolumeMounts)-1]; last.MountPath != "/extra" {
			t.Errorf("%s: last mount %+v, want that of extraVolumeMounts", d.Name, last)
		}
		if last := pod.Volumes[len(pod.Volumes)-1]; last.Name != "extra" {
			t.Errorf("%s: last volume %+v, want that of extraVolumes", d.Name, last)
		}
	}
	if len(seen) != len(components) {
		t.Errorf("got the values of components %v, want of %v", seen, components)
	}
}

// global.imageRegistry replaces the registry of the repository, and keeps its path.
func TestGlobalRegistryReplacesTheRegistry(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for repository, want := range map[string]string{
		"breakwater":                "mirror.example:5000/cache/breakwater@" + digest,
		"breakwater-k8s/breakwater": "mirror.example:5000/cache/breakwater-k8s/breakwater@" + digest,
		"registry.example/a/b":      "mirror.example:5000/cache/a/b@" + digest,
		"localhost/b":               "mirror.example:5000/cache/b@" + digest,
		"localhost:5000/b":          "mirror.example:5000/cache/b@" + digest,
	} {
		objects := render(t, append(slices.Clone(fullRelease),
			"--set", "global.imageRegistry=mirror.example:5000/cache,image.digest="+digest+",image.repository="+repository)...)
		pods := objectsOfKind[corev1.Pod](t, objects, "Pod")
		for _, d := range objectsOfKind[appsv1.Deployment](t, objects, "Deployment") {
			pods = append(pods, &corev1.Pod{ObjectMeta: d.ObjectMeta, Spec: d.Spec.Template.Spec})
		}
		for _, pod := range pods {
			if got := pod.Spec.Containers[0].Image; got != want {
				t.Errorf("image of %s with repository %s: got %s, want %s", pod.Name, repository, got, want)
			}
		}
	}
}
