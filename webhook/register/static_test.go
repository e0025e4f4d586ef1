package register_test

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/manifest"
	policyconfig "k8s.io/apiserver/pkg/admission/plugin/policy/config"
	policies "k8s.io/apiserver/pkg/admission/plugin/policy/manifest/loader"
	admissionconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	apiserver "k8s.io/apiserver/pkg/apis/apiserver/install"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/webhookconfig"
)

func staticOptions() register.Options {
	return register.Options{
		Name: "breakwater-cell-worker-1", Cell: "worker-1", Endpoint: register.Endpoint{URL: "https://breakwater.example:9443"},
		ExemptNamespaces: webhookconfig.DefaultExemptNamespaces(), TimeoutSeconds: 10,
	}
}

// staticObjects returns the objects of a cell with a pod selector, including scheduling policies.
func staticObjects(t *testing.T) []any {
	t.Helper()
	guarding, err := register.Configuration(staticOptions())
	if err != nil {
		t.Fatal(err)
	}
	scheduling, err := register.SchedulingConfiguration(staticOptions())
	if err != nil {
		t.Fatal(err)
	}
	selector := &v1alpha1.PodSelector{MatchLabels: map[string]string{"zone": "a"}}
	return []any{guarding, webhookconfig.LabelPolicy("worker-1", selector), webhookconfig.LabelBinding("worker-1"), scheduling}
}

func mustStatic(t *testing.T, objects []any, directory string, existing []byte) map[string]string {
	t.Helper()
	files, err := register.StaticFiles(objects, directory, existing)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{}
	for _, file := range files {
		contents[file.Path] = string(file.Content)
	}
	if last := files[len(files)-1].Path; last != register.StaticConfigurationFile {
		t.Errorf("the last file is %s, want %s: the directories that it names must exist", last, register.StaticConfigurationFile)
	}
	return contents
}

// kube-apiserver's own code reads the files.
func TestKubeAPIServerReadsStaticFiles(t *testing.T) {
	directory := t.TempDir()
	writeFiles(t, directory, mustStatic(t, staticObjects(t), directory, nil))
	validating := pluginDirectory(t, directory, "ValidatingAdmissionWebhook", webhookDirectory)
	mutating := pluginDirectory(t, directory, "MutatingAdmissionWebhook", webhookDirectory)
	policy := pluginDirectory(t, directory, "ValidatingAdmissionPolicy", policyDirectory)
	got := slices.Concat(
		loadWebhooks[*admissionregistrationv1.ValidatingWebhookConfiguration](t, validating),
		loadWebhooks[*admissionregistrationv1.MutatingWebhookConfiguration](t, mutating), loadPolicies(t, policy),
	)
	name := "breakwater-cell-worker-1.static.k8s.io"
	if diff := cmp.Diff([]string{name, name, name, name + " of policy " + name}, got); diff != "" {
		t.Errorf("kube-apiserver loads (-want +got):\n%s", diff)
	}
}

func TestKubeAPIServerReadsStaticFilesBesideExistingSettings(t *testing.T) {
	for claim, existing := range map[string]string{
		"an empty configuration of the plugin": "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n" +
			"plugins:\n- name: ValidatingAdmissionWebhook\n  configuration: {}\n",
		"the legacy version": "apiVersion: apiserver.k8s.io/v1alpha1\nkind: AdmissionConfiguration\n",
	} {
		t.Run(claim, func(t *testing.T) {
			directory := t.TempDir()
			writeFiles(t, directory, mustStatic(t, staticObjects(t)[:1], directory, []byte(existing)))
			want := filepath.Join(directory, "validating-webhooks")
			if got := pluginDirectory(t, directory, "ValidatingAdmissionWebhook", webhookDirectory); got != want {
				t.Errorf("kube-apiserver reads manifests from %q, want %q", got, want)
			}
		})
	}
}

func writeFiles(t *testing.T, directory string, contents map[string]string) {
	t.Helper()
	for name, content := range contents {
		file := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pluginDirectory returns the directory of manifests that kube-apiserver reads from the configuration of a plugin.
func pluginDirectory(t *testing.T, directory, plugin string, read func(io.Reader) (string, error)) string {
	t.Helper()
	scheme := runtime.NewScheme()
	apiserver.Install(scheme)
	provider, err := admission.ReadAdmissionConfiguration(nil, filepath.Join(directory, register.StaticConfigurationFile), scheme)
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := provider.ConfigFor(plugin)
	if err != nil || configuration == nil {
		t.Fatalf("configuration of plugin %s: %v, %v", plugin, configuration, err)
	}
	manifests, err := read(configuration)
	if err != nil {
		t.Fatalf("configuration of plugin %s: %v", plugin, err)
	}
	return manifests
}

func webhookDirectory(configuration io.Reader) (string, error) {
	loaded, err := admissionconfig.LoadConfig(configuration)
	if err != nil {
		return "", err
	}
	return loaded.StaticManifestsDir, nil
}

func policyDirectory(configuration io.Reader) (string, error) {
	loaded, err := policyconfig.LoadValidatingConfig(configuration)
	return loaded.StaticManifestsDir, err
}

func decoder(t *testing.T) runtime.Decoder {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := admissionregistrationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}

// accept accepts objects of one kind, as a plugin does.
func accept[T metav1.Object](object runtime.Object) ([]T, error) {
	if one, ok := object.(T); ok {
		return []T{one}, nil
	}
	return nil, policies.ErrUnrecognizedType
}

func loadWebhooks[T metav1.Object](t *testing.T, directory string) (names []string) {
	t.Helper()
	documents, _, err := manifest.LoadFiles(directory)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, document := range documents {
		object, _, err := decoder(t).Decode(document.Doc, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := accept[T](object)
		if err != nil {
			t.Fatalf("%s: %T: %v", document.FilePath, object, err)
		}
		for _, one := range accepted {
			if err := manifest.ValidateManifestName(one.GetName(), document.FilePath, seen); err != nil {
				t.Error(err)
			}
			names = append(names, one.GetName())
		}
	}
	return names
}

func loadPolicies(t *testing.T, directory string) (names []string) {
	t.Helper()
	policyOf := func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) string { return b.Spec.PolicyName }
	loaded, bindings, _, err := policies.LoadPolicyManifests(directory, decoder(t),
		accept[*admissionregistrationv1.ValidatingAdmissionPolicy], accept[*admissionregistrationv1.ValidatingAdmissionPolicyBinding], policyOf)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range loaded {
		names = append(names, one.Name)
	}
	for _, one := range bindings {
		names = append(names, one.Name+" of policy "+policyOf(one))
	}
	return names
}

func TestStaticFilesKeepOtherSettings(t *testing.T) {
	guarding := staticObjects(t)[:1]
	existing := `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  path: limits.yaml
- configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: /etc/kubernetes/webhooks.kubeconfig
  name: ValidatingAdmissionWebhook
`
	want := strings.Replace(existing, "webhooks.kubeconfig\n", "webhooks.kubeconfig\n    staticManifestsDir: /etc/breakwater/validating-webhooks\n", 1)
	got := mustStatic(t, guarding, "/etc/breakwater", []byte(existing))[register.StaticConfigurationFile]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", register.StaticConfigurationFile, diff)
	}
	again := mustStatic(t, guarding, "/etc/breakwater", []byte(got))[register.StaticConfigurationFile]
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("%s after a second run (-first +second):\n%s", register.StaticConfigurationFile, diff)
	}
}

func TestStaticFilesDeny(t *testing.T) {
	const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ValidatingAdmissionWebhook\n"
	for claim, test := range map[string]struct {
		change   func(*register.Options)
		existing string
		want     string
	}{
		"a Service": {
			change: func(o *register.Options) {
				o.Endpoint = register.Endpoint{ServiceNamespace: "a", ServiceName: "b", ServicePort: 443}
			},
			want: "cannot use Service a/b: kube-apiserver accepts only URLs in static manifests; use --url",
		},
		"an invalid name": {
			change: func(o *register.Options) { o.Name = "Breakwater" },
			want:   `static manifest "Breakwater.static.k8s.io": not a valid name`,
		},
		"a CA bundle without a certificate": {
			change: func(o *register.Options) { o.CABundle = []byte("PEM") },
			want:   "the CA bundle of https://breakwater.example:9443/cells/worker-1/validate has no PEM certificate",
		},
		"an invalid namespace": {
			change: func(o *register.Options) { o.Namespaces = []string{"a/b"} },
			want:   "namespace selector: ",
		},
		"a file of another kind": {
			existing: "apiVersion: v1\nkind: List\n",
			want: `admission.yaml: kind "List" of apiVersion "v1", want AdmissionConfiguration of apiserver.config.k8s.io/v1: remove the file, correct it, ` +
				`or set --static to another folder`,
		},
		"a file without a version": {existing: "kind: AdmissionConfiguration\n", want: `kind "AdmissionConfiguration" of apiVersion ""`},
		"a file of another version": {
			existing: "apiVersion: apiserver.config.k8s.io/v2\nkind: AdmissionConfiguration\n", want: `of apiVersion "apiserver.config.k8s.io/v2"`,
		},
		"a file that cannot be parsed":  {existing: "plugin: []\n", want: "admission.yaml: "},
		"a plugin with its own file":    {existing: header + "  path: hooks.yaml\n", want: "plugin ValidatingAdmissionWebhook is configured by file hooks.yaml"},
		"a plugin with other manifests": {existing: header + "  configuration: {staticManifestsDir: /other}\n", want: "already reads manifests from /other"},
	} {
		t.Run(claim, func(t *testing.T) {
			options := staticOptions()
			if test.change != nil {
				test.change(&options)
			}
			configuration, err := register.Configuration(options)
			if err != nil {
				t.Fatal(err)
			}
			_, err = register.StaticFiles([]any{configuration}, "/etc/breakwater", []byte(test.existing))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("StaticFiles() error %v, want %q", err, test.want)
			}
		})
	}
}
