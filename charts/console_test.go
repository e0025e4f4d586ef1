package charts_test

import (
	"slices"
	"strings"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

func TestConsoleIsDisabledByDefault(t *testing.T) {
	for _, set := range []string{"single", "core", "worker", "mesh", "self-signed"} {
		for _, object := range render(t, "--values", "breakwater/ci/"+set+".yaml") {
			if strings.Contains(object.GetName(), "console") {
				t.Errorf("%s: %s %s belongs to a console, want none", set, object.GetKind(), object.GetName())
			}
		}
	}
}

// The console serves its own certificate, in every TLS mode.
func TestConsoleHasItsOwnCertificate(t *testing.T) {
	names := []string{"breakwater-console.breakwater-system.svc", "breakwater-console.breakwater-system.svc.cluster.local", "breakwater.example"}
	objects := render(t, "--values", "breakwater/ci/console.yaml")
	d := deployment(t, objects, "breakwater-console")
	if d == nil || *d.Spec.Replicas != 1 {
		t.Fatalf("%+v", d)
	}
	volumes := d.Spec.Template.Spec.Volumes
	volume := volumes[slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == "tls" })].Secret
	if volume.SecretName != "breakwater-console-tls" || slices.Contains(volume.Items, corev1.KeyToPath{Key: "ca.crt", Path: "ca.crt"}) {
		t.Errorf("volume %+v", volume)
	}
	if arguments := d.Spec.Template.Spec.Containers[0].Args; !slices.Contains(arguments, "--session-lifetime=12h") || !slices.Contains(arguments, "--listen=:9443") {
		t.Errorf("arguments %q", arguments)
	}
	issuer := deployment(t, objects, "breakwater-console-certificates")
	if issuer == nil {
		t.Fatal("no Deployment issues the console's certificate")
	}
	for _, argument := range []string{"--secret=breakwater-system/breakwater-console-tls", "--dns-name=" + names[0], "--dns-name=" + names[1], "--dns-name=" + names[2]} {
		if !slices.Contains(issuer.Spec.Template.Spec.Containers[0].Args, argument) {
			t.Errorf("argument %s is missing in %q", argument, issuer.Spec.Template.Spec.Containers[0].Args)
		}
	}
	secrets := 0
	for _, s := range objectsOfKind[corev1.Secret](t, objects, "Secret") {
		if strings.HasPrefix(s.Name, "breakwater-console-tls") && len(s.Data) == 0 {
			secrets++
		}
	}
	if secrets != 2 {
		t.Errorf("%d empty Secrets, want 2", secrets)
	}
	found := false
	for _, c := range objectsOfKind[certmanagerv1.Certificate](t, render(t, "--values", "breakwater/ci/everything.yaml", "--set", "fullnameOverride=breakwater"), "Certificate") {
		if c.Name == "breakwater-console" {
			found = c.Spec.SecretName == "serving-console" && slices.Equal(c.Spec.DNSNames, names) && c.Spec.IssuerRef.Name == "browsers" && len(c.Spec.Usages) == 2
		}
	}
	if !found {
		t.Error("no Certificate for the console is rendered")
	}
}

func TestConsoleOfSeveralCores(t *testing.T) {
	d := deployment(t, render(t, "--values", "breakwater/ci/everything.yaml", "--set", "fullnameOverride=breakwater"), "breakwater-console")
	if d == nil {
		t.Fatal("no console is rendered")
	}
	pod := d.Spec.Template.Spec
	for name, want := range map[string][2]string{"west": {"console-core-west", "kubeconfig"}, "north": {"north-viewer", "config"}} {
		folder := "/etc/breakwater/cores/" + name
		if argument := "--core=" + name + "=" + folder + "/" + want[1]; !slices.Contains(pod.Containers[0].Args, argument) {
			t.Errorf("argument %s is missing in %q", argument, pod.Containers[0].Args)
		}
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == "core-"+name && v.Secret.SecretName == want[0] }) {
			t.Errorf("no volume of Secret %s in %+v", want[0], pod.Volumes)
		}
		if !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == folder && m.ReadOnly }) {
			t.Errorf("nothing is mounted at %s: %+v", folder, pod.Containers[0].VolumeMounts)
		}
	}
}

func TestConsoleKeepsHistory(t *testing.T) {
	values := []string{"--values", "breakwater/ci/console.yaml", "--set"}
	for set, want := range map[string]struct {
		argument, volume, claim string
		strategy                appsv1.DeploymentStrategyType
	}{
		"console.enabled=true":                     {"--history-file=/var/lib/breakwater/history", "history", "", ""},
		"console.history.persistence.enabled=true": {"--history-file=/var/lib/breakwater/history", "history", "breakwater-console-history", "Recreate"},
	} {
		objects := render(t, append(slices.Clone(values), set)...)
		d := deployment(t, objects, "breakwater-console")
		pod := d.Spec.Template.Spec
		if !slices.Contains(pod.Containers[0].Args, want.argument) || d.Spec.Strategy.Type != want.strategy {
			t.Errorf("%s: arguments %q, strategy %q, want %s and %q", set, pod.Containers[0].Args, d.Spec.Strategy.Type, want.argument, want.strategy)
		}
		if want.volume != "" && !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == want.volume }) {
			t.Errorf("%s: mounts %+v, want one of %s", set, pod.Containers[0].VolumeMounts, want.volume)
		}
		claims := objectsOfKind[corev1.PersistentVolumeClaim](t, objects, "PersistentVolumeClaim")
		if want.claim == "" && len(claims) == 0 && pod.SecurityContext.FSGroup == nil {
			continue
		}
		if len(claims) != 1 || claims[0].Name != want.claim || pod.SecurityContext.FSGroup == nil || *pod.SecurityContext.FSGroup != 65532 {
			t.Errorf("%s: claims %+v, fsGroup %v, want claim %q of group 65532", set, claims, pod.SecurityContext.FSGroup, want.claim)
		}
	}
}

func TestOnlyListedClientsReachTheConsole(t *testing.T) {
	for set, want := range map[string]struct{ port, peers int }{"console": {9443, 0}, "everything": {9445, 1}} {
		policies := objectsOfKind[networkingv1.NetworkPolicy](t, render(t, "--values", "breakwater/ci/"+set+".yaml"), "NetworkPolicy")
		found := false
		for _, rule := range policies[0].Spec.Ingress {
			if len(rule.Ports) == 1 && rule.Ports[0].Port.IntValue() == want.port {
				found = len(rule.From) == want.peers
			}
		}
		if !found {
			t.Errorf("%s: %+v", set, policies[0].Spec.Ingress)
		}
	}
	services := objectsOfKind[corev1.Service](t, render(t, "--values", "breakwater/ci/console.yaml"), "Service")
	if len(services) != 1 || services[0].Name != "breakwater-console" || services[0].Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		t.Errorf("%+v", services)
	}
}
