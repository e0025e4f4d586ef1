package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/internal/terraform"
	"github.com/breakwater-k8s/breakwater/internal/testplane"
)

// Every way into a cluster that the provider's page shows leads into one.
func TestTheWaysIntoAClusterLeadThere(t *testing.T) {
	each(t, func(t *testing.T, program string) {
		world(t)
		for _, path := range matching(t, "provider/provider*.tf") {
			t.Run(path, func(t *testing.T) {
				d := terraform.New(t, program, "")
				example := strings.ReplaceAll(read(t, path), "https://core.example:6443", testplane.Config(t).Host)
				if strings.Contains(example, "required_providers") {
					d.Write("main.tf", "")
				}
				d.Write("example.tf", example)
				d.Variables = home(t, d)
				d.Write("look.tf", "data \"breakwater_topology\" \"here\" {}\noutput \"server\" {\n  value = data.breakwater_topology.here.core.server\n}\n")
				d.Run("apply", "-auto-approve")
				if got := d.Run("output", "-raw", "server"); !strings.HasSuffix(got, testplane.Config(t).Host) {
					t.Errorf("it led to %s, want %s", got, testplane.Config(t).Host)
				}
				d.Run("destroy", "-auto-approve")
			})
		}
	})
}

// home is a home with a kubeconfig, and a program that logs in to a cloud.
func home(t *testing.T, d *terraform.Dir) []string {
	t.Helper()
	plane := testplane.Config(t)
	account := testplane.AsServiceAccount(t, plane, testplane.Namespace(t), "terraform", "cluster-admin")
	kubeconfig, err := clientcmd.Load(testplane.KubeconfigOf(t, plane))
	if err != nil {
		t.Fatal(err)
	}
	here := kubeconfig.Contexts[kubeconfig.CurrentContext]
	kubeconfig.Contexts = map[string]*clientcmdapi.Context{"core": here, "core-eu": here, "core-us": here}
	kubeconfig.CurrentContext = ""
	credential := clientauthentication.ExecCredential{Status: &clientauthentication.ExecCredentialStatus{Token: account.BearerToken}}
	credential.TypeMeta = metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"}
	said, err := json.Marshal(credential)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{".kube", "bin"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(folder, ".kube", "config")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "bin", "aws"), []byte("#!/bin/sh\necho '"+string(said)+"'\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	d.Write("core-ca.crt", string(plane.CAData))
	return []string{"HOME=" + folder, "PATH=" + filepath.Join(folder, "bin") + ":" + os.Getenv("PATH"), "TF_VAR_core_token=" + account.BearerToken}
}
