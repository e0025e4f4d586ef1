package gitops

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/port"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/subprocess"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// WaitTimeout bounds every wait.
const WaitTimeout = time.Minute

// ProcessHost is a cluster with programs of other projects, which run as processes next to it. They have the same permissions as in a
// cluster.
type ProcessHost struct {
	client.Client
	Cluster federation.Cluster

	dir     string
	spawner *subprocess.Spawner
	close   sync.Once

	mu     sync.Mutex
	claims []*port.Claim // released by Close
}

// NewProcessHost returns a host without any process. It keeps its files in dir, which must exist.
func NewProcessHost(cluster federation.Cluster, dir string) (*ProcessHost, error) {
	c, err := client.New(cluster.RESTConfig(), client.Options{Scheme: clusters.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to cluster %s: %w", cluster.Name(), err)
	}
	return &ProcessHost{Client: c, Cluster: cluster, dir: dir, spawner: subprocess.NewSpawner()}, nil
}

// Close ends all processes of the host. Further calls do nothing.
func (s *ProcessHost) Close() { s.close.Do(s.stopProcesses) }

func (s *ProcessHost) stopProcesses() {
	s.spawner.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, claim := range s.claims {
		claim.Release()
	}
}

// Path returns the path of a file of the host.
func (s *ProcessHost) Path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// FreeAddress reserves a host:port for a process.
func (s *ProcessHost) FreeAddress() (string, error) {
	claim, err := port.NewClaim()
	if err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims = append(s.claims, claim)
	return claim.Address(), nil
}

// WaitUntil waits until problem returns "". Its error contains the last problem.
func WaitUntil(ctx context.Context, what string, problem func() string) error {
	ctx, cancel := context.WithTimeout(ctx, WaitTimeout)
	defer cancel()
	for {
		message := problem()
		if message == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %s", what, message)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// InstallCRDs installs the CRDs in the files that match a pattern, and waits until they are established.
func (s *ProcessHost) InstallCRDs(ctx context.Context, pattern string) error {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs in %s: %w", pattern, err)
	}
	var names []string
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		objects, err := Parse(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := s.Apply(ctx, objects); err != nil {
			return err
		}
		for _, object := range objects {
			names = append(names, object.GetName())
		}
	}
	for _, name := range names {
		if err := WaitUntil(ctx, name, func() string { return s.crdProblem(ctx, name) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *ProcessHost) crdProblem(ctx context.Context, name string) string {
	kind := schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
	definition, err := s.Read(ctx, kind, "", name)
	if err != nil {
		return err.Error()
	}
	if got := Condition(definition, "Established"); got.Status != metav1.ConditionTrue {
		return fmt.Sprintf("it is not established: %+v", got)
	}
	return ""
}

// CreateNamespaces creates the namespaces that do not exist.
func (s *ProcessHost) CreateNamespaces(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := client.IgnoreAlreadyExists(s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})); err != nil {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	return nil
}

// createServiceAccount creates a ServiceAccount with the rules in all namespaces, and returns the path of its kubeconfig.
func (s *ProcessHost) createServiceAccount(ctx context.Context, namespace, name string, rules []rbacv1.PolicyRule) (string, error) {
	meta := metav1.ObjectMeta{Name: "test-" + namespace + "-" + name}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
	} {
		if err := s.Create(ctx, object); err != nil {
			return "", err
		}
	}
	return release.WriteKubeconfig(ctx, s.Cluster.RESTConfig(), namespace, name, s.Path())
}
