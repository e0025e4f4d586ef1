// Package testplane gives tests a real kube-apiserver and etcd with the CRDs of Breakwater installed.
package testplane

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/breakwater-k8s/breakwater/api/crds"
)

// BinariesVariable names the environment variable that lists, as PATH does, the folders of the control plane's
// programs. make sets it.
const BinariesVariable = "BREAKWATER_BINARIES"

var shared struct {
	sync.Once
	env    *envtest.Environment
	config *rest.Config
	err    error
}

// Main runs the tests of a package and stops the control plane that they shared; call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if shared.env != nil {
		if err := shared.env.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the test control plane:", err)
		}
	}
	os.Exit(code)
}

// Config returns an administrator's configuration for the control plane that all tests of the binary share. It
// starts it at the first call.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	shared.Do(start)
	if shared.err != nil {
		t.Fatalf("start the test control plane: %v", shared.err)
	}
	config := rest.CopyConfig(shared.config)
	config.QPS = -1
	return config
}

// Namespace makes a namespace of its own for a test.
func Namespace(t testing.TB) string {
	t.Helper()
	clientset := kubernetes.NewForConfigOrDie(Config(t))
	namespace, err := clientset.CoreV1().Namespaces().Create(context.Background(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	return namespace.Name
}

func start() {
	env := &envtest.Environment{}
	if env.ControlPlane.GetAPIServer().Path, shared.err = program("kube-apiserver"); shared.err != nil {
		return
	}
	env.ControlPlane.Etcd = &envtest.Etcd{}
	if env.ControlPlane.Etcd.Path, shared.err = program("etcd"); shared.err != nil {
		return
	}
	if env.CRDInstallOptions.CRDs, shared.err = definitions(); shared.err != nil {
		return
	}
	shared.config, shared.err = env.Start()
	shared.env = env
}

func program(name string) (string, error) {
	for _, folder := range filepath.SplitList(os.Getenv(BinariesVariable)) {
		if path := filepath.Join(folder, name); isFile(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is in no folder of %s: run the tests by `make test`", name, BinariesVariable)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(crds.FS, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		raw, err := crds.FS.ReadFile(file)
		if err != nil {
			return nil, err
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, crd); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, crd)
	}
	return all, nil
}
