package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// writeStatic runs webhook-config for one cluster with a cell by labels, scheduling policies and a core. It returns the output.
func writeStatic(t *testing.T, folder, address string, more ...string) (output string) {
	t.Helper()
	certificate, _ := writeCertificate(t)
	for _, role := range [][]string{
		{"--cell", "local", "--pod-selector", "zone=a"}, {"--cell", "local", "--scheduling"}, {"--core", "local"},
	} {
		arguments := slices.Concat([]string{"webhook-config", "--static", folder, "--url", "https://" + address, "--ca-bundle", certificate}, role, more)
		out, err := commandOutput(t, arguments...)
		if err != nil {
			t.Fatal(err)
		}
		output += out
	}
	return output
}

func TestWebhookConfigWritesStaticManifests(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "admission")
	output := writeStatic(t, folder, "breakwater.example:9443", "--static-path", "/etc/kubernetes/breakwater")
	files := []string{
		"admission.yaml", "mutating-webhooks/breakwater-scheduling-local.yaml", "validating-policies/breakwater-cell-local.yaml",
		"validating-webhooks/breakwater-cell-local.yaml", "validating-webhooks/breakwater-core.yaml",
	}
	var got []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(folder, path)
			got = append(got, relative)
		}
		return err
	})
	if diff := cmp.Diff(files, got); err != nil || diff != "" {
		t.Errorf("files (-want +got):\n%s\n%v", diff, err)
	}
	for _, file := range files {
		if !strings.Contains(output, "Wrote "+filepath.Join(folder, file)+"\n") {
			t.Errorf("the output does not name %s:\n%s", file, output)
		}
	}
	for _, flag := range []string{
		"--admission-control-config-file=/etc/kubernetes/breakwater/admission.yaml\n", "--feature-gates=ManifestBasedAdmissionControlConfig=true ",
	} {
		if !strings.Contains(output, flag) {
			t.Errorf("the output does not name the flag %s:\n%s", flag, output)
		}
	}
}

func TestWebhookConfigRejectsStaticFlags(t *testing.T) {
	folder := t.TempDir()
	hook := []string{"webhook-config", "--cell", "a", "--url", "https://a:1"}
	wantError(t, "--static-path needs --static", append(hook, "--static-path", "/a")...)
	wantError(t, `--static-path "a": want an absolute path`, append(hook, "--static", folder, "--static-path", "a")...)
	wantError(t, "--static: cannot use Service a/b: kube-apiserver accepts only URLs", "webhook-config", "--cell", "a", "--service", "a/b", "--static", folder)
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, "--static: ", append(hook, "--static", file)...)
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("refused commands wrote files: %v, %v", entries, err)
	}
}

// This control plane has no webhook configurations in its API: its API server enforces those in the files. The webhook is unreachable.
func TestKubeAPIServerEnforcesStaticManifests(t *testing.T) {
	folder := t.TempDir()
	writeStatic(t, folder, testplane.FreeAddress(t))
	admin, err := client.New(testplane.WithArguments(t, "--feature-gates=ManifestBasedAdmissionControlConfig=true",
		"--admission-control-config-file="+filepath.Join(folder, "admission.yaml")), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	mustCreate(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: map[string]string{"zone": "a"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	mustCreate(t, admin, pod) // mutating webhooks with failurePolicy Ignore do not prevent it

	wantDenial := func(err error, words string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("got %v, want a denial that contains %q", err, words)
		}
	}
	wantDenial(admin.Delete(t.Context(), pod.DeepCopy()), `failed calling webhook "pods.breakwater.dev"`)
	moved := pod.DeepCopy()
	moved.Labels["zone"] = "b"
	wantDenial(admin.Update(t.Context(), moved), "the label zone says which Breakwater cell a pod belongs to")

	printed, err := commandOutput(t, "webhook-config", "--cell", "local", "--name", "breakwater-cell-local.static.k8s.io", "--url", "https://a:1")
	if err != nil {
		t.Fatal(err)
	}
	configuration := documents(t, printed)[0]
	wantDenial(admin.Create(t.Context(), configuration), "reserved for static manifest-based configurations")
	wantDenial(admin.Delete(t.Context(), configuration), "not found")

	// The way out: remove the file on the control plane node.
	if err := os.Remove(filepath.Join(folder, "validating-webhooks", "breakwater-cell-local.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the API server no longer calls the webhook", func() string {
		if err := admin.Delete(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
}
