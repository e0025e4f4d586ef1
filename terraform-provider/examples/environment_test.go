package examples_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/terraform"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// prepareDir prepares a working directory with everything that the examples assume on a user's machine: a home directory with a kubeconfig,
// a program that logs in to a cloud, certificates, and values for variables. One control plane represents all clusters except core-us.
func prepareDir(t *testing.T, d *terraform.Dir) {
	t.Helper()
	plane := testplane.Config(t)
	admin := testplane.AsServiceAccount(t, plane, testplane.Namespace(t), "admin", "cluster-admin")
	home := t.TempDir()
	writeKubeconfig(t, filepath.Join(home, ".kube"), map[string]*rest.Config{"core": plane, "core-eu": plane, "core-us": testplane.Second(t)})
	bin := filepath.Join(home, "bin")
	writeProgram(t, filepath.Join(bin, "aws"), credential(t, admin.BearerToken))
	d.Write("core-ca.crt", string(plane.CAData))
	d.Variables = append(d.Variables, "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "TF_VAR_core_token="+admin.BearerToken,
		"TF_VAR_worker_2_kubeconfig="+string(testplane.KubeconfigOf(t, plane)))
}

// writeKubeconfig writes a kubeconfig with a context for each cluster and no current context.
func writeKubeconfig(t *testing.T, folder string, clusters map[string]*rest.Config) {
	t.Helper()
	all := clientcmdapi.NewConfig()
	for name, config := range clusters {
		all.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
		all.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.WriteToFile(*all, filepath.Join(folder, "config")); err != nil {
		t.Fatal(err)
	}
}

// credential returns the output of a program that logs in.
func credential(t *testing.T, token string) string {
	t.Helper()
	said, err := json.Marshal(clientauthentication.ExecCredential{
		TypeMeta: metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"},
		Status:   &clientauthentication.ExecCredentialStatus{Token: token},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(said)
}

// writeProgram writes a program that prints a text.
func writeProgram(t *testing.T, path, prints string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho '"+prints+"'\n"), 0o700); err != nil { //nolint:gosec // a program is executable
		t.Fatal(err)
	}
}
