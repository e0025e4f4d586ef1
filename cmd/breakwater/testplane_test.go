package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// asProgram makes the test binary run as the program under test.
const asProgram = "BREAKWATER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	testplane.Main(m)
}

// runProgram runs the program as a separate process until stop or the end of the test. It must exit successfully on SIGTERM.
func runProgram(t *testing.T, arguments ...string) (stop func()) {
	t.Helper()
	var output bytes.Buffer
	command := exec.Command(os.Args[0], arguments...)
	command.Stdout, command.Stderr, command.Env = &output, &output, append(os.Environ(), asProgram+"=1")
	spawner := subprocess.NewSpawner()
	if err := spawner.Start(command); err != nil {
		spawner.Close()
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		defer spawner.Close()
		if err := errors.Join(command.Process.Signal(syscall.SIGTERM), command.Wait()); err != nil || t.Failed() {
			t.Errorf("%s exited with %v:\n%s", arguments[0], err, output.Bytes())
		}
	})
	t.Cleanup(stop)
	return stop
}

// writeKubeconfig writes a kubeconfig with the test's connection for a component.
func writeKubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	const name = "plane"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
