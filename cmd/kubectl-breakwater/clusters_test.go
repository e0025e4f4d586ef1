package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/plugin"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// writeContexts writes a kubeconfig with a context per configuration, and returns its path.
func writeContexts(t *testing.T, current string, configs map[string]*rest.Config) string {
	t.Helper()
	file := clientcmdapi.NewConfig()
	file.CurrentContext = current
	for name, config := range configs {
		file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
		file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
		file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// parsedFinder returns the ClusterFinder for these arguments.
func parsedFinder(t *testing.T, arguments ...string) *plugin.ClusterFinder {
	t.Helper()
	p := plugin.New(genericiooptions.NewTestIOStreamsDiscard())
	root := &cobra.Command{}
	p.Bind(root)
	if err := root.ParseFlags(arguments); err != nil {
		t.Fatal(err)
	}
	return p.Clusters
}

// clusterWithoutCRDs returns a cluster without the CRDs of Breakwater.
func clusterWithoutCRDs(t *testing.T) *rest.Config {
	t.Helper()
	config := testplane.Second(t)
	definitions := apiextensions.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	if err := definitions.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	testplane.Eventually(t, func() string {
		serves, err := hasCells(t.Context(), config)
		if err != nil || serves {
			return fmt.Sprintf("hasCells() = %v, %v, want false after the CRDs were deleted", serves, err)
		}
		return ""
	})
	return config
}

func TestCores(t *testing.T) {
	admin, other := testplane.Config(t), clusterWithoutCRDs(t)
	nowhere := &rest.Config{Host: "https://127.0.0.1:1"}
	path := writeContexts(t, "hub", map[string]*rest.Config{"hub": admin, "worker": other, "gone": nowhere})
	absent := filepath.Join(t.TempDir(), "absent")
	for claim, c := range map[string]struct {
		arguments []string
		hosts     []string
		errs      []string
	}{
		"the current context, which serves Cells":       {[]string{"--kubeconfig", path}, []string{admin.Host}, nil},
		"another context that is named":                 {[]string{"--kubeconfig", path, "--context", "worker", "--core-context", "hub"}, []string{admin.Host}, nil},
		"another kubeconfig":                            {[]string{"--kubeconfig", absent, "--core-kubeconfig", path}, []string{admin.Host}, nil},
		"several":                                       {[]string{"--core", "a=" + path, "--core", "b=" + path}, []string{admin.Host, admin.Host}, nil},
		"a context that is not a core":                  {[]string{"--kubeconfig", path, "--context", "worker"}, nil, []string{`context "worker" is not a core cluster`, "--core-context"}},
		"a context that does not answer":                {[]string{"--kubeconfig", path, "--context", "gone"}, nil, []string{"127.0.0.1:1 does not answer"}},
		"a context that does not exist":                 {[]string{"--kubeconfig", path, "--core-context", "none"}, nil, []string{"--core-context none", `"none" does not exist`}},
		"a context and named cores":                     {[]string{"--core-context", "hub", "--core", "a=" + path}, nil, []string{"set either"}},
		"a duplicate name":                              {[]string{"--core", "a=" + path, "--core", "a=" + path}, nil, []string{`"a" is given twice`}},
		"a core without a name":                         {[]string{"--core", path}, nil, []string{"NAME=KUBECONFIG"}},
		"a core with an unreachable kubeconfig":         {[]string{"--core", "a=" + absent}, nil, []string{"--core a=" + absent}},
		"a user without permissions":                    {[]string{"--kubeconfig", path, "--as", "eve"}, []string{admin.Host}, nil},
		"kubectl flags do not affect the other cluster": {[]string{"--kubeconfig", path, "--server", nowhere.Host, "--core-context", "hub"}, []string{admin.Host}, nil},
	} {
		t.Run(claim, func(t *testing.T) {
			cores, err := parsedFinder(t, c.arguments...).Cores(t.Context())
			wantErrors(t, err, c.errs)
			if len(cores) != len(c.hosts) {
				t.Fatalf("Cores() = %d cores, want %d: %v", len(cores), len(c.hosts), err)
			}
			for i := range cores {
				if cores[i].Config.Host != c.hosts[i] {
					t.Errorf("core %d has host %s, want %s", i, cores[i].Config.Host, c.hosts[i])
				}
			}
		})
	}
}

func TestCoresFromEnvironment(t *testing.T) {
	path := writeContexts(t, "worker", map[string]*rest.Config{"hub": testplane.Config(t), "worker": clusterWithoutCRDs(t)})
	t.Setenv("BREAKWATER_CORE_CONTEXT", "hub")
	t.Setenv("BREAKWATER_CORE_KUBECONFIG", path)
	cores, err := parsedFinder(t).Cores(t.Context())
	if err != nil || len(cores) != 1 || cores[0].Config.Host != testplane.Config(t).Host {
		t.Errorf("%v, %v", cores, err)
	}
}

func TestFlagsReplaceCoresFromEnvironment(t *testing.T) {
	hub := testplane.Config(t)
	path := writeContexts(t, "hub", map[string]*rest.Config{"hub": hub})
	t.Setenv("BREAKWATER_CORE_CONTEXT", "elsewhere")
	for _, arguments := range [][]string{{"--core", "east=" + path}, {"--kubeconfig", path, "--core-context", "hub"}, {"--core-kubeconfig", path}} {
		cores, err := parsedFinder(t, arguments...).Cores(t.Context())
		if err != nil || len(cores) != 1 || cores[0].Config.Host != hub.Host {
			t.Errorf("%v: %v, %v", arguments, cores, err)
		}
	}
	_, err := parsedFinder(t, "--kubeconfig", path).Cores(t.Context())
	wantErrors(t, err, []string{"core cluster of BREAKWATER_CORE_CONTEXT=elsewhere"})
}

func TestCoresKeepImpersonation(t *testing.T) {
	path := writeContexts(t, "hub", map[string]*rest.Config{"hub": testplane.Config(t)})
	c := parsedFinder(t, "--kubeconfig", path, "--core-context", "hub", "--as", "eve", "--as-group", "ops", "--request-timeout", "7s")
	cores, err := c.Cores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	config := cores[0].Config
	if config.Impersonate.UserName != "eve" || len(config.Impersonate.Groups) != 1 || config.Timeout.String() != "7s" || !strings.HasPrefix(config.UserAgent, "kubectl-breakwater/") {
		t.Errorf("impersonation %+v, timeout %s, user agent %s; want user eve with a group, 7s, and kubectl-breakwater/", config.Impersonate, config.Timeout, config.UserAgent)
	}
	err = cores[0].List(t.Context(), &v1alpha1.PodProtectorList{})
	wantErrors(t, cores[0].WithRemedy(err), []string{`User "eve" cannot list`, "request this permission"})
}

// createCellWebhooks creates a webhook configuration for removals in cells that matches no namespace.
func createCellWebhooks(t *testing.T, config *rest.Config, cells ...string) {
	t.Helper()
	hooks := kubernetes.NewForConfigOrDie(config).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	for _, cell := range cells {
		url := "https://127.0.0.1:1/cells/" + cell + "/validate"
		made.Webhooks = append(made.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name: cell + ".breakwater.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &ignore,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Delete},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		})
	}
	made, err := hooks.Create(t.Context(), made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hooks.Delete(context.Background(), made.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// createCell creates a Cell. If kubeconfig is not nil, it is stored in a Secret that the Cell names.
func createCell(t *testing.T, c client.Client, name string, kubeconfig []byte) {
	t.Helper()
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if kubeconfig != nil {
		namespace := testplane.Namespace(t)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"kubeconfig": kubeconfig}}
		if err := c.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		cell.Spec.KubeconfigSecretRef = &v1alpha1.KubeconfigSecretRef{Namespace: namespace, Name: name}
	}
	if err := c.Create(t.Context(), cell); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), cell) })
}

func TestCellClusters(t *testing.T) {
	admin, other := testplane.Config(t), clusterWithoutCRDs(t)
	path := writeContexts(t, "worker", map[string]*rest.Config{"hub": admin, "worker": other})
	createCellWebhooks(t, other, "mine")
	given := []string{"--kubeconfig", path, "--core-context", "hub"}
	cores, err := parsedFinder(t, given...).Cores(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	createCell(t, cores[0], "secret", testplane.KubeconfigOf(t, other))
	createCell(t, cores[0], "way-less", nil)
	for claim, c := range map[string]struct {
		cell      string
		arguments []string
		host      string
		found     plugin.ConnectionSource
		errs      []string
	}{
		"the context that is named":                                 {"mine", []string{"--cell-context", "mine=hub"}, admin.Host, plugin.FromFlag, nil},
		"the current context, which calls the webhook for the cell": {"mine", nil, other.Host, plugin.FromCurrentContext, nil},
		"the kubeconfig of the Secret":                              {"secret", nil, other.Host, plugin.FromSecret, nil},
		"a Cell without a kubeconfig":                               {"way-less", nil, "", "", []string{"--cell-context way-less=CONTEXT", "does not name a Secret"}},
		"no Cell":                                                   {"none", nil, "", "", []string{"--cell-context none=CONTEXT", `"none" not found`}},
		"a user without permissions":                                {"secret", []string{"--as", "eve"}, "", "", []string{"you may not list ValidatingWebhookConfigurations", "--cell-context secret=CONTEXT"}},
		"a context that does not exist":                             {"mine", []string{"--cell-context", "mine=none"}, "", "", []string{"--cell-context mine=none", "does not exist"}},
		"a flag without a context":                                  {"mine", []string{"--cell-context", "mine"}, "", "", []string{"want CELL=CONTEXT"}},
	} {
		t.Run(claim, func(t *testing.T) {
			of := parsedFinder(t, append(c.arguments, given...)...)
			cores, err := of.Cores(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, err := of.Cell(t.Context(), c.cell, func() ([]plugin.Core, error) { return cores, nil })
			wantErrors(t, err, c.errs)
			if err == nil && (got.Config.Host != c.host || got.Source != c.found || got.Cell != c.cell) {
				t.Errorf("Cell() = %+v, want host %s from %s", got, c.host, c.found)
			}
		})
	}
}

func TestCurrentCell(t *testing.T) {
	admin, other := testplane.Config(t), clusterWithoutCRDs(t)
	path := writeContexts(t, "worker", map[string]*rest.Config{"worker": other, "hub": admin})
	here := func(arguments ...string) (plugin.CellCluster, error) {
		return parsedFinder(t, append(arguments, "--kubeconfig", path)...).CurrentCell(t.Context())
	}
	_, err := here()
	wantErrors(t, err, []string{`the API server of context "worker" calls Breakwater for no cell`, "--cell NAME"})
	createCellWebhooks(t, other, "mine")
	if got, err := here(); err != nil || got.Cell != "mine" || got.Config.Host != other.Host {
		t.Errorf("CurrentCell() = %+v, %v", got, err)
	}
	_, err = here("--as", "eve")
	wantErrors(t, err, []string{"you may not list ValidatingWebhookConfigurations", "--cell NAME"})
	createCellWebhooks(t, other, "yours")
	_, err = here()
	wantErrors(t, err, []string{"has the cells mine, yours"})
}

// wantErrors checks that an error contains all words. Without words it checks that there is no error.
func wantErrors(t *testing.T, err error, words []string) {
	t.Helper()
	if len(words) == 0 && err != nil || len(words) > 0 && err == nil {
		t.Fatalf("error %v, want one that contains %q", err, words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q does not contain %q", err, word)
		}
	}
}

func TestArgumentsOfCompletionProgram(t *testing.T) {
	for name, want := range map[string]string{"kubectl-breakwater": "status", "/usr/bin/kubectl_complete-breakwater": "__complete status", "kubectl_complete-breakwater.exe": "__complete status"} {
		if got := strings.Join(plugin.Arguments([]string{name, "status"}), " "); got != want {
			t.Errorf("arguments() of %s = %q, want %q", name, got, want)
		}
	}
}

// hasCells reports whether a cluster serves Cells.
func hasCells(ctx context.Context, config *rest.Config) (bool, error) {
	c, err := client.New(config, client.Options{Scheme: clusters.Scheme()})
	if err == nil {
		err = c.List(ctx, &v1alpha1.CellList{})
	}
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}
